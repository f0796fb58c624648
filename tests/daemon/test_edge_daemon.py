"""A real daemon over its real socket: one of it, its end, its guests, and what crosses."""

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gputui import paths
from gputui.client import AsyncClient, Client, ClientError, ensure_daemon
from gputui.client.start import environment
from gputui.daemon.routes.http import LARGEST_BODY
from tests.support.counts import count
from tests.support.daemon import Daemon, daemon, gone, until

SHOW_ARGV = "import os,sys;open(os.environ['TO'],'wb').write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))"


@pytest.fixture
def running(home: Path) -> Iterator[Daemon]:
    with daemon(home) as found:
        yield found


@pytest.fixture(scope="module")
def lasting() -> Iterator[Daemon]:
    """One daemon for all tests that neither end it nor care what else it holds."""
    folder = Path(tempfile.mkdtemp(prefix="gputui-"))
    with daemon(folder) as found:
        yield found
    shutil.rmtree(folder)


def submit(client: Client, *argv: str, **fields: object) -> int:
    job = {"argv": list(argv), "gpus": 0, **fields}
    return client.submit({"jobs": [job], "cwd": "/", "env": dict(os.environ)})["job_ids"][0]


def state(client: Client, job_id: int) -> str:
    return client.job(job_id)["state"]


# --- one daemon -----------------------------------------------------------------------------------------------------


def test_of_many_started_at_once_one_lives_and_all_find_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_SIMULATED_GPUS", "1")
    program = "from gputui.client import Client; print(Client().status()['pid'])"
    starters = [
        subprocess.Popen([sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(count(6, 20))
    ]
    try:
        said = {starter.communicate(timeout=100)[0] for starter in starters}
        assert len(said) == 1, said
        assert said != {""}
    finally:
        pid = int(Client(start=False).status()["pid"])
        Client(start=False).stop_daemon()
        until(lambda: gone(pid))
    assert not paths.user_socket().exists()


def test_a_started_daemon_hangs_on_nothing_of_its_starter(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_SIMULATED_GPUS", "1")
    ensure_daemon()
    with Client(start=False) as client:
        pid = client.status()["pid"]
        try:
            assert os.getsid(pid) == pid
            # whoever started it, a screen that lives for days, need not reap it
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            assert int(parent) != os.getpid()
            assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
            streams = {os.fspath(Path(f"/proc/{pid}/fd/{fd}").readlink()) for fd in range(3)}
            assert streams == {"/dev/null"}
            log = paths.state_dir() / paths.LOG_NAME
            assert log.exists()
            assert paths.state_dir().stat().st_mode & 0o777 == 0o700
        finally:
            client.stop_daemon()
            until(lambda: gone(pid))


def test_a_second_daemon_ends_at_once_with_a_sentence(running: Daemon) -> None:
    second = subprocess.run(
        [sys.executable, "-P", "-m", "gputui.daemon", "--state", str(running.state)],
        env=running.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (second.returncode, second.stdout) == (1, "")
    assert running.process is not None
    assert second.stderr.startswith(f"A daemon (pid {running.process.pid}) already keeps {running.state};")


def test_a_standby_takes_over_from_a_killed_daemon(running: Daemon) -> None:
    waiting = running.spawn("--standby")
    assert running.process is not None
    first = running.process.pid
    assert running.client().status()["pid"] == first
    running.stop(signal.SIGKILL)
    running.process = waiting
    assert Daemon.ready_line(waiting) == f"READY {running.socket}"
    with running.client() as client:
        status = client.status()
    assert status["pid"] == waiting.pid
    assert status["epoch"] == 2


# --- its end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_jobs_outlive_the_daemon_and_are_found_again(running: Daemon, number: int) -> None:
    with running.client() as client:
        job_id = submit(client, "sleep", "600")
        until(lambda: state(client, job_id) == "running")
        run = client.job(job_id)["runs"][0]["run_id"]
    code = running.stop(number)
    assert code == (0 if number == signal.SIGTERM else -number)
    assert running.socket.exists() == (number == signal.SIGKILL)
    running.start()
    with running.client() as client:
        until(lambda: state(client, job_id) == "running")
        assert [one["run_id"] for one in client.job(job_id)["runs"]] == [run]


def test_a_wait_goes_on_over_a_restart(running: Daemon, home: Path) -> None:
    program = "import os,time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    with running.client() as client:
        job = {"argv": [sys.executable, "-c", program], "gpus": 0, "cwd": str(home)}
        job_id = client.submit({"jobs": [job], "cwd": "/", "env": dict(os.environ)})["job_ids"][0]
    with ThreadPoolExecutor(1) as pool, running.client() as waiting:
        reply = pool.submit(waiting.wait, [job_id], 100)
        until(lambda: waiting._connection is not None)
        running.stop()
        running.start()
        (home / "go").touch()
        assert reply.result(100)["jobs"][0]["state"] == "succeeded"


async def test_the_end_does_not_wait_for_open_streams(running: Daemon) -> None:
    client = AsyncClient(running.socket)
    events = client.events()
    async with asyncio.timeout(60):
        hello = await anext(events)
        assert (hello["type"], hello["epoch"]) == ("hello", 1)
        assert await asyncio.to_thread(running.stop) == 0
        kinds = [one["type"] async for one in _until_disconnected(events)]
    assert kinds[-1] == "disconnected"
    await events.aclose()


async def _until_disconnected(events):  # type: ignore[no-untyped-def]
    async for event in events:
        yield event
        if event["type"] == "disconnected":
            return


def test_stop_by_request_says_what_becomes_of_jobs(running: Daemon) -> None:
    with running.client() as client:
        assert "jobs go on" in client.stop_daemon()["message"]
    assert running.process is not None
    running.process.wait(60)
    assert running.stop() == 0


# --- its guests -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_refused_by_what_the_kernel_says(running: Daemon, home: Path) -> None:
    home.chmod(0o711)
    running.socket.chmod(0o666)
    program = (
        "import os,socket,sys;os.setgroups([]);os.setgid(65534);os.setuid(65534);s=socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]);"
        "s.sendall(b'GET /status HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n');"
        "d=b''.join(iter(lambda: s.recv(65536), b''));print(d.decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(running.socket)], capture_output=True, text=True, check=True
    )
    head, _, body = done.stdout.strip().partition("\n\n")
    assert head.startswith("HTTP/1.1 403")
    assert json.loads(body)["error"]["code"] == "not_allowed"
    assert "it answers only root" in json.loads(body)["error"]["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_cannot_even_reach_the_socket(running: Daemon) -> None:
    program = (
        "import os,sys;from pathlib import Path;from gputui.client import Client,ClientError\n"
        "os.setgroups([]);os.setgid(65534);os.setuid(65534)\n"
        "try: Client(Path(sys.argv[1]), start=False).status()\n"
        "except ClientError as error: print(error.code, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(running.socket)], env=environment(), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.startswith("not_allowed You may not use the daemon at")


# --- what crosses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        ["a b", "'", '"', "&", "; rm -rf /", "$HOME", "\n", "\t", "", "日本語", "🦆"],
        [os.fsdecode(bytes(range(1, 256))), os.fsdecode(b"\xff\xfe"), os.fsdecode(b"caf\xe9")],
        [str(number) for number in range(2000)],
    ],
)
def test_argv_arrives_unchanged(lasting: Daemon, home: Path, argv: list[str]) -> None:
    with lasting.client() as client:
        job_id = submit(client, sys.executable, "-c", SHOW_ARGV, *argv, env={"TO": str(home / "argv")})
        assert client.wait([job_id], 60)["jobs"][0]["state"] == "succeeded"
        assert client.job(job_id)["argv"][3:] == argv
    assert (home / "argv").read_bytes() == b"\0".join(os.fsencode(word) for word in argv)


def test_directory_and_environment_that_are_not_utf8_arrive_unchanged(lasting: Daemon, home: Path) -> None:
    folder = os.fsdecode(os.fsencode(home) + b"/d-\xff")
    Path(folder).mkdir()
    program = "import os;open('seen','wb').write(os.getcwdb()+b'\\0'+os.environb[b'ODD'])"
    with lasting.client() as client:
        job = {"argv": [sys.executable, "-c", program], "gpus": 0}
        env = {**os.environ, "ODD": os.fsdecode(b"\x80\xff")}
        job_id = client.submit({"jobs": [job], "cwd": folder, "env": env})["job_ids"][0]
        assert client.wait([job_id], 60)["jobs"][0]["state"] == "succeeded"
    assert Path(folder, "seen").read_bytes() == os.fsencode(folder) + b"\0\x80\xff"


def test_environment_values_are_in_no_log_audit_row_or_reply(lasting: Daemon) -> None:
    with lasting.client() as client:
        job = {"argv": ["true"], "gpus": 0, "env": {"TOKEN": "hunter2-own"}}
        request = {"jobs": [job], "cwd": "/", "env": {"API_KEY": "hunter2-captured"}}
        job_id = client.submit(request)["job_ids"][0]  # type: ignore[arg-type]
        client.wait([job_id], 60)
        with pytest.raises(ClientError) as refused:
            client.submit({**request, "jobs": [{**job, "gpus": "x"}]})  # type: ignore[list-item]
        said = json.dumps([client.job(job_id), client.why(job_id), client.audit(limit=10_000), refused.value.message])
    assert "hunter2" not in said + lasting.log()


def test_output_is_read_by_absolute_offset(lasting: Daemon) -> None:
    with lasting.client() as client:
        job_id = submit(client, "printf", "hello world")
        client.wait([job_id], 60)
        until(lambda: client.log(job_id)["ended"])
        whole = client.log(job_id)
        part = client.log(job_id, offset=6, limit=3)
        tail = client.log(job_id, offset=-5)
        with pytest.raises(ClientError) as missing:
            client.log(job_id, run=7)
    assert base64.b64decode(whole["data"]) == b"hello world"
    assert (base64.b64decode(part["data"]), part["next_offset"]) == (b"wor", 9)
    assert (base64.b64decode(tail["data"]), tail["offset"]) == (b"world", 6)
    assert missing.value.code == "not_found"


def test_many_jobs_stream_in_and_one_bad_line_undoes_all(lasting: Daemon) -> None:
    with lasting.client() as client:
        jobs: list[dict[str, object]] = [{"argv": ["true"], "gpus": 0, "hold": True} for _ in range(3000)]
        ids = client.submit_bulk(jobs, "/", {"A": "1"})["job_ids"]
        assert len(ids) == 3000
        queued = client.status()["queued"]
        assert queued >= 3000
        jobs[2500] = {"argv": ["true"], "gpus": "many"}
        with pytest.raises(ClientError) as bad:
            client.submit_bulk(jobs, "/", {})
        assert (bad.value.code, bad.value.field) == ("bad_input", "job 2501: gpus")
        assert client.status()["queued"] == queued
        client.cancel(ids)


BAD_INPUT: list[tuple[str, str, object, str]] = [
    ("POST", "/jobs", {"jobs": []}, "jobs"),
    ("POST", "/jobs", {"jobs": [{"argv": []}]}, "argv"),
    ("POST", "/jobs", {"jobs": [{"argv": ["x"], "gpuz": 1}]}, "job"),
    ("POST", "/jobs", {"jobs": [{"argv": ["x"]}], "env": {"A": 1}}, "env.A"),
    ("POST", "/jobs/hold", {"ids": [True]}, "ids.0"),
    ("GET", "/jobs?state=asleep", None, "state"),
    ("GET", "/jobs?limit=-1", None, "limit"),
    ("GET", "/jobs/x", None, "job"),
    ("GET", "/jobs/window?scope=none", None, "scope"),
    ("GET", "/jobs/wait", None, "ids"),
    ("GET", "/jobs/wait?ids=1&timeout=soon", None, "timeout"),
    ("GET", "/events?types=weather", None, "types"),
    ("POST", "/freeze", {}, "reason"),
    ("POST", "/datasets", {"name": "a/b", "location": "/x"}, "name"),
    ("POST", "/datasets", {"name": "a", "location": "x"}, "location"),
    ("POST", "/datasets", {"name": "a", "location": "/x", "min_size": "big"}, "min_size"),
    ("POST", "/datasets", {"name": "a", "location": "/x", "min_files": 0}, "min_files"),
    ("POST", "/datasets", {"name": "a", "location": "/x", "min_files": "9" * 5000}, "min_files"),
    ("POST", "/datasets", {"name": "a", "location": "/x", "exists": False}, "exists"),
]


def test_bad_input_is_one_sentence_naming_the_field_and_changes_nothing(shared: Client) -> None:
    def everything() -> object:
        return shared.status()["queued"], shared.datasets(), len(shared.audit())

    before = everything()
    for method, path, body, field in BAD_INPUT:
        with pytest.raises(ClientError) as bad:
            shared.request(method, path, body)
        assert (bad.value.code, bad.value.field) == ("bad_input", field), (path, body, bad.value)
        assert len(bad.value.message.splitlines()) == 1
    assert everything() == before


@pytest.fixture
def shared(lasting: Daemon) -> Iterator[Client]:
    with lasting.client() as client:
        yield client


def test_a_request_too_large_is_refused_as_such(shared: Client) -> None:
    with pytest.raises(ClientError) as refused:
        shared.request("POST", "/jobs", {"jobs": [{"argv": ["x" * (LARGEST_BODY + 10)]}]})
    assert refused.value.code == "too_large"


async def test_events_tell_what_changed(lasting: Daemon) -> None:
    client = AsyncClient(lasting.socket)
    events = client.events(["queue", "gpus", "status"])
    async with asyncio.timeout(60):
        assert (await anext(events))["type"] == "hello"
        request = {"jobs": [{"argv": ["true"], "gpus": 0, "hold": True}], "cwd": "/", "env": {}}
        job_id = (await client.request("POST", "/jobs", request))["job_ids"][0]
        seen: dict[str, object] = {}
        async for event in events:
            seen[event["type"]] = event["data"]
            if event["type"] == "queue":
                assert job_id in event["data"]["changed"]  # type: ignore[operator]
            if {"queue", "gpus", "status"} <= seen.keys():
                break
    await events.aclose()
    await client.act("cancel", [job_id])
    await client.close()


# --- datasets -------------------------------------------------------------------------------------------------------


def test_a_job_starts_only_after_its_marker_appeared(lasting: Daemon, home: Path) -> None:
    data = home / "corpus"
    data.mkdir()
    with lasting.client() as client:
        row = client.add_dataset({"name": "corpus", "location": str(data), "marker": "_SUCCESS"})
        assert (row["ready"], row["readiness"], row["reason"]) == (False, 0.0, "no marker _SUCCESS yet")
        job_id = submit(client, "true", datasets=["corpus"])
        assert "corpus" in client.why(job_id)["reason"]
        assert client.wait([job_id], 0.5)["jobs"][0]["state"] in ("queued", "held")
        (data / "_SUCCESS").touch()
        assert client.wait([job_id], 60)["jobs"][0]["state"] == "succeeded"
        acts = [entry["act"] for entry in client.audit(subject="dataset corpus")]
        assert acts == ["dataset.ready", "dataset.unready", "dataset.add"]
        assert client.verify_audit()["ok"] is True


def test_a_growing_dataset_says_how_far_it_is(lasting: Daemon, home: Path) -> None:
    data = home / "shards"
    data.mkdir()
    (data / "0").write_bytes(b"x" * 600_000)
    with lasting.client() as client:
        row = client.add_dataset({"name": "shards", "location": str(data), "min_size": 1_000_000})
        assert row["readiness"] == pytest.approx(0.6)
        assert (row["files"], row["size"]) == (1, 600_000)
        job_id = submit(client, "true", datasets=["shards"])
        assert client.job(job_id)["readiness"] == pytest.approx(0.6)
        (data / "1").write_bytes(b"x" * 400_000)
        assert client.wait([job_id], 60)["jobs"][0]["state"] == "succeeded"
        assert client.check_dataset("shards")["ready"]


def test_a_dataset_is_removed_only_when_nobody_waits_for_it(lasting: Daemon, home: Path) -> None:
    with lasting.client() as client:
        client.add_dataset({"name": "d", "location": str(home / "later")})
        job_id = submit(client, "true", datasets=["d"])
        with pytest.raises(ClientError, match="1 waiting job needs it") as refused:
            client.remove_dataset("d")
        assert refused.value.code == "wrong_state"
        client.cancel([job_id])
        client.remove_dataset("d")
        assert "d" not in [row["name"] for row in client.datasets()]
        with pytest.raises(ClientError, match="no dataset d"):
            client.check_dataset("d")


def test_datasets_survive_a_restart_and_count_as_unknown_until_looked_at(running: Daemon, home: Path) -> None:
    data = home / "set"
    data.mkdir()
    with running.client() as client:
        assert client.add_dataset({"name": "set", "location": str(data), "min_files": "1"})["ready"] is False
    running.stop()
    (data / "one").touch()
    running.start()
    with running.client() as client:
        until(lambda: client.datasets()[0]["ready"])
        assert client.datasets()[0]["expects"] == ["at least 1 file"]
