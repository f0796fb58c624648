"""What a command or a screen loads: start-up is most of what a command costs, and a stray import doubles it."""

import socket
import subprocess
import sys
import threading

import pytest

HEAVY = ["textual", "sqlalchemy", "sqlmodel", "fastapi", "pydantic", "httpx", "apprise", "alembic", "uvicorn"]


def loaded(program: str) -> set[str]:
    """The modules that a fresh interpreter holds after `program`."""
    program += "\nimport sys; print('\\n'.join(['', 'LOADED', *sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.partition("\nLOADED\n")[2].split())


def command(*words: str) -> str:
    """A program that runs one command, whatever it answers."""
    return f"from gputui.cli.main import main\nmain({list(words)!r})"


@pytest.mark.parametrize("words", [("--help",), ("submit", "--help"), ("jobs", "--help"), ("daemon", "status")])
def test_no_command_loads_the_daemon_or_the_screen(words):
    assert loaded(command(*words)).isdisjoint(HEAVY)


def test_submit_loads_no_more_than_it_needs(home):
    path = home / "a.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        answering = threading.Thread(target=answer_once, args=(listener,))
        answering.start()
        words = [
            "submit",
            "--gpus",
            "2",
            "--env",
            "A=b",
            "--dataset",
            "d",
            "--socket",
            str(path),
            "--json",
            "--",
            "true",
        ]
        modules = loaded(command(*words))
        answering.join()
    assert "gputui.client.sync" in modules
    assert modules.isdisjoint([*HEAVY, "rich", "asyncio", "http.client", "ssl", "email", "tomllib", "csv"])


def answer_once(listener: socket.socket) -> None:
    """As the daemon answers a submit."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(20)
        request = b""
        while b'"argv"' not in request:
            request += connection.recv(65536)
        body = b'{"job_ids": [1], "warnings": []}'
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))


def test_the_screen_loads_neither_store_nor_server():
    modules = loaded("import gputui.tui.app")
    assert "textual" in modules
    assert modules.isdisjoint(["sqlalchemy", "sqlmodel", "fastapi", "apprise", "pydantic", "alembic", "uvicorn"])


def test_one_command_imports_its_own_module_only():
    modules = {name for name in loaded(command("wait", "--help")) if name.startswith("gputui.cli.")}
    assert modules == {"gputui.cli.app", "gputui.cli.main", "gputui.cli.output", "gputui.cli.wait"}
