"""The whole loop by command: submit, watch, move, hold, end, read; people's words and scripts' fields."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.daemon import until

# what CLI.md promises to scripts
JOB_FIELDS = {
    "id", "name", "state", "owner", "project", "class", "priority", "position", "baseline_position", "readiness",
    "gpus", "gpu_types", "gpu_memory", "duration", "submitted_at", "expected_start", "reason", "argv", "cwd", "holds",
}  # fmt: skip
RUN_FIELDS = {
    "attempt", "state", "gpu_uuids", "started_at", "ended_at", "exit_code", "signal", "end_reason", "resumed_from",
    "checkpoint", "log",
}  # fmt: skip
GPU_FIELDS = {
    "uuid", "index", "name", "type", "state", "utilization", "memory_used", "memory_total", "temperature", "power",
    "job_id", "processes",
}  # fmt: skip


def submitted(done):
    assert done.code == 0, done
    return done.json["job_ids"]


def test_a_job_from_submit_to_its_last_line(daemon, here, home):
    done = here("submit", "--name", "hi", "--json", "--", "sh", "-c", "echo to out; echo to err >&2; exit 3")
    (number,) = submitted(done)
    waited = here("wait", str(number), "--timeout", "60")
    assert waited.out == f"#{number} failed, exit code 3\n", here("job", "why", str(number))
    assert waited.code == 1
    assert here("logs", f"#{number}").out == "to out\nto err\n"
    log = here("logs", str(number), "--json").json
    assert (log["text"], log["gaps"], log["ended"]) == ("to out\nto err\n", [], True)

    row = here("job", "show", str(number), "--json").json
    assert row.keys() >= JOB_FIELDS | {"runs"}
    assert (row["state"], row["name"], row["cwd"], row["position"]) == ("failed", "hi", str(home), None)
    (run,) = row["runs"]
    assert run.keys() >= RUN_FIELDS
    assert (run["attempt"], run["exit_code"], run["signal"], len(run["gpu_uuids"])) == (1, 3, None, 1)

    why = here("job", "why", str(number), "--json").json
    assert why.keys() == {"job_id", "reason", "waits_for"}
    assert "3" in why["reason"]
    assert f"#{number} hi" in here("job", "show", str(number)).out

    again = here("requeue", str(number), "--json").json
    assert again["ids"] == [number]
    here("wait", str(number), "--timeout", "60")
    assert len(here("job", "show", str(number), "--json").json["runs"]) == 2


def test_success_is_0_and_a_timeout_is_said(daemon, here):
    (quick,) = submitted(here("submit", "--json", "--", "true"))
    (held,) = submitted(here("submit", "--json", "--hold", "--", "true"))
    assert here("wait", str(quick), "--timeout", "60").code == 0
    done = here("wait", str(quick), str(held), "--timeout", "0.1")
    assert done.code == 1
    assert f"#{held}" in done.err
    assert f"#{quick}" not in done.err


def test_argv_directory_and_environment_arrive_as_bytes(daemon, gputui, home):
    words = [b"a b", b"'q\"", b"&|;$(x)", b"new\nline", b"\xff\xfe", "训练".encode(), b"", b"--json", b"--"]
    strange = home / os.fsdecode(b"dir \xff")
    strange.mkdir()
    target = home / "seen"
    program = (
        "import os, sys\n"
        "seen = [*map(os.fsencode, sys.argv[2:]), os.getcwdb(), os.environb[b'ODD'], os.environb[b'EXTRA']]\n"
        "open(sys.argv[1], 'wb').write(b'\\0'.join(seen))"
    )
    options = ["--gpus", "0", "--env", "EXTRA=k=v w", "--json", "--"]
    env = {"ODD": os.fsdecode(b"\xfe=1")}
    command = [sys.executable, "-c", program, str(target)]
    done = gputui("submit", *options, *command, *words, cwd=strange, env=env)
    (number,) = submitted(done)
    assert gputui("wait", str(number), "--timeout", "60").code == 0, gputui("logs", str(number))
    assert target.read_bytes().split(b"\0") == [*words, os.fsencode(strange), b"\xfe=1", b"k=v w"]
    assert gputui("job", "show", str(number)).code == 0
    argv = gputui("job", "show", str(number), "--json").json["argv"]
    assert [os.fsencode(word) for word in argv[-len(words) :]] == words


def test_options_end_where_the_program_begins(daemon, here):
    (number,) = submitted(here("submit", "--json", "--hold", "echo", "--name", "x", "-n"))
    assert here("job", "show", str(number), "--json").json["argv"] == ["echo", "--name", "x", "-n"]


def test_what_is_asked_for_is_what_the_job_has(daemon, here):
    here("dataset", "add", "corpus", "/nowhere", "--exists")
    words = (
        "--json --name [b]训练[/b] --project p --class core --priority 7 --gpus 2 --gpu-type h100-80g,a10-24g "
        "--gpu-memory 20GiB --duration 1h30m --dataset corpus --hold -- true"
    )
    (number,) = submitted(here("submit", *words.split()))
    row = here("job", "show", str(number), "--json").json
    wanted = {"name": "[b]训练[/b]", "project": "p", "class": "core", "priority": 7, "gpus": 2, "duration": 5400}
    assert row.items() >= {**wanted, "gpu_memory": 20 * 1024**3}.items()
    assert sorted(row["gpu_types"]) == ["a10-24g", "h100-80g"]
    assert (row["state"], row["datasets"]) == ("held", ["corpus"])
    assert "[b]训练[/b]" in here("jobs").out
    changed = here("job", "edit", str(number), "--name", "plain", "--priority", "-1", "--json").json
    assert (changed["name"], changed["priority"]) == ("plain", -1)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["--gpus", "many"], "gpus"),
        (["--gpu-memory", "lots"], "gpu_memory"),
        (["--duration", "soon"], "duration"),
        (["--class", "royal"], "class"),
    ],
)
def test_bad_values_are_refused_by_name_and_queue_nothing(daemon, here, words, field):
    done = here("submit", "--json", *words, "--", "true")
    assert done.code == 2
    assert (done.json["error"]["code"], done.json["error"]["field"]) == ("bad_input", field)
    said = here("submit", *words, "--", "true")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert words[1] in said.err
    assert here("jobs", "--json").json == {"total": 0, "jobs": []}


def test_a_dataset_that_nobody_added_yet_is_warned_of(daemon, here):
    done = here("submit", "--dataset", "nowhere", "--", "true")
    assert done.code == 0
    assert "nowhere" in done.err


def test_order_by_hand_and_back(daemon, here):
    ids = [submitted(here("submit", "--json", "--gpus", "9", "--", "true"))[0] for _ in range(4)]

    def order():
        return [job["id"] for job in here("jobs", "--json").json["jobs"]]

    a, b, c, d = ids
    assert order() == ids
    assert here("move", str(d), "--top", "--json").json["position"] == 1
    assert order() == [d, a, b, c]
    assert "3 ahead of where the rules put it" in here("move", str(d), "--top").out
    assert "▲3" in here("jobs").out
    here("move", str(d), "--down")
    assert order() == [a, d, b, c]
    here("move", str(d), "--down", "2")
    assert order() == [a, b, c, d]
    here("move", "--up", "2", f"#{d}")
    assert order() == [a, d, b, c]
    here("move", "--up", str(d))
    assert order() == [d, a, b, c]
    here("move", str(a), "--after", str(c))
    assert order() == [d, b, c, a]
    here("move", str(a), "--before", str(b))
    assert order() == [d, a, b, c]
    here("move", str(d), "--baseline")
    assert order() == ids
    rows = here("audit", "list", "--json").json["rows"]
    assert [row["act"] for row in rows].count("job.move") == 8  # one of the nine changed nothing
    assert here("audit", "verify").code == 0


def test_hold_release_cancel_name_what_they_did_and_are_all_or_nothing(daemon, here):
    ids = [submitted(here("submit", "--json", "--gpus", "9", "--", "true"))[0] for _ in range(2)]
    words = [str(number) for number in ids]
    assert here("hold", *words, "--reason", "later", "--json").json["ids"] == ids
    assert [job["state"] for job in here("jobs", "--json", "--state", "held").json["jobs"]] == ["held", "held"]
    assert here("release", *words).code == 0
    refused = here("cancel", *words, "999", "--json")
    assert refused.code == 1
    assert refused.json["error"]["code"] == "not_found"
    assert here("jobs", "--json", "--state", "queued").json["total"] == 2
    assert here("cancel", *words).code == 0
    assert here("jobs", "--json", "--state", "cancelled").json["total"] == 2


def test_start_asks_before_it_passes_others(daemon, here):
    ids = [submitted(here("submit", "--json", "--hold", "--", "true"))[0] for _ in range(2)]
    here("freeze", "--reason", "a test")
    here("release", *map(str, ids))
    asked = here("start", str(ids[1]), "--json")
    assert asked.code == 2
    assert "ahead of 1 waiting job" in asked.json["error"]["message"]
    here("thaw", "--reason", "done")
    (third,) = submitted(here("submit", "--json", "--gpus", "9", "--", "true"))
    refused = here("start", str(third), "--yes", "--json")
    assert refused.code == 1
    assert refused.json["error"]["code"] in {"no_gpu", "wrong_state"}


def test_data_that_are_not_ready_hold_a_job_until_they_are(daemon, here, home):
    data = home / "corpus"
    assert here("dataset", "add", "corpus", "corpus", "--marker", "_SUCCESS").code == 0
    (number,) = submitted(here("submit", "--json", "--dataset", "corpus", "--", "true"))
    assert "corpus" in here("job", "why", str(number)).out
    assert here("dataset", "remove", "corpus").code == 1
    data.mkdir()
    (data / "_SUCCESS").touch()
    assert here("dataset", "check", "corpus", "--json").json["ready"]
    assert here("wait", str(number), "--timeout", "60").code == 0
    (row,) = here("dataset", "list", "--json").json["datasets"]
    assert (row["readiness"], row["location"]) == (1.0, str(data))
    assert "corpus" in here("dataset", "list").out
    assert here("dataset", "remove", "corpus").code == 0
    assert data.exists()


def test_many_from_a_file_are_all_or_nothing_and_say_the_line(daemon, here, home):
    jobs = [{"argv": ["true"], "name": f"n{n}", "gpus": 9} for n in range(50)]
    (home / "good.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    done = here("submit", "--file", "good.jsonl", "--json")
    assert done.json["job_ids"] == list(range(1, 51))
    jobs[30]["gpus"] = "many"
    (home / "bad.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    refused = here("submit", "--file", "bad.jsonl", "--json")
    assert refused.code == 2
    assert "31" in refused.json["error"]["message"]
    assert "gpus" in refused.json["error"]["message"]
    (home / "cut.jsonl").write_text("\n".join(map(json.dumps, jobs[:30])) + "\n{")
    refused = here("submit", "--file", "cut.jsonl")
    assert refused.code == 2
    assert "line 31" in refused.err
    assert here("jobs", "--json").json["total"] == 50
    (home / "three.csv").write_text("argv,name,gpus\n" + "true,c,9\n" * 3)
    assert here("submit", "--file", "three.csv").out == "Submitted 3 jobs: #51 to #53.\n"


def test_gpus_have_the_promised_fields_and_are_cordoned_by_uuid(daemon, here):
    reply = here("gpus", "--json").json
    assert reply["sampled_at"]
    assert all(gpu.keys() >= GPU_FIELDS for gpu in reply["gpus"])
    uuid = reply["gpus"][2]["uuid"]
    assert here("gpus", "cordon", uuid[:-4], "--reason", "fan").code == 0
    assert "fan" in here("gpus").out
    (number,) = submitted(here("submit", "--json", "--gpu-type", "a10-24g", "--", "true"))
    assert "fan" in here("job", "why", str(number)).out
    assert here("gpus", "uncordon", uuid).code == 0
    assert here("wait", str(number), "--timeout", "60").code == 0
    assert here("gpus", "cordon", "GPU-none", "--reason", "x").code == 1
    assert here("gpus", "cordon", "GPU-sim", "--reason", "x").code == 2
    late = here("gpus", "drain", uuid, "--reason", "x", "--until", "tomorrow", "--json")
    assert late.json["error"]["field"] == "--until"
    assert here("gpus", "drain", uuid, "--reason", "x", "--until", "00:00").code == 0
    ends = datetime.fromisoformat(here("gpus", "--json").json["gpus"][2]["cordon"]["until"])
    assert ends.astimezone().strftime("%H:%M") == "00:00"
    assert timedelta() < ends - datetime.now(UTC) <= timedelta(hours=25)
    assert here("gpus", "uncordon", uuid).code == 0


def test_frozen_nothing_starts_and_status_says_who(daemon, here):
    assert here("freeze", "--reason", "power work").code == 0
    (number,) = submitted(here("submit", "--json", "--", "true"))
    assert "power work" in here("job", "why", str(number)).out
    status = here("daemon", "status", "--json").json
    assert status.keys() >= {"pid", "socket", "version", "uptime", "store", "gpus", "queued", "running"}
    assert (status["queued"], status["running"], status["gpus"]) == (1, 0, 3)
    assert "power work" in here("daemon", "status").out
    assert here("thaw", "--reason", "done").code == 0
    assert here("wait", str(number), "--timeout", "60").code == 0


def test_logs_follow_to_the_end(daemon, gputui, here, home):
    fifo = home / "go"
    os.mkfifo(fifo)
    (number,) = submitted(here("submit", "--json", "--", "sh", "-c", f"echo one; read line < {fifo}; echo $line"))
    command = [sys.executable, "-P", "-m", "gputui.cli", "logs", str(number), "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
        assert follower.stdout.readline() == b"one\n"
        fifo.write_text("two\n")
        assert follower.stdout.read() == b"two\n"
    assert follower.returncode == 0


def test_the_daemon_starts_by_itself_once_and_stops_when_told(here, home: Path, monkeypatch):
    monkeypatch.setenv("GPUTUI_SIMULATED_GPUS", "1")
    commands = [
        subprocess.Popen([sys.executable, "-P", "-m", "gputui.cli", "jobs", "--json"], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for command in commands:
        assert json.loads(command.communicate(timeout=60)[0]) == {"total": 0, "jobs": []}
        assert command.returncode == 0
    status = here("daemon", "status", "--json").json
    assert here("daemon", "start", "--json").json["pid"] == status["pid"]
    assert here("daemon", "stop").code == 0
    until(lambda: not Path(f"/proc/{status['pid']}").exists())
    assert here("daemon", "status").code == 3
