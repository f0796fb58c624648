"""Output is kept at its beginning and its end, within its cap, with every missing byte accounted for."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.engines import logs
from gputui.engines.logs import LogPart
from gputui.engines.rundir import RunDir
from gputui.engines.supervision import procs
from gputui.engines.supervision.logwriter import LogWriter, segments
from tests.engines.conftest import Lab, script
from tests.support.counts import count

MIB = 1024 * 1024
NUMBERED = """
import sys
left = int(sys.argv[1]) // 65536
for block in range(left):
    sys.stdout.buffer.write((b"%015d\\n" % block) * 4096)
"""


def everything(run_dir: Path, limit: int = MIB) -> tuple[list[LogPart], bytes]:
    """Read from the start to where nothing more is to be had."""
    parts = [logs.read(run_dir, 0, limit)]
    while parts[-1].data or parts[-1].gap:
        parts.append(logs.read(run_dir, parts[-1].next_offset, limit))
    return parts, b"".join(part.data for part in parts)


def disk_use(run_dir: Path) -> int:
    return sum(size for _, size in segments(str(run_dir / "log")))


async def test_a_flood_stays_within_its_cap_and_keeps_both_ends(lab: Lab) -> None:
    engine = await lab.engine()
    total = count(300 * MIB, 10_000 * MIB)
    spec = lab.spec(sys.executable, "-c", NUMBERED, str(total), log_cap=8 * MIB)
    await engine.start(spec)
    run_dir = engine.run_dir(spec.run_id)
    followed, seen, gaps, most = 0, 0, 0, 0
    while spec.run_id not in lab.ends:
        part = logs.read(run_dir, followed, MIB)
        assert part.offset == followed
        followed, seen, gaps = part.next_offset, seen + len(part.data), gaps + part.gap
        most = max(most, disk_use(run_dir))
        await asyncio.sleep(0.005)
    while (part := logs.read(run_dir, followed, MIB)).data or part.gap:
        followed, seen, gaps = part.next_offset, seen + len(part.data), gaps + part.gap
    assert lab.ends[spec.run_id].exit_code == 0
    assert lab.ends[spec.run_id].log_error == ""
    assert (part.ended, part.written, part.next_offset) == (True, total, total)
    assert seen + gaps == total
    assert most <= 8 * MIB
    parts, kept = everything(run_dir)
    assert len(kept) <= 8 * MIB
    assert sum(part.gap for part in parts) + len(kept) == total
    assert kept.startswith(b"%015d\n" % 0)
    assert kept.endswith(b"%015d\n" % (total // 65536 - 1))
    for part in parts:  # each kept byte is where the job wrote it
        at = part.offset + part.gap
        line = part.data[(-at) % 16 :][:16]
        if len(line) == 16:
            assert int(line) == (at + (-at) % 16) // 65536
    last = logs.read(run_dir, -16, 100)
    assert (last.data, last.offset) == (b"%015d\n" % (total // 65536 - 1), total - 16)


async def test_lines_are_seen_while_the_job_runs_and_before_its_end_is_told(lab: Lab) -> None:
    engine = await lab.engine()
    spec = lab.spec(*script("echo one; sleep 600"))
    await engine.start(spec)
    run_dir = engine.run_dir(spec.run_id)
    await lab.until(lambda: logs.read(run_dir, 0, 99).data == b"one\n", "the first line")
    assert not logs.read(run_dir, 0, 99).ended
    await engine.stop(spec.run_id, 5)
    await lab.end_of(spec.run_id)
    part = logs.read(run_dir, 4, 99)
    assert (part.data, part.gap, part.next_offset, part.ended) == (b"", 0, 4, True)
    _, end = await lab.run(engine, *script("for i in 1 2 3; do echo $i; echo e$i >&2; done"))
    assert end.exit_code == 0


async def test_the_last_line_is_there_when_the_end_is_told(lab: Lab) -> None:
    engine = await lab.engine()
    for number in range(20):
        spec, _ = await lab.run(engine, *script(f"echo {number}"))
        assert logs.read(engine.run_dir(spec.run_id), -100, 200).data == b"%d\n" % number


async def test_a_job_whose_supervisor_was_killed_goes_on_writing(lab: Lab) -> None:
    engine = await lab.engine()
    go = lab.folder / "go"
    os.mkfifo(go)
    spec = lab.spec(*script("echo before", f"cat {go}", "head -c 3000000 /dev/zero", f"echo done > {lab.folder}/done"))
    await engine.start(spec)
    run_dir = engine.run_dir(spec.run_id)
    await lab.until(lambda: logs.read(run_dir, 0, 99).data, "its first line")
    supervisor = RunDir(run_dir).supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    await lab.until(lambda: procs.stat(supervisor.pid) is None, "the supervisor's end")
    go.write_text("")
    await lab.end_of(spec.run_id)
    assert (lab.folder / "done").read_text() == "done\n"
    await lab.until(lambda: len(lab.alive()) == 1, "the drain to end")
    part = logs.read(run_dir, 0, 4 * MIB)
    assert part.data == b"before\n" + bytes(3_000_000)
    assert part.ended


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    part = logs.read(tmp_path / "nothing", 0, 100)
    assert (part.data, part.gap, part.next_offset, part.written) == (b"", 0, 0, 0)
    assert logs.read(tmp_path / "nothing", -50, 100).offset == 0


@pytest.mark.parametrize("chunk", [1, 1000, 65536, 1_000_003])
def test_head_ring_and_gap_add_up(tmp_path: Path, chunk: int) -> None:
    cap = 256 * 1024
    total = chunk * max(5, 3 * MIB // max(chunk, 1000))
    data = b"".join(b"%07d\n" % number for number in range(total // 8 + 1))[:total]
    writer = LogWriter(str(tmp_path / "log"), cap)
    for start in range(0, total, chunk):
        writer.write(memoryview(data)[start : start + chunk])
        assert disk_use(tmp_path) <= cap
    writer.close()
    assert (writer.written, writer.lost) == (total, 0)
    parts, kept = everything(tmp_path, 50_000)
    assert len(kept) + sum(part.gap for part in parts) == total
    for part in parts:
        at = part.offset + part.gap
        assert part.data == data[at : at + len(part.data)]
    if total > cap:
        assert kept[: cap // 4] == data[: cap // 4]
        assert kept[-cap // 4 :] == data[-cap // 4 :]


def test_a_writer_that_takes_over_goes_on_at_the_same_offset(tmp_path: Path) -> None:
    first = LogWriter(str(tmp_path / "log"), 0)
    first.write(memoryview(b"abc"))
    first.close()
    second = LogWriter(str(tmp_path / "log"), 0)
    assert second.written == 3
    second.write(memoryview(b"def"))
    second.close()
    assert everything(tmp_path)[1] == b"abcdef"


def test_what_a_full_disk_swallows_is_counted_and_shown_as_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(str(tmp_path / "log"), MIB)
    clock = [1000.0]
    monkeypatch.setattr("gputui.engines.supervision.logwriter.time.monotonic", lambda: clock[0])
    writer.write(memoryview(b"a" * 10_000))
    really_write = os.write

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    writer.write(memoryview(b"b" * 5_000))
    clock[0] += 1
    writer.write(memoryview(b"b" * 500))
    monkeypatch.setattr(os, "write", really_write)
    writer.write(memoryview(b"c" * 50))  # too soon to try the disk again
    clock[0] += 1
    writer.write(memoryview(b"d" * 7_000))
    writer.close()
    assert (writer.lost, writer.written) == (5_550, 22_550)
    assert writer.describe_loss() == "no space left on device: 5550 bytes of output were lost"
    first = logs.read(tmp_path, 0, MIB)
    assert first.data == b"a" * 10_000
    second = logs.read(tmp_path, first.next_offset, MIB)
    assert (second.gap, second.data) == (5_550, b"d" * 7_000)


async def test_a_job_is_not_held_up_by_a_full_disk(lab: Lab) -> None:
    """No file of the supervisor's may grow beyond 300 kB, which fails as a full disk does; the job still ends."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    engine = await lab.engine()
    server = engine._launcher.server_pid
    assert server is not None
    resource.prlimit(server, resource.RLIMIT_FSIZE, (300_000, hard))
    spec, end = await lab.run(engine, *script("head -c 5000000 /dev/zero; exit 6"))
    assert end.exit_code == 6
    assert end.log_error.startswith("file too large: ")
    lost = int(end.log_error.split()[3])
    run_dir = engine.run_dir(spec.run_id)
    parts, kept = everything(run_dir)
    assert sum(part.gap for part in parts) + len(kept) == 5_000_000 == logs.read(run_dir, 0, 1).written
    assert lost == sum(part.gap for part in parts)


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path | None]:
    """A tmpfs of 1 MiB where `lab` keeps its runs; None where this user cannot mount one."""
    disk = home / "runs"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_on_a_disk_that_is_really_full_the_end_is_still_recorded(small_disk: Path | None, lab: Lab) -> None:
    """Where no tmpfs can be mounted, the limit on file sizes above stands for it."""
    if small_disk is None:
        return
    engine = await lab.engine()
    go = lab.folder / "go"
    os.mkfifo(go)
    spec = lab.spec(*script("head -c 4000000 /dev/zero", f"cat {go}", "echo the end; exit 9"))
    await engine.start(spec)
    run_dir = engine.run_dir(spec.run_id)
    await lab.until(lambda: os.statvfs(small_disk).f_bfree == 0, "the disk to be full")
    later = lab.spec("true", env={b"BIG": b"x" * 8000})
    with pytest.raises(OSError, match="No space left"):
        await engine.start(later)
    assert not engine.run_dir(later.run_id).exists()
    go.write_text("")
    end = await lab.end_of(spec.run_id)
    assert end.exit_code == 9
    assert end.log_error.startswith("no space left on device: ")
    parts, kept = everything(run_dir)
    assert kept.startswith(bytes(500_000))
    assert sum(part.gap for part in parts) + len(kept) == 4_000_008 == parts[-1].written
    for segment in (run_dir / "log").iterdir():
        segment.unlink()
    _, end = await lab.run(engine, "true")  # room again: goes on by itself
    assert end.exit_code == 0
