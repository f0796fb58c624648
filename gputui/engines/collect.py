"""Run directories on disk: how much each takes, and the removal of those that nobody needs any more."""

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from gputui.engines.rundir import RunDir


def sizes(runs_root: Path) -> dict[str, int]:
    """Bytes on disk by run id."""
    found = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(runs_root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found[entry.name] = _size(entry.path)
    return found


def remove(runs_root: Path, run_ids: Iterable[str]) -> list[str]:
    """Remove these directories, except those that something still holds or that cannot be removed; what is gone."""
    gone = []
    for run_id in run_ids:
        path = runs_root / run_id
        with contextlib.suppress(OSError), RunDir(path).locked() as free:
            if free:
                shutil.rmtree(path)
                gone.append(run_id)
    return gone


def _size(path: str) -> int:
    """Of a folder with all in it; what vanishes meanwhile takes nothing."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                total += (
                    _size(entry.path)
                    if entry.is_dir(follow_symlinks=False)
                    else entry.stat(follow_symlinks=False).st_blocks * 512
                )
    return total
