"""The reader process: alone touches NVML and other users' /proc, and speaks JSON lines with its parent.

    python -m gputui.gpus.reader FD PARENT_PID INTERVAL [SPEC]

Requests: {"t": "holders", "holders": {uuid: [[[pid, ...], bytes], ...]}} · {"t": "interval", "s": seconds}
· {"t": "samples", "id", "uuid", "n", "interval": seconds}, answered by {"t": "samples", "id", "values"}.
It ends when the parent does: end of file on the socket, and the kernel's signal to a child whose parent died.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from datetime import UTC, datetime

from gputui.gpus.host import HostSource
from gputui.gpus.reading import Holder, Snapshot, Source
from gputui.gpus.wire import Encoder, pack

_PR_SET_PDEATHSIG = 1
_LARGEST_REQUEST = 8 << 20
_MOST_SAMPLES = 100


def open_source(spec: str | None) -> Source:
    """Simulated GPUs when a spec is given, NVML otherwise."""
    if spec is not None:
        from gputui.gpus.simulated import SimulatedSource

        return SimulatedSource(spec)
    from gputui.gpus.nvml import NvmlSource

    return NvmlSource()


class Server:
    """Reads when it is time, and answers requests in between."""

    def __init__(self, link: socket.socket, source: Source, interval: float) -> None:
        self._link = link
        self._source = source
        self._interval = interval
        self._host = HostSource()
        self._encoder = Encoder()
        self._buffer = b""

    def run(self) -> None:
        """Serve until the parent is gone."""
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= due:
                self._link.sendall(self._encoder.encode(self._snapshot(now)))
                # a reading that took longer than the interval is not followed by a burst
                due = max(due + self._interval, time.monotonic() + self._interval / 10)
            before = self._interval
            if not self._serve(max(0.0, due - time.monotonic())):
                return
            due += min(0.0, self._interval - before)

    def _snapshot(self, now: float) -> Snapshot:
        gpus, problem, driver = self._source.read(now)
        return Snapshot(
            sampled_at=datetime.now(UTC),
            monotonic=now,
            source="none" if problem and not gpus else self._source.name,
            gpus=gpus,
            host=self._host.read(now),
            problem=problem,
            driver=driver,
        )

    def _serve(self, timeout: float) -> bool:
        """Answer what arrives within `timeout` seconds; False when the parent is gone."""
        if not select.select([self._link], [], [], timeout)[0]:
            return True
        data = self._link.recv(1 << 16)
        self._buffer += data
        if not data or len(self._buffer) > _LARGEST_REQUEST:
            return False
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._answer(json.loads(line))
        return True

    def _answer(self, request: dict[str, object]) -> None:
        match request:
            case {"t": "holders", "holders": dict(holders)}:
                self._source.set_holders(
                    {
                        uuid: tuple(Holder(tuple(pids), memory) for pids, memory in rows)
                        for uuid, rows in holders.items()
                    }
                )
            case {"t": "interval", "s": float(seconds)}:
                self._interval = seconds
            case {"t": "samples", "id": int(number), "uuid": str(uuid), "n": int(n), "interval": float(interval)}:
                values: list[object] = []
                for i in range(min(n, _MOST_SAMPLES)):
                    if i:
                        time.sleep(interval)
                    values.append(pack(self._source.memory_used(uuid)))
                reply = {"t": "samples", "id": number, "values": values}
                self._link.sendall(json.dumps(reply).encode() + b"\n")


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent dies; exit at once if it has died already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def main(argv: list[str]) -> None:
    """Serve on the inherited socket `FD` until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the parent's terminal is the parent's to handle
    die_with(int(argv[1]))
    link = socket.socket(fileno=int(argv[0]))
    source = open_source(argv[3] if len(argv) > 3 else None)
    try:
        Server(link, source, float(argv[2])).run()
    except (BrokenPipeError, ConnectionResetError):
        pass
    except Exception as error:  # noqa: BLE001 - the parent says what went wrong, and starts another reader
        link.sendall(json.dumps({"t": "failed", "error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
    finally:
        source.close()


if __name__ == "__main__":
    main(sys.argv[1:])
