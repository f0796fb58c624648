"""Two daemons on one machine never run two jobs on one GPU."""

import os
import stat
from pathlib import Path

import pytest

from gputui.engines.engine import EndReason
from gputui.engines.supervision import gpulock
from tests.engines.conftest import Lab, script


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpulock, "PATIENCE_S", 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    gpulock.prepare(str(tmp_path / "locks"))
    return str(tmp_path / "locks")


def test_exclusive_and_shared(folder: str) -> None:
    first = gpulock.acquire(folder, "GPU-a", share=False)
    other = gpulock.acquire(folder, "GPU-b", share=False)
    for share in (True, False):
        with pytest.raises(gpulock.Locked, match="GPU-a is in use by another program"):
            gpulock.acquire(folder, "GPU-a", share=share)
    os.close(first)
    shared = [gpulock.acquire(folder, "GPU-a", share=True) for _ in range(3)]
    with pytest.raises(gpulock.Locked):
        gpulock.acquire(folder, "GPU-a", share=False)
    assert gpulock.locked(folder, ["GPU-a", "GPU-b", "GPU-c"]) == {"GPU-a", "GPU-b"}
    for fd in (*shared, other):
        os.close(fd)
    assert gpulock.locked(folder, ["GPU-a", "GPU-b", "GPU-c"]) == set()


def test_the_folder_and_its_files_are_for_all_users(folder: str) -> None:
    before = os.umask(0o077)
    try:
        os.close(gpulock.acquire(folder, "MIG-1234.0", share=False))
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o1777
    assert stat.S_IMODE((Path(folder) / "gputui-MIG-1234.0.lock").stat().st_mode) == 0o644


def test_a_link_in_the_place_of_a_lock_is_not_followed(folder: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (Path(folder) / "gputui-GPU-a.lock").symlink_to(victim)
    with pytest.raises(OSError, match=r"[Ss]ymbolic"):
        gpulock.acquire(folder, "GPU-a", share=False)
    assert not victim.exists()
    assert gpulock.locked(folder, ["GPU-a"]) == {"GPU-a"}  # it cannot be told, so it is not free


def test_a_fifo_in_the_place_of_a_lock_does_not_hang(folder: str) -> None:
    os.mkfifo(Path(folder) / "gputui-GPU-a.lock")
    with pytest.raises(OSError, match="not a regular file"):
        gpulock.acquire(folder, "GPU-a", share=False)


def test_a_folder_that_others_could_rearrange_is_refused(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    (tmp_path / "link").symlink_to(loose)
    for path in (loose, tmp_path / "link"):
        with pytest.raises(OSError, match="not a folder that is mine or sticky"):
            gpulock.prepare(str(path))


def test_a_name_that_is_no_uuid_is_refused(folder: str) -> None:
    with pytest.raises(OSError, match="not a GPU's UUID"):
        gpulock.acquire(folder, "../../etc/x", share=False)


def test_a_lock_on_a_removed_file_is_taken_again(folder: str) -> None:
    fd = gpulock.acquire(folder, "GPU-a", share=False)
    (Path(folder) / "gputui-GPU-a.lock").unlink()
    again = gpulock.acquire(folder, "GPU-a", share=False)
    assert os.fstat(fd).st_ino != os.fstat(again).st_ino
    os.close(fd)
    os.close(again)


def test_the_folder_comes_from_the_environment_else_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_LOCK_DIR", "/some/where")
    assert gpulock.default_folder() == "/some/where"
    monkeypatch.delenv("GPUTUI_LOCK_DIR")
    assert gpulock.default_folder() in ("/run/lock", "/tmp/gputui-locks")


async def test_a_second_daemon_cannot_run_on_a_gpu_in_use(lab: Lab) -> None:
    first, second = await lab.engine(), await lab.engine()
    mine = lab.spec("sleep", "600", gpu_uuids=("GPU-1", "GPU-2"))
    await first.start(mine)
    await lab.until(lambda: mine.run_id in lab.began, "its beginning")
    assert second.locked_by_others(["GPU-0", "GPU-1", "GPU-2"]) == {"GPU-1", "GPU-2"}
    assert first.locked_by_others(["GPU-0", "GPU-1", "GPU-2"]) == set()
    ran = lab.folder / "ran"
    theirs, end = await lab.run(second, "touch", str(ran), gpu_uuids=("GPU-2",))
    assert (end.reason, end.error) == (
        EndReason.REVOKED,
        "GPU-2 is in use by another program that takes gputui's locks",
    )
    assert not ran.exists()
    assert theirs.run_id not in lab.began
    await first.stop(mine.run_id, 5)
    await lab.end_of(mine.run_id)
    _, end = await lab.run(second, "touch", str(ran), gpu_uuids=("GPU-2",))
    assert end.exit_code == 0


async def test_sharing_runs_meet_on_one_gpu_and_keep_others_out(lab: Lab) -> None:
    engine = await lab.engine()
    pair = [lab.spec("sleep", "600", gpu_uuids=("GPU-1",), share=True) for _ in range(2)]
    for spec in pair:
        await engine.start(spec)
        await lab.until(lambda run_id=spec.run_id: run_id in lab.began, "its beginning")
    _, end = await lab.run(engine, "true", gpu_uuids=("GPU-1",))
    assert end.reason is EndReason.REVOKED
    for spec in pair:
        await engine.stop(spec.run_id, 5)
        await lab.end_of(spec.run_id)


async def test_the_lock_is_free_when_the_end_is_told(lab: Lab) -> None:
    """Who is told of an end may start the next run on that GPU at once."""
    engine = await lab.engine()
    for number in range(15):
        _, end = await lab.run(engine, *script(f"exit {number}"), gpu_uuids=("GPU-1",))
        assert (end.exit_code, gpulock.locked(str(lab.folder / "locks"), ["GPU-1"])) == (number, set())
