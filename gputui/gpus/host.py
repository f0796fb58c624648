"""The machine around the GPUs, by psutil; each field fails alone."""

import os
import socket
from collections.abc import Callable
from typing import TypeVar

import psutil

from gputui.gpus.reading import Float, HostReading, Int, Missing

_T = TypeVar("_T")
_DISK_FLOOR = 100 * 10**9
"""Local file systems smaller than this (bytes) are not worth a place on the host line."""
_LOCAL = frozenset({"ext4", "ext3", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "overlay"})
_DISK_EVERY = 15.0


class HostSource:
    """Reads the host; rates are between two reads."""

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        """`paths`: further places whose file systems matter, such as the state folder."""
        self._paths = ("/", *paths)
        self._hostname = socket.gethostname()
        self._cpus = os.cpu_count() or 0
        self._net: tuple[float, int, int] | None = None
        self._disks: tuple[tuple[str, int, int], ...] = ()
        self._disks_at: float | None = None
        self._cpu_known = False

    def read(self, now: float) -> HostReading:
        """The host at monotonic `now`."""
        if self._disks_at is None or now - self._disks_at >= _DISK_EVERY:
            self._disks, self._disks_at = self._read_disks(), now
        memory = _attempt(psutil.virtual_memory)
        used: Int = Missing.UNKNOWN
        total: Int = Missing.UNKNOWN
        if memory is not None:
            total = memory.total
            used = memory.total - memory.available
        net_rx, net_tx = self._read_net(now)
        load = _attempt(os.getloadavg)
        return HostReading(
            hostname=self._hostname,
            cpu_percent=self._read_cpu(),
            cpu_count=self._cpus,
            load_1m=Missing.UNKNOWN if load is None else round(load[0], 2),
            memory_used=used,
            memory_total=total,
            disks=self._disks,
            net_rx=net_rx,
            net_tx=net_tx,
        )

    def _read_cpu(self) -> Float:
        percent = _attempt(lambda: psutil.cpu_percent(interval=None))
        known, self._cpu_known = self._cpu_known, True
        # the first call has nothing to compare with and answers 0
        return percent if percent is not None and known else Missing.UNKNOWN

    def _read_net(self, now: float) -> tuple[Float, Float]:
        counters = _attempt(lambda: psutil.net_io_counters(pernic=True))
        if not counters:
            return Missing.UNKNOWN, Missing.UNKNOWN
        received = sum(c.bytes_recv for name, c in counters.items() if name != "lo")
        sent = sum(c.bytes_sent for name, c in counters.items() if name != "lo")
        before, self._net = self._net, (now, received, sent)
        if before is None or now <= before[0]:
            return Missing.UNKNOWN, Missing.UNKNOWN
        elapsed = now - before[0]
        return (
            round(max(0, received - before[1]) / elapsed, 1),
            round(max(0, sent - before[2]) / elapsed, 1),
        )

    def _read_disks(self) -> tuple[tuple[str, int, int], ...]:
        # only local file systems are asked: a dead network mount would not answer
        parts = [p for p in _attempt(lambda: psutil.disk_partitions(all=True)) or () if p.fstype in _LOCAL]
        mounts = {p.mountpoint: p.device for p in parts}
        wanted = {_mount_of(path, mounts) for path in self._paths}
        disks: list[tuple[str, int, int]] = []
        devices: set[str] = set()
        for mount in sorted(mounts, key=lambda m: (m not in wanted, len(m), m)):
            usage = _attempt(lambda path=mount: psutil.disk_usage(path))  # type: ignore[misc]
            if usage is None or mounts[mount] in devices:
                continue
            if mount in wanted or usage.total >= _DISK_FLOOR:
                devices.add(mounts[mount])
                disks.append((mount, usage.used, usage.total))
        return tuple(disks)


def _mount_of(path: str, mounts: dict[str, str]) -> str:
    inside = [m for m in mounts if path == m or path.startswith(m.rstrip("/") + "/")]
    return max(inside, key=len, default="/")


def _attempt(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except (OSError, psutil.Error, ValueError, IndexError):
        return None
