"""A local engine on real processes, and a check that nothing of it is left, supervisors and fork servers included."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gputui.engines.engine import Began, RunEnd, RunSpec
from gputui.engines.local import LocalEngine
from gputui.engines.rundir import RunDir
from gputui.engines.supervision import procs

MARK = "GPUTUI_TEST_MARK"
"""Passed on to fork servers and supervisors, and given to each job."""
PATIENCE_S = 60.0


class Lab:
    """One place for run directories, and engines on it one after the other, as daemons that die and come back."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self.began: dict[str, Began] = {}
        self.ends: dict[str, RunEnd] = {}
        self.told: list[tuple[str, str]] = []
        self._news = asyncio.Event()
        self._open: list[LocalEngine] = []

    async def engine(self) -> LocalEngine:
        engine = LocalEngine(self.folder / "runs", self.folder / "locks")
        await engine.open(self._on_began, self._on_end)
        self._open.append(engine)
        return engine

    async def close(self, engine: LocalEngine) -> None:
        self._open.remove(engine)
        await engine.close()

    def spec(self, *argv: bytes | str, env: dict[bytes, bytes] | None = None, **fields: object) -> RunSpec:
        run_id = str(uuid.uuid4())
        words = tuple(word if isinstance(word, bytes) else word.encode() for word in argv)
        given = {b"PATH": b"/usr/bin:/bin", b"GPUTUI_RUN_ID": run_id.encode(), MARK.encode(): self.mark.encode()}
        values: dict[str, object] = {"job_id": 1, "attempt": 1, "cwd": b"/"} | fields
        return RunSpec(run_id=run_id, argv=words, env=given | (env or {}), **values)  # type: ignore[arg-type]

    async def end_of(self, run_id: str) -> RunEnd:
        await self.until(lambda: run_id in self.ends, f"the end of {run_id}")
        return self.ends[run_id]

    async def run(self, engine: LocalEngine, *argv: bytes | str, **fields: object) -> tuple[RunSpec, RunEnd]:
        spec = self.spec(*argv, **fields)  # type: ignore[arg-type]
        await engine.start(spec)
        return spec, await self.end_of(spec.run_id)

    async def until(self, condition: object, what: str) -> None:
        """Wait for a condition that our events or the file system bring about."""
        assert callable(condition)
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"waited {PATIENCE_S:.0f} s for {what}")
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), 0.02)
            except TimeoutError:
                continue

    async def close_all(self) -> None:
        for engine in list(self._open):
            await self.close(engine)

    def alive(self) -> list[int]:
        """Live processes that carry this test's mark, supervisors and fork servers included."""
        return procs.with_environment(MARK.encode(), self.mark.encode())

    def _on_began(self, run_id: str, began: Began) -> None:
        self.began[run_id] = began
        self.told.append(("began", run_id))
        self._news.set()

    def _on_end(self, run_id: str, end: RunEnd) -> None:
        assert run_id not in self.ends, "an end was told twice"
        self.ends[run_id] = end
        self.told.append(("end", run_id))
        self._news.set()


@pytest.fixture
async def lab(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    lab = Lab(home, mark)
    yield lab
    await lab.close_all()
    await lab.until(lambda: not lab.alive(), "all processes of the test to be gone")
    for run_dir in (home / "runs").glob("*"):
        RunDir(run_dir).forget()  # removes what a killed supervisor leaves outside of it: its cgroup


def script(*lines: str) -> Sequence[str]:
    """argv of a shell script."""
    return ("sh", "-c", "\n".join(lines))
