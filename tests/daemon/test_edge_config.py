"""Settings, folders and the lock: where things live, who may be there, and one sentence when something is wrong."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gputui import config, paths
from gputui.daemon.lock import Busy, StoreLock
from gputui.domain.errors import InputError


def settings_file(text: str) -> None:
    path = paths.settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    settings_file('log_cap = "1MiB"\nprobe_fast = "3s"\nsimulated_gpus = 4\n')
    monkeypatch.setenv("GPUTUI_PROBE_FAST", "5s")
    monkeypatch.setenv("GPUTUI_STATE", "/from/environment")
    found = config.load(state=Path("/given"), socket=None)
    assert (found.log_cap, found.probe_fast, found.simulated_gpus) == (1024**2, 5.0, "4")
    assert (found.state_dir, found.socket) == (Path("/given"), None)


def test_the_screens_own_sections_stand_in_the_same_file() -> None:
    settings_file('log_cap = "1MiB"\n[screen]\nlook = "light"\n[keys]\n"job.hold" = "h"\n')
    assert config.load().log_cap == 1024**2


@pytest.mark.parametrize(
    ("text", "field", "part"),
    [
        ('log_cap = "much"', "log_cap", "40GiB"),
        ('probe_fast = "soon"', "probe_fast", "1h30m"),
        ("probe_fast = 0", "probe_fast", "greater than or equal to 0.1"),
        ('log_kap = "1MiB"', "log_kap", "no such setting"),
        ("log_cap =", "settings file", "not TOML"),
    ],
)
def test_a_bad_setting_is_one_sentence_with_field_value_and_remedy(text: str, field: str, part: str) -> None:
    settings_file(text)
    with pytest.raises(InputError) as wrong:
        config.load()
    assert wrong.value.field == field
    assert part in wrong.value.sentence
    assert "\n" not in wrong.value.sentence.replace("\\n", "")


def test_a_bad_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_LOG_CAP", "much")
    with pytest.raises(InputError, match=r"^GPUTUI_LOG_CAP is 'much'"):
        config.load()


def test_the_address_of_a_database_is_never_repeated() -> None:
    settings_file("[store]\nurl = 'postgresql://u:geheim@h/d'")
    with pytest.raises(InputError) as wrong:
        config.load()
    assert "geheim" not in wrong.value.sentence


def test_bad_settings_end_the_daemon_with_code_2_and_a_sentence() -> None:
    settings_file('log_cap = "much"')
    program = [sys.executable, "-m", "gputui.daemon"]
    done = subprocess.run(program, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "log_cap is 'much': write a size such as 40GiB or 512M\n"


def test_state_lies_under_the_machines_name(home: Path) -> None:
    assert paths.state_dir() == home / "state" / "gputui" / paths.machine_id()


def test_the_runtime_folder_must_be_ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.user_socket() == home / "run" / "gputui.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "none"))
    assert paths.user_socket() in (
        Path(f"/run/user/{os.geteuid()}/gputui.sock"),
        Path(f"/tmp/gputui-{os.geteuid()}/gputui.sock"),
    )


def test_a_folder_of_ours_is_narrowed_and_a_link_or_file_in_its_place_refused(home: Path) -> None:
    wide = home / "wide"
    wide.mkdir(mode=0o755)
    assert paths.private_dir(wide).stat().st_mode & 0o777 == 0o700
    (home / "file").touch()
    with pytest.raises(paths.UnsafeFolder):
        paths.private_dir(home / "file")
    with pytest.raises(paths.UnsafeFolder):
        paths.private_dir(home / "file" / "below")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder somebody else's")
def test_a_folder_of_somebody_else_is_refused(home: Path) -> None:
    theirs = home / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(paths.UnsafeFolder, match="belongs to someone else"):
        paths.private_dir(theirs)


def test_the_socket_is_sought_where_it_was_named_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEM_SOCKET", home / "system.sock")
    assert paths.find_socket() == paths.user_socket()
    with listening(home / "system.sock"):
        assert paths.find_socket() == home / "system.sock"
        monkeypatch.setenv("GPUTUI_SOCKET", str(home / "named.sock"))
        assert paths.find_socket() == home / "named.sock"
        assert paths.find_socket(home / "explicit.sock") == home / "explicit.sock"


def test_a_daemon_elsewhere_is_found_through_its_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEM_SOCKET", home / "none.sock")
    state = paths.private_dir(paths.state_dir())
    lock = StoreLock(state)
    lock.take()
    lock.note(home / "elsewhere.sock")
    assert paths.find_socket() == paths.user_socket()
    with listening(home / "elsewhere.sock"):
        assert paths.find_socket() == home / "elsewhere.sock"
    lock.close()


def listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_a_second_lock_is_refused_with_the_holder_and_the_remedy(home: Path) -> None:
    first = StoreLock(home)
    first.take()
    first.note(home / "d.sock")
    with pytest.raises(Busy, match=rf"A daemon \(pid {os.getpid()}\) already keeps .*--standby"):
        StoreLock(home).take()
    first.close()
    second = StoreLock(home)
    second.take()
    second.close()


def test_standby_takes_over_when_the_holder_is_gone(home: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", "import fcntl,sys,time;f=open(sys.argv[1],'a');fcntl.flock(f,2);print(1,flush=True);"
         "sys.stdin.read()", str(home / paths.LOCK_NAME)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdout.readline()
    lock = StoreLock(home)
    with pytest.raises(Busy):
        lock.take()
    holder.stdin.close()
    lock.take(standby=True, poll=0.01)
    holder.wait()
    holder.stdout.close()
    with (home / paths.LOCK_NAME).open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.close()
