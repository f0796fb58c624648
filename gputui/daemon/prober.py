"""The daemon's end of the prober: asks it to look, replaces it when it died, and never waits longer than told."""

import asyncio
import contextlib
import itertools
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_log = logging.getLogger("gputui.prober")
_MARGIN_SECONDS = 5.0
"""What the prober gets beyond a look's own deadline before it counts as broken itself."""
_LONGEST_LINE = 1024 * 1024


class Prober:
    """Looks at datasets in a child process; a dead mount is felt there alone."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        program = str(Path(__file__).with_name("probe.py"))
        self._command = command or (sys.executable, "-I", "-S", program)
        self._child: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count(1)
        self.stuck = 0
        """Looks that hang in the kernel and cannot be ended."""

    async def look(self, request: Mapping[str, object], deadline: float) -> dict[str, Any]:
        """What one look saw; `problem` instead when it could not tell within `deadline` seconds."""
        number = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            child = await self._running()
            assert child.stdin is not None
            line = json.dumps({**request, "id": number, "deadline": deadline}).encode("ascii") + b"\n"
            async with asyncio.timeout(deadline + _MARGIN_SECONDS):
                child.stdin.write(line)
                await child.stdin.drain()
                return await answer
        except TimeoutError:
            await self.close()
            return {"problem": f"no answer within {deadline:g}s"}
        except OSError as error:
            return {"problem": f"cannot be looked at: {error.strerror or error}"}
        finally:
            self._answers.pop(number, None)

    async def _running(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._child is None or self._child.returncode is not None:
                self._child = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=_LONGEST_LINE,
                    start_new_session=True,
                )
                self._reading = asyncio.create_task(self._read(self._child))
            return self._child

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        try:
            async for line in child.stdout:
                answer = json.loads(line)
                self.stuck = answer.get("stuck", 0)
                waiting = self._answers.get(answer["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except ValueError:
            _log.warning("the prober wrote what is no answer; it is replaced")
        finally:
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_result({"problem": "the look at it was cut short"})
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def close(self) -> None:
        """End the child. Looks that hang in a dead mount end when the mount lets them."""
        child, self._child = self._child, None
        if child is not None:
            if child.stdin is not None:
                child.stdin.close()
            try:
                async with asyncio.timeout(1.0):
                    await child.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
            if self._reading is not None:
                await self._reading
