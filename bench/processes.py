"""What processes cost: CPU time and memory, read from the kernel."""

import re
import time
from pathlib import Path

import psutil


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used, its ended threads too, to the nanosecond (`clock_getcpuclockid` of its pid)."""
    return time.clock_gettime((~pid << 3) | 2)


def family_cpu(pid: int) -> float:
    """CPU time of the process and its descendants."""
    return sum(cpu_seconds(one) for one in family(pid))


def rss(pid: int) -> float:
    """MiB of memory in use, shared pages included."""
    return psutil.Process(pid).memory_info().rss / 2**20


def pss(pid: int) -> float:
    """MiB of memory in use, shared pages by share."""
    found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024
