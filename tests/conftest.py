"""What every test gets: a home of its own, no settings of this machine, and a look for processes it left behind."""

import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

MARK = "TEST_PROCESS_MARK"
"""Every process that a test starts inherits this variable, however far it detaches itself."""
PATIENCE_S = 60.0

# Whoever runs the tests may ignore these (nohup, a script's background), and all that a test starts would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """HOME and the XDG folders in a fresh folder, short enough for a socket's address; no other GPUTUI_* setting."""
    folder = Path(tempfile.mkdtemp(prefix="gputui-"))
    for name in list(os.environ):
        if (name.startswith("GPUTUI_") and name != "GPUTUI_SOAK") or name.startswith(("SLURM_", "TMUX")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    for variable, name in (
        ("XDG_STATE_HOME", "state"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_RUNTIME_DIR", "run"),
    ):
        (folder / name).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder / name))
    # simulated GPUs have the same UUIDs everywhere on this machine: tests side by side must not lock one another out
    monkeypatch.setenv("GPUTUI_LOCK_DIR", str(folder / "locks"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_left_running(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail the test that leaves a live process behind, a detached one too."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield
    deadline = time.monotonic() + PATIENCE_S
    while left := _marked(mark):
        if time.monotonic() > deadline:
            pytest.fail(f"left running: {left}")
        time.sleep(0.05)


def _marked(mark: str) -> list[str]:
    """'PID command' of each live process with our mark in its environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{entry.name} {command}")
        except OSError:
            continue
    return found
