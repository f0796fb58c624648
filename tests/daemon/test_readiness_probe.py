"""The prober: what one look sees, and that a look that hangs concerns nobody else."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gputui.daemon import probe
from gputui.daemon.prober import Prober

HANGING = """
import os, sys, time
sys.path.insert(0, {folder!r})
import probe

def slow(request):
    if request["location"].startswith("/dead"):
        time.sleep(600)
    return probe.observe(request)

probe.serve(slow)
"""


def look(location: Path | str, **wanted: object) -> dict[str, Any]:
    return dict(probe.observe({"location": str(location), **wanted}))


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_files_and_bytes_of_a_whole_tree(tmp_path: Path) -> None:
    write(tmp_path / "a", 10)
    write(tmp_path / "deep" / "b", 20)
    seen = look(tmp_path)
    assert (seen["found"], seen["files"], seen["size"], seen["partial"]) == (True, 2, 30, 0)


def test_what_is_not_there_is_not_a_problem(tmp_path: Path) -> None:
    seen = look(tmp_path / "later")
    assert seen["found"] is False
    assert "problem" not in seen


def test_a_pattern_names_what_it_matches(tmp_path: Path) -> None:
    for name in ("shard-0.tar", "shard-1.tar", "other"):
        write(tmp_path / name, 5)
    assert look(tmp_path / "shard-*.tar")["files"] == 2
    assert look(tmp_path / "none-*")["found"] is False


@pytest.mark.parametrize("name", ["model.bin.part", "x.incomplete", "y.tmp", ".shard.tar.Xa3dQz"])
def test_unfinished_downloads_are_not_files_yet(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, 7)
    seen = look(tmp_path)
    assert (seen["files"], seen["size"], seen["partial"]) == (0, 0, 7)


def test_linked_files_count_once_by_their_bytes(tmp_path: Path) -> None:
    write(tmp_path / "blobs" / "1f3a", 100)
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "weights").symlink_to(tmp_path / "blobs" / "1f3a")
    (tmp_path / "snapshot" / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "snapshot" / "again").symlink_to(tmp_path)
    seen = look(tmp_path)
    assert (seen["files"], seen["size"]) == (2, 100)


def test_the_marker_is_looked_for_at_the_location(tmp_path: Path) -> None:
    assert look(tmp_path, marker="_SUCCESS")["marker"] is False
    (tmp_path / "_SUCCESS").touch()
    assert look(tmp_path, marker="_SUCCESS")["marker"] is True
    assert look(tmp_path, marker="_SUCCESS", quick=True)["marker"] is True


def test_a_glance_shows_a_file_that_came(tmp_path: Path) -> None:
    os.utime(tmp_path, ns=(1, 1))
    before = look(tmp_path, quick=True)
    write(tmp_path / "new", 1)
    assert look(tmp_path, quick=True) != before


def test_any_change_changes_the_fingerprint(tmp_path: Path) -> None:
    write(tmp_path / "a", 10)
    first = look(tmp_path)["fingerprint"]
    assert look(tmp_path)["fingerprint"] == first
    os.utime(tmp_path / "a", ns=(5, 5))
    second = look(tmp_path)["fingerprint"]
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, look(tmp_path)["fingerprint"]}) == 3


def test_a_manifest_is_checked_file_by_file(tmp_path: Path) -> None:
    write(tmp_path / "a b.bin", 10)
    write(tmp_path / "c.bin", 4)
    (tmp_path / "MANIFEST").write_text("# sizes\n10  a b.bin\n\n8  c.bin\n5  sub/d.bin\n")
    assert look(tmp_path, manifest="MANIFEST")["manifest"] == {
        "files": 3,
        "complete": 1,
        "bytes_wanted": 23,
        "bytes_there": 14,
        "first_missing": "c.bin",
    }


def test_a_manifest_that_is_none_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "MANIFEST").write_text("10  a\nten  b\n")
    assert look(tmp_path, manifest="MANIFEST") == {"problem": "line 2 of its manifest is not 'SIZE  NAME'"}


def test_a_named_pipe_as_manifest_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "MANIFEST")
    assert look(tmp_path, manifest="MANIFEST") == {"problem": "its manifest is not a plain file"}


def test_names_that_are_not_utf8_are_looked_at(tmp_path: Path) -> None:
    name = os.fsdecode(b"data-\xff")
    write(tmp_path / name / "a", 3)
    assert look(tmp_path / name)["size"] == 3


@pytest.fixture
async def prober(tmp_path: Path) -> AsyncIterator[Prober]:
    script = tmp_path / "hanging.py"
    script.write_text(HANGING.format(folder=str(Path(probe.__file__).parent)))
    prober = Prober([sys.executable, "-I", "-S", str(script)])
    yield prober
    await prober.close()


async def test_a_dead_mount_is_unknown_and_stops_nobody_else(prober: Prober, tmp_path: Path) -> None:
    write(tmp_path / "data" / "a", 3)
    hanging = asyncio.create_task(prober.look({"location": "/dead"}, 30.0))
    await asyncio.sleep(0)
    seen = await prober.look({"location": str(tmp_path / "data")}, 10.0)
    assert seen["size"] == 3
    assert not hanging.done()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)


async def test_the_deadline_ends_a_look(prober: Prober) -> None:
    seen = await prober.look({"location": "/dead"}, 0.1)
    assert seen["problem"] == "no answer within 0.1s"


async def test_a_prober_that_was_killed_is_replaced(prober: Prober, tmp_path: Path) -> None:
    await prober.look({"location": str(tmp_path)}, 10.0)
    first = prober._child
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    await first.wait()
    assert (await prober.look({"location": str(tmp_path)}, 10.0))["found"] is True
    assert prober._child is not first


async def test_a_prober_killed_in_the_middle_of_a_look_says_unknown(prober: Prober, tmp_path: Path) -> None:
    await prober.look({"location": str(tmp_path)}, 10.0)
    assert prober._child is not None
    pid = prober._child.pid
    hanging = asyncio.create_task(prober.look({"location": "/dead"}, 60.0))
    async with asyncio.timeout(60):
        while not Path(f"/proc/{pid}/task/{pid}/children").read_text():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    assert "problem" in await hanging
