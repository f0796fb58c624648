"""Why a run ended the way it did: one sentence with the likeliest cause first, and the list of all that is known."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gputui.domain.reason import Reason, Wait, listed, size

_XIDS: Final = {
    13: "graphics engine exception", 31: "memory page fault by the program", 43: "the program was stopped by the GPU",
    48: "double-bit ECC error", 63: "row remapping", 64: "row remapping failed", 74: "NVLink error",
    79: "the GPU fell off the bus", 94: "contained ECC error", 95: "uncontained ECC error",
    119: "GSP firmware timeout", 120: "GSP firmware error",
}  # fmt: skip
_GPU_MEMORY = re.compile(
    r"cuda out of memory|outofmemoryerror|cuda_error_out_of_memory|cudaerrormemoryallocation|resource_exhausted",
    re.IGNORECASE,
)
_HOST_MEMORY = re.compile(r"\bMemoryError\b|cannot allocate memory|std::bad_alloc")
_DISK = re.compile(r"no space left on device|errno 28\b|disk quota exceeded", re.IGNORECASE)
_LOG_LINES: Final = 3
_SENT: Final = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
)
"""Signals that somebody sends; the others a program brings upon itself."""


@dataclass(frozen=True, slots=True)
class ForeignHolder:
    """A foreign process that held memory on one of the run's GPUs when it ended."""

    gpu: str
    """As people name it: 'GPU 3'."""
    memory: int
    who: str
    """'python (wang)'."""


@dataclass(frozen=True, slots=True)
class EndFacts:
    """What is known of a run's end."""

    end_reason: str
    """`exited`, `signalled`, `noexec`, `lost`, `gone`, `revoked`, `cancelled` or `time_limit`."""
    exit_code: int | None = None
    signal: int | None = None
    error: str = ""
    """The engine's sentence: 'cannot run train.py: no such file'."""
    oom_killed: bool = False
    """The kernel killed a process of the run for want of host memory."""
    log_error: str = ""
    """Output lost on its way to disk."""
    by: str = ""
    """Who cancelled it or sent the signal, where known: 'li', 'the kernel'."""
    note: str = ""
    """The reason given for a cancel, or why the end was not seen ('the machine was restarted')."""
    time_limit: float | None = None
    """Seconds; set when the run was stopped at it."""
    xids: Sequence[tuple[str, int]] = ()
    """(GPU as people name it, Xid) seen near the end."""
    foreign: Sequence[ForeignHolder] = ()
    disk_full: str = ""
    """The file system that was full at the end, if any: '/data'."""
    log_tail: str = ""
    """The last lines of output, decoded for show."""


def signal_name(number: int) -> str:
    """Return 'SIGKILL' for 9, 'signal 77' for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def explain_end(facts: EndFacts) -> Reason:
    """Say why a run ended. The first cause is the likeliest; the last lines of its log come last."""
    causes = [*_machine_causes(facts), *_log_causes(facts)]
    end = _end(facts)
    sentence = f"{end.what}: {causes[0].what}" if causes else end.what
    lines = [line.rstrip() for line in facts.log_tail.splitlines() if line.strip()][-_LOG_LINES:]
    if lines and not causes and end.kind in {"exit", "signal"} and facts.exit_code != 0:
        sentence = f"{end.what}; last line: {lines[-1].strip()[:120]}"
    others = [Wait("foreign", "others held memory on its GPUs" + _foreign(facts.foreign))] if facts.foreign else []
    return Reason(sentence, (*causes, end, *others, *(Wait("log", line[:500]) for line in lines)))


def _end(facts: EndFacts) -> Wait:
    note = f" ({facts.note})" if facts.note else ""
    match facts.end_reason:
        case "noexec":
            return Wait("noexec", facts.error or "the program could not be started")
        case "cancelled":
            return Wait("cancelled", f"cancelled by {facts.by or 'its owner'}{note}")
        case "time_limit":
            limit = f" of {facts.time_limit:.0f} s" if facts.time_limit is not None else ""
            return Wait("time_limit", f"stopped at its time limit{limit}")
        case "lost":
            return Wait("lost", f"its end was not seen{note}")
        case "gone":
            return Wait("lost", "its run directory is gone; whether it still runs is unknown")
        case "revoked":
            return Wait("revoked", f"it never began{note}")
        case "signalled" if facts.signal is not None:
            sender = f" by {facts.by}" if facts.by else ""
            if not sender and facts.signal in _SENT and not facts.oom_killed:
                sender = " from an unknown sender"
            return Wait("signal", f"ended by {signal_name(facts.signal)}{sender}")
    if facts.exit_code is None:
        return Wait("exit", "ended, its exit code is unknown")
    if facts.exit_code == 0:
        return Wait("exit", "exited with code 0")
    if 128 < facts.exit_code < 128 + signal.NSIG:
        return Wait("exit", f"exited with code {facts.exit_code} ({signal_name(facts.exit_code - 128)} inside the run)")
    return Wait("exit", f"exited with code {facts.exit_code}")


def _machine_causes(facts: EndFacts) -> list[Wait]:
    causes = []
    if facts.oom_killed:
        causes.append(Wait("oom", "the host ran out of memory and the kernel killed it"))
    for gpu, xid in facts.xids:
        meaning = f" ({_XIDS[xid]})" if xid in _XIDS else ""
        causes.append(Wait("xid", f"{gpu} reported Xid {xid}{meaning} near its end"))
    if facts.disk_full:
        causes.append(Wait("disk", f"{facts.disk_full} was full"))
    if facts.log_error:
        causes.append(Wait("disk", f"output was lost: {facts.log_error}"))
    return causes


def _log_causes(facts: EndFacts) -> list[Wait]:
    if facts.end_reason not in {"exited", "signalled"} or facts.exit_code == 0:
        return []
    causes = []
    if _GPU_MEMORY.search(facts.log_tail):
        causes.append(Wait("gpu_memory", "out of GPU memory by its log" + _foreign(facts.foreign)))
    if _HOST_MEMORY.search(facts.log_tail) and not facts.oom_killed:
        causes.append(Wait("oom", "out of host memory by its log"))
    if _DISK.search(facts.log_tail) and not facts.disk_full:
        causes.append(Wait("disk", "no space left on a disk by its log"))
    return causes


def _foreign(holders: Sequence[ForeignHolder]) -> str:
    if not holders:
        return ""
    return "; " + listed([f"{holder.who} held {size(holder.memory)} of {holder.gpu}" for holder in holders])
