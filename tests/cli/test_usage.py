"""What a command says when it is used wrongly, interrupted, or fails in a way nobody foresaw."""

import json
import os
import signal
import subprocess
import sys

import pytest

from gputui.cli import main as program
from gputui.cli.main import COMMANDS, main


def one_sentence(text: str) -> bool:
    return text.endswith(".\n") and text.count("\n") == 1 and "Traceback" not in text


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nonsense"], "nonsense"),
        (["submit", "--bogus", "--", "true"], "--bogus"),
        (["submit"], "program"),
        (["submit", "--gpus"], "--gpus"),
        (["submit", "--env", "NOEQUALS", "--", "true"], "NAME=VALUE"),
        (["submit", "--file", "jobs.txt"], "jobs.txt"),
        (["submit", "--file", "jobs.jsonl", "--name", "x"], "--file"),
        (["hold"], "ID"),
        (["hold", "abc"], "abc"),
        (["wait", "1", "--timeout", "soon"], "soon"),
        (["move", "3"], "--top"),
        (["move", "3", "--top", "--bottom"], "one of"),
        (["move", "3", "--up", "0"], "--up"),
        (["start", "3", "--ignore-data"], "--reason"),
        (["job", "edit", "3"], "--priority"),
        (["freeze"], "--reason"),
        (["gpus", "cordon", "GPU-1"], "--reason"),
        (["audit", "list", "--limit", "-1"], "--limit"),
    ],
)
def test_wrong_use_is_one_sentence_that_names_it_and_exit_code_2(here, words, named):
    done = here(*words)
    assert (done.code, done.out) == (2, "")
    assert one_sentence(done.err), done.err
    assert named in done.err
    verb = 2 if words[0] in {"job", "gpus", "audit"} else 1
    done = here(*words[:verb], "--json", *words[verb:])
    assert (done.code, done.err) == (2, "")
    assert done.json["error"]["code"] == "bad_input"
    assert named in done.json["error"]["message"]


def test_one_document_has_no_end_to_follow(here):
    done = here("logs", "3", "--json", "-f")
    assert done.code == 2
    assert "--follow" in done.json["error"]["message"]


def test_json_behind_the_dashes_belongs_to_the_job(here):
    done = here("submit", "--bogus", "--", "tool", "--json")
    assert done.out == ""
    assert one_sentence(done.err)


def test_without_a_daemon_status_and_stop_say_so_and_start_none(gputui, home):
    for verb in ("status", "stop"):
        done = gputui("daemon", verb)
        assert done.code == 3
        assert one_sentence(done.err)
        assert gputui("daemon", verb, "--json").json["error"]["code"] == "no_daemon"
    assert list((home / "run").iterdir()) == []


def test_the_socket_may_stand_before_the_command(gputui, home):
    done = gputui("--socket", str(home / "elsewhere.sock"), "daemon", "status")
    assert done.code == 3
    assert "elsewhere.sock" in done.err


@pytest.mark.parametrize("noun", ["gpus", "job", "dataset", "audit", "daemon"])
def test_every_command_and_verb_explains_itself(here, noun):
    done = here(noun, "--help")
    assert done.code == 0
    assert done.err == ""
    assert "Usage: gputui" in done.out


def test_the_help_names_every_command(here):
    done = here("--help")
    assert done.code == 0
    for word in COMMANDS:
        assert f"  {word} " in done.out
    assert "..." not in done.out.partition("Commands:")[2]


def test_a_noun_without_its_verb_shows_the_verbs(here):
    done = here("job")
    assert (done.code, done.out) == (2, "")
    assert "edit" in done.err


def test_the_screen_needs_a_terminal(gputui):
    for words in ([], ["demo"]):
        done = gputui(*words)
        assert done.code == 2
        assert one_sentence(done.err)
        assert "terminal" in done.err


def test_an_unforeseen_error_is_a_sentence_and_a_log(home, monkeypatch, capsys):
    def broken(arguments):
        raise ZeroDivisionError("secret of the interpreter")

    monkeypatch.setattr(program, "_invoke", broken)
    assert main(["jobs"]) == 1
    said = capsys.readouterr().err
    assert one_sentence(said)
    (log,) = home.glob("state/gputui/*/command-errors.log")
    assert str(log) in said
    assert "ZeroDivisionError" in log.read_text()
    assert main(["jobs", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "internal"


def test_ctrl_c_ends_with_130_and_says_nothing(home):
    text = (
        "import time; from gputui.cli import main\n"
        "main._invoke = lambda _: (print('up', flush=True), time.sleep(60))\n"
        "main.run()"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


def test_a_reader_that_had_enough_is_no_error(home):
    text = "from gputui.cli import main\nmain._invoke = lambda _: [print('x' * 1000) for _ in range(1000)]\nmain.run()"
    reading, writing = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", text], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 141


def test_a_reader_that_is_gone_before_a_command_writes_is_no_error_either(home):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gputui.cli", "--version"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
