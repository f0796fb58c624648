"""Opening a store: modes, pragmas, and every reason to refuse."""

import sqlite3
import stat
from pathlib import Path

import pytest

from gputui.store import jobs
from gputui.store.db import Store
from gputui.store.problems import Deposed, StoreProblem
from tests.store.conftest import AT, HOST, Submit, spec

MOUNTS = """\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
40 21 0:40 / {mount} rw,relatime shared:1 - {kind} server:/export rw
"""


def mounts(home: Path, mount: Path, kind: str) -> Path:
    file = home / "mountinfo"
    file.write_text(MOUNTS.format(mount=str(mount).replace(" ", r"\040"), kind=kind))
    return file


def test_files_are_private_and_settings_durable(store: Store, path: Path, submit: Submit) -> None:
    submit([spec()])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    with store.write() as session:
        connection = session.connection()
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        }
    assert found == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 5000, "synchronous": 2}


def test_a_loose_file_is_made_private(path: Path) -> None:
    Store.open(path, HOST).close()
    path.chmod(0o644)
    Store.open(path, HOST).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_reopening_keeps_everything(path: Path) -> None:
    with Store.open(path, HOST) as first:
        assert first.take_leadership(AT) == 1
        with first.write() as session:
            (job_id,) = jobs.insert_jobs(
                session, [spec(name="kept")], owner_uid=1, owner="ann", host_id=HOST, at=AT, first_seq=1
            )
    with Store.open(path, HOST) as second:
        assert second.take_leadership(AT) == 2
        with second.read() as session:
            assert jobs.get(session, job_id).name == "kept"


def test_a_url_of_a_file_opens_the_same_store(path: Path, store: Store, submit: Submit) -> None:
    submit([spec()])
    with Store.open(f"sqlite:///{path}", HOST) as other, other.read() as session:
        assert jobs.get(session, 1).owner == "ann"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "ceph", "fuse.sshfs"])
def test_skypilot_4552_a_network_file_system_is_refused(home: Path, kind: str) -> None:
    shared = home / "shared home"
    shared.mkdir()
    with pytest.raises(StoreProblem, match=f"network file system \\({kind}\\)") as caught:
        Store.open(shared / "new" / "gputui.db", HOST, mountinfo=mounts(home, shared, kind))
    assert "local disk" in caught.value.remedy
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "fuse.mergerfs"])
def test_a_local_file_system_is_taken(home: Path, kind: str) -> None:
    Store.open(home / "gputui.db", HOST, mountinfo=mounts(home, home, kind)).close()


def test_only_the_mount_that_holds_the_store_counts(home: Path) -> None:
    shared, near = home / "shared", home / "shared-not"
    near.mkdir()
    Store.open(near / "gputui.db", HOST, mountinfo=mounts(home, shared, "nfs")).close()


def test_a_later_mount_on_the_same_point_counts(home: Path) -> None:
    file = mounts(home, home, "nfs4")
    file.write_text(file.read_text() + f"41 21 0:41 / {home} rw - xfs /dev/sdb rw\n")
    Store.open(home / "gputui.db", HOST, mountinfo=file).close()


def test_a_symlink_into_a_network_file_system_is_refused(home: Path) -> None:
    (home / "shared").mkdir()
    (home / "link").symlink_to(home / "shared")
    with pytest.raises(StoreProblem, match="network"):
        Store.open(home / "link" / "gputui.db", HOST, mountinfo=mounts(home, home / "shared", "nfs"))


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_slurm_17659_a_lost_store_is_never_an_empty_queue(path: Path, how: str) -> None:
    Store.open(path, HOST).close()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(b"")
    with pytest.raises(StoreProblem, match="gone or empty, although there was one") as caught:
        Store.open(path, HOST)
    assert "backup" in caught.value.remedy
    assert not path.exists() or path.stat().st_size == 0


def test_a_lost_store_is_begun_anew_only_when_told(path: Path) -> None:
    Store.open(path, HOST).close()
    path.unlink()
    path.with_name(path.name + ".exists").unlink()
    Store.open(path, HOST).close()


def test_a_path_too_long_for_sqlite_is_called_that(home: Path) -> None:
    with pytest.raises(StoreProblem, match="longer than the 500 bytes"):
        Store.open(home.joinpath(*["x" * 100] * 5, "gputui.db"), HOST)


def test_an_older_copy_is_refused_unless_told(path: Path) -> None:
    with Store.open(path, HOST) as store:
        store.take_leadership(AT)
    copy = path.read_bytes()
    with Store.open(path, HOST) as store:
        assert store.take_leadership(AT) == 2
    path.write_bytes(copy)
    with Store.open(path, HOST) as store, pytest.raises(StoreProblem, match="an older copy") as caught:
        store.take_leadership(AT)
    marker = path.with_name(path.name + ".exists")
    assert str(marker) in caught.value.remedy
    assert path.stat().st_size == len(copy)
    marker.unlink()
    with Store.open(path, HOST) as store:
        assert store.take_leadership(AT) == 2


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database at all" * 1000)
    with pytest.raises(StoreProblem, match="not an SQLite database"):
        Store.open(path, HOST)


def test_a_damaged_store_is_refused(path: Path) -> None:
    with Store.open(path, HOST) as store:
        store.take_leadership(AT)
        with store.write() as session:
            jobs.insert_jobs(session, [spec()] * 2000, owner_uid=1, owner="ann", host_id=HOST, at=AT, first_seq=1)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096 * 4)
    with pytest.raises(StoreProblem, match="damaged"):
        Store.open(path, HOST)


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()
    with pytest.raises(StoreProblem, match="not a gputui store"):
        Store.open(path, HOST)
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]
    other.close()


def test_a_newer_schema_is_refused(path: Path) -> None:
    Store.open(path, HOST).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.close()
    with pytest.raises(StoreProblem, match="newer gputui \\(schema 9999\\)"):
        Store.open(path, HOST)


def test_a_store_in_memory_is_refused() -> None:
    with pytest.raises(StoreProblem, match="memory"):
        Store.open("sqlite://", HOST)


def test_a_folder_that_cannot_be_made_is_a_problem(home: Path) -> None:
    (home / "file").write_text("")
    with pytest.raises(StoreProblem, match="can't be opened: Not a directory"):
        Store.open(home / "file" / "gputui.db", HOST)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StoreProblem) as caught:
        Store.open("oracle://ann:s3cret@db/gputui", HOST)
    assert "s3cret" not in str(caught.value)


def test_the_older_of_two_daemons_cannot_write(path: Path) -> None:
    with Store.open(path, HOST) as older, Store.open(path, "host-2") as newer:
        assert older.take_leadership(AT) == 1
        with older.write() as session:
            jobs.insert_jobs(session, [spec()], owner_uid=1, owner="ann", host_id=HOST, at=AT, first_seq=1)
        assert newer.take_leadership(AT) == 2
        sentence = r"Another daemon took over the store \(epoch 2; this one had 1\)"
        with pytest.raises(Deposed, match=sentence), older.write() as session:
            jobs.update_job(session, 1, priority=5)
        with newer.write() as session:
            assert jobs.get(session, 1).priority == 0


def test_writing_comes_after_leading(path: Path) -> None:
    with Store.open(path, HOST) as store, pytest.raises(RuntimeError, match="take_leadership"), store.write():
        pass


def test_a_store_removed_under_the_daemon_is_noticed(store: Store, path: Path) -> None:
    path.rename(path.with_name("moved.db"))
    with pytest.raises(StoreProblem, match="removed or replaced"), store.write():
        pass


def test_a_full_disk_is_told_and_over_when_there_is_room(store: Store, submit: Submit) -> None:
    submit([spec()])
    with store.write() as session:
        pages = session.connection().exec_driver_sql("PRAGMA page_count").scalar_one()
        session.connection().exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
    with pytest.raises(StoreProblem, match="full") as caught:
        submit([spec()] * 3000, first_seq=2)
    assert "Free some space" in caught.value.remedy
    with store.write() as session:
        session.connection().exec_driver_sql("PRAGMA max_page_count=1000000")
        assert jobs.last_seq(session) == 1
    assert submit([spec()], first_seq=2) == [2]


def test_a_lock_by_another_program_is_told(store: Store, path: Path) -> None:
    with store.write() as session:
        session.connection().exec_driver_sql("PRAGMA busy_timeout=50")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreProblem, match="locked by another program"), store.write():
            pass
    finally:
        other.close()
    with store.write():
        pass
