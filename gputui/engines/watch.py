"""New files in run directories, told as they appear (inotify)."""

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable

_EVENT = struct.Struct("iIII")
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x01000000


class DirectoryWatch:
    """Calls `on_file(key, name)` in the loop's thread for each file made in or moved into a watched directory."""

    def __init__(self, on_file: Callable[[str, str], None]) -> None:
        """Raises OSError when the user has no inotify instance left."""
        self._on_file = on_file
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = int(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._keys: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._read)

    def add(self, key: str, path: bytes) -> None:
        """Watch the directory `path`; raises OSError."""
        watch = int(self._libc.inotify_add_watch(self._fd, path, _IN_MOVED_TO | _IN_CREATE | _IN_ONLYDIR))
        if watch < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fsdecode(path))
        self._keys[watch] = key
        self._watches[key] = watch

    def remove(self, key: str) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            self._keys.pop(watch, None)
            self._libc.inotify_rm_watch(self._fd, watch)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, mask, _cookie, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
            at += length
            key = self._keys.get(watch)
            if key is not None and not mask & _IN_IGNORED:
                self._on_file(key, name)
