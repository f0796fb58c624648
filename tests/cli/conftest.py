"""Commands as people and scripts run them: the real program, a real daemon in a home of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gputui.cli.main import main
from tests.support.daemon import Daemon, until
from tests.support.daemon import daemon as running_daemon

LIMIT_S = 120


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def gputui(home: Path) -> Run:
    """Run one command to its end; keywords: `input` text, `env` additions, `cwd`."""

    def run(*words: str | bytes, input: str = "", env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:  # noqa: A002
        done = subprocess.run(
            [sys.executable, "-P", "-m", "gputui.cli", *words],
            input=input.encode(),
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=cwd or home,
            timeout=LIMIT_S,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def here(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one command inside this process: quick, for what needs neither terminal nor daemon."""
    monkeypatch.chdir(home)

    def run(*words: str) -> Done:
        code = main(words)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run


@pytest.fixture
def daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A daemon with three simulated GPUs, which every command finds. Ended with all its jobs."""
    with running_daemon(home, gpus="2xh100-80g,1xa10-24g") as found:
        monkeypatch.setenv("GPUTUI_SOCKET", str(found.socket))
        with found.client() as client:
            until(lambda: client.gpus()["gpus"])
        yield found
