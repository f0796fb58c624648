"""The parent's side of the reader process: starts it, follows it, and replaces it when the driver hangs it.

A hung driver can make a process unkillable. The reader is then left behind and another one is started, with growing
pauses; meanwhile the last readings stay, with their age and the problem `hung`, and the host is read here.
"""

import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from gputui.gpus.host import HostSource
from gputui.gpus.reading import Holder, Int, Missing, Problem, Snapshot
from gputui.gpus.wire import Decoder, unpack

OnSnapshot = Callable[[Snapshot], None]

DEADLINE = 5.0
"""Seconds without a line after which the driver counts as hung."""
ONCE_DEADLINE = 10.0
"""The same for a single snapshot: it may have to wait for each GPU to be opened."""
_PATIENCE = 15.0
"""Seconds a new reader has for its first line: opening a GPU whose persistence mode is off takes a while."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_MOST_ABANDONED = 3
"""With so many readers stuck in the driver another one would only join them: it waits until one of them is gone."""
_NEW_LIBRARY_AFTER = 60.0
"""Seconds after which a reader with a mismatched library is replaced: a process never loads the new one itself."""
_LINE_LIMIT = 32 << 20

_abandoned: list["subprocess.Popen[bytes]"] = []


class Reader:
    """Readings from a child process. All methods are for one event loop."""

    def __init__(
        self,
        simulated: str | None = None,
        interval: float = 1.0,
        on_snapshot: OnSnapshot | None = None,
        *,
        deadline: float = DEADLINE,
    ) -> None:
        """`simulated`: a spec such as `8`, or None for NVML; `interval` in seconds. Raises InputError on a bad spec."""
        if simulated is not None:
            from gputui.gpus.simulated import parse_spec

            parse_spec(simulated)
        self._spec = simulated
        self._interval = interval
        self._on_snapshot = on_snapshot
        self._deadline = max(deadline, 3 * interval)
        self._latest: Snapshot | None = None
        self._first = asyncio.Event()
        self._holders: dict[str, tuple[Holder, ...]] = {}
        self._requests = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[list[Int]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._failure = ""
        self._host = HostSource()
        self._heard = 0.0

    @property
    def latest(self) -> Snapshot | None:
        """The newest snapshot; None until the first. Its problem is `hung` when it is stale."""
        return self._latest

    @property
    def pid(self) -> int | None:
        """The present reader process."""
        return self._child.pid if self._child else None

    def age(self) -> float:
        """Seconds since the newest readings of the GPUs; infinite before the first."""
        return time.monotonic() - self._latest.monotonic if self._latest else float("inf")

    async def start(self) -> None:
        """Start the reader process. Snapshots follow through `on_snapshot`; see also `first`."""
        self._heard = time.monotonic()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._watch())]

    async def first(self, timeout: float = DEADLINE) -> Snapshot | None:  # noqa: ASYNC109 - a deadline is its point
        """The newest snapshot as soon as there is one; None when `timeout` seconds pass without."""
        try:
            async with asyncio.timeout(timeout):
                await self._first.wait()
        except TimeoutError:
            return None
        return self._latest

    def set_holders(self, holders: dict[str, tuple[Holder, ...]]) -> None:
        """Tell simulated GPUs which processes hold them; a replaced reader is told again."""
        self._holders = dict(holders)
        rows = {uuid: [[list(h.pids), h.memory] for h in held] for uuid, held in holders.items()}
        self._send({"t": "holders", "holders": rows})

    def set_interval(self, interval: float) -> None:
        """Read every `interval` seconds from now on."""
        self._interval = interval
        self._deadline = max(self._deadline, 3 * interval)
        self._send({"t": "interval", "s": float(interval)})

    async def memory_samples(self, uuid: str, n: int = 3, interval: float = 0.02) -> list[Int]:
        """`n` readings of a GPU's used bytes, `interval` seconds apart; all UNKNOWN when they don't come in time."""
        number = next(self._requests)
        future: asyncio.Future[list[Int]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            if self._send({"t": "samples", "id": number, "uuid": uuid, "n": n, "interval": float(interval)}):
                async with asyncio.timeout(n * interval + min(self._deadline, 2.0)):
                    return await future or [Missing.UNKNOWN] * n
        except TimeoutError:
            pass
        finally:
            del self._waiting[number]
        return [Missing.UNKNOWN] * n

    async def close(self) -> None:
        """End the reader process; one that cannot be ended is left to the kernel."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._drop()

    async def _follow(self) -> None:
        """Start readers one after the other, and take in their lines."""
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await self._follow_one()
            except OSError as error:
                self._failure = f"The reader process could not be started: {error.strerror or error}."
            except (ValueError, KeyError, TypeError) as error:
                self._failure = f"The reader process sent what makes no sense ({error!r})."
            await self._drop()
            if self._failure or self._silent() > self._deadline:
                self._emit_stale()
            if time.monotonic() - began > _LONGEST_PAUSE:  # it worked for a while
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause)
            while len(_still_abandoned()) >= _MOST_ABANDONED:  # noqa: ASYNC110 - the kernel tells nobody when
                await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _follow_one(self) -> None:
        """Follow one reader process until it ends or hangs."""
        ours, theirs = socket.socketpair()
        try:
            self._child = _spawn(theirs, self._spec, self._interval)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_LINE_LIMIT)
        if self._holders:
            self.set_holders(self._holders)
        decoder = Decoder()
        began = time.monotonic()
        patience = max(_PATIENCE, self._deadline)
        failure = ""
        while True:
            line = await _next_line(reader, patience)
            if not line:
                self._failure = failure or ("" if line is None else "The reader process ended unexpectedly.")
                return
            message = json.loads(line)
            if message["t"] == "snapshot":
                patience = self._deadline
                snapshot = decoder.decode(message)
                self._heard, self._failure = time.monotonic(), ""
                self._emit(snapshot)
                outdated = snapshot.problem is not None and snapshot.problem.code == "version_mismatch"
                if outdated and self._heard - began > _NEW_LIBRARY_AFTER:
                    return
            elif message["t"] == "samples":
                future = self._waiting.get(message["id"])
                if future and not future.done():
                    future.set_result([unpack(value) for value in message["values"]])  # type: ignore[misc]
            else:
                failure = f"The reader process failed: {message.get('error')}."

    async def _watch(self) -> None:
        """While no lines come, say so once per interval, with a fresh reading of the host."""
        while True:
            await asyncio.sleep(self._interval)
            if self._failure or self._silent() > self._deadline:
                self._emit_stale()

    def _silent(self) -> float:
        """Seconds since the last line."""
        return time.monotonic() - self._heard

    def _emit_stale(self) -> None:
        now = time.monotonic()
        host = self._host.read(now)
        silent = self._silent()
        if self._failure:
            problem = Problem("reader_failed", self._failure, "It is started again by itself; `gputui doctor` checks.")
        elif self._spec is None:
            problem = hung(silent)
        else:
            problem = Problem("hung", f"The reader has not answered for {silent:.0f} s.", "It is started again.")
        if self._latest is None:
            self._emit(Snapshot(datetime.now(UTC), now, "none", host=host, problem=problem))
        else:
            self._emit(replace(self._latest, host=host, problem=problem))

    def _emit(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        self._first.set()
        if self._on_snapshot:
            # as a callback of its own, so that what it raises is reported and does not end the following
            asyncio.get_running_loop().call_soon(self._tell, snapshot)

    def _tell(self, snapshot: Snapshot) -> None:
        if self._tasks and self._on_snapshot:
            self._on_snapshot(snapshot)

    def _send(self, message: dict[str, object]) -> bool:
        if self._writer is None or self._writer.is_closing():
            return False
        self._writer.write(json.dumps(message).encode() + b"\n")
        return True

    async def _drop(self) -> None:
        """Let go of the present reader process."""
        writer, self._writer = self._writer, None
        child, self._child = self._child, None
        if writer:
            writer.transport.abort()
        for future in self._waiting.values():
            if not future.done():
                future.set_result([])
        if child is None:
            return
        _kill(child)
        for _ in range(50):
            if child.poll() is not None:
                return
            await asyncio.sleep(0.01)
        _abandoned.append(child)


def hung(seconds: float) -> Problem:
    """The driver has not answered for so many seconds."""
    return Problem(
        "hung",
        f"The NVIDIA driver has not answered for {seconds:.0f} s; what is shown is as old.",
        "Look for Xid errors with `dmesg | grep -i xid`; a hung driver usually needs a reboot.",
    )


def read_once(simulated: str | None = None, deadline: float = ONCE_DEADLINE) -> Snapshot:
    """One snapshot for one-shot use, blocking at most about `deadline` seconds. Raises InputError on a bad spec.

    The second of two readings is taken, since rates need two.
    """
    if simulated is not None:
        from gputui.gpus.simulated import parse_spec

        parse_spec(simulated)
    began = time.monotonic()
    ours, theirs = socket.socketpair()
    snapshot: Snapshot | None = None
    try:
        child = _spawn(theirs, simulated, 0.25)
    except OSError as error:
        ours.close()
        sentence = f"The reader process could not be started: {error.strerror or error}."
        return _host_only(Problem("reader_failed", sentence, "Free some memory or processes and try again."))
    finally:
        theirs.close()
    decoder, failure, buffer = Decoder(), "", b""
    try:
        for _ in range(2):
            while b"\n" not in buffer:
                ours.settimeout(max(0.01, began + deadline - time.monotonic()))
                data = ours.recv(1 << 16)
                if not data:
                    raise ConnectionResetError
                buffer += data
            line, _, buffer = buffer.partition(b"\n")
            message = json.loads(line)
            if message["t"] == "failed":
                failure = f"The reader process failed: {message.get('error')}."
                break
            snapshot = decoder.decode(message)
    except TimeoutError:
        pass
    except OSError:
        failure = failure or "The reader process ended unexpectedly."
    finally:
        ours.close()
        _kill(child)
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            _abandoned.append(child)
    if snapshot is not None:
        return snapshot
    if failure:
        return _host_only(Problem("reader_failed", failure, "Run `gputui doctor`."))
    return _host_only(hung(time.monotonic() - began))


def _host_only(problem: Problem) -> Snapshot:
    now = time.monotonic()
    return Snapshot(datetime.now(UTC), now, "none", host=HostSource().read(now), problem=problem)


def _spawn(link: socket.socket, spec: str | None, interval: float) -> "subprocess.Popen[bytes]":
    _still_abandoned()
    command = [sys.executable, "-P", "-m", "gputui.gpus.reader", str(link.fileno()), str(os.getpid()), str(interval)]
    if spec is not None:
        command.append(spec)
    # a session of its own: signals of the terminal are for the parent
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(link.fileno(),),
        start_new_session=True,
    )


def _still_abandoned() -> list["subprocess.Popen[bytes]"]:
    """Readers that were left behind and are not gone yet."""
    _abandoned[:] = [child for child in _abandoned if child.poll() is None]
    return _abandoned


def _kill(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        child.kill()


async def _next_line(reader: asyncio.StreamReader, patience: float) -> bytes | None:
    """The next line; empty at the end of the stream; None when none comes in time."""
    for seconds in (patience, 0.5):  # after a stop (Ctrl-Z) the time is up although lines are there: look once more
        try:
            async with asyncio.timeout(seconds):
                return await reader.readline()
        except TimeoutError:
            continue
        except (OSError, ValueError):
            return b""
    return None
