"""`python -m gputui.daemon`: settings, lock, log, and then the daemon until SIGTERM. Errors are one sentence."""

import argparse
import logging
import logging.handlers
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gputui import config, paths
from gputui.daemon.lock import Busy, StoreLock
from gputui.domain.errors import InputError
from gputui.protocol import EXIT_BUSY

LOG_BYTES = 4 * 1024 * 1024
LOG_FILES = 4

_log = logging.getLogger("gputui.daemon")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one daemon; its exit code. `READY <socket>` on standard output says that it answers.

    With `--detach` this process ends as soon as the daemon, a grandchild of whoever asked for it, is ready or failed.
    """
    options = _parse(arguments)
    if not options.detach:
        return _run(options, lambda: None)
    read, write = os.pipe()
    daemon = os.fork()
    if daemon:
        os.close(write)
        if os.read(read, 1):
            return 0
        return abs(os.waitstatus_to_exitcode(os.waitpid(daemon, 0)[1]))
    os.close(read)
    os.setsid()

    def ready() -> None:
        _silence(0, 1, 2)
        os.write(write, b"1")
        os.close(write)

    return _run(options, ready)


def _run(options: argparse.Namespace, ready: Callable[[], None]) -> int:
    try:
        settings = config.load(state=options.state, socket=options.socket)
        state = paths.private_dir(settings.state_dir)
        lock = StoreLock(state)
    except InputError as error:
        return _fail(error.sentence, 2)
    except paths.UnsafeFolder as error:
        return _fail(str(error), 1)
    except OSError as error:
        return _fail(f"Cannot keep a lock in {settings.state_dir}: {error.strerror}.", 1)
    try:
        lock.take(standby=options.standby)
    except Busy as busy:
        return _fail(str(busy), EXIT_BUSY if options.detach else 1)
    except KeyboardInterrupt:
        return 130
    try:
        _start_log(state, detached=options.detach)
        os.chdir("/")  # no mount is kept busy by us
        return _serve(settings, lock, ready)
    finally:
        lock.close()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gputui.daemon", description="The daemon of gputui.")
    parser.add_argument("--state", type=_absolute, metavar="DIR", help="the state folder")
    parser.add_argument("--socket", type=_absolute, metavar="PATH", help="where to listen")
    parser.add_argument("--standby", action="store_true", help="wait for the running daemon to end, then take over")
    parser.add_argument("--detach", action="store_true", help="live in a session of its own, without a terminal")
    return parser.parse_args(arguments)


def _absolute(name: str) -> Path:
    return Path(name).expanduser().absolute()


def _serve(settings: config.Settings, lock: StoreLock, told: Callable[[], None]) -> int:
    # SQLAlchemy and FastAPI take half a second to load: a daemon that gives way must not wait for them
    from gputui.daemon.app import serve
    from gputui.store.problems import StoreProblem

    def ready(socket: Path) -> None:
        lock.note(socket)
        print(f"READY {socket}", flush=True)
        told()

    try:
        serve(settings, ready, moved=lock.note)
    except InputError as error:
        return _fail(error.sentence, 2)
    except (StoreProblem, paths.UnsafeFolder) as error:
        return _fail(str(error), 1)
    except OSError as error:
        return _fail(f"The daemon cannot start: {error}.", 1)
    except Exception as error:  # noqa: BLE001 - whatever it is, people get one sentence
        _log.exception("the daemon failed")
        return _fail(f"The daemon failed ({type(error).__name__}); see {settings.state_dir / paths.LOG_NAME}.", 1)
    return 0


class _Brief(logging.Formatter):
    """For people at a terminal: no tracebacks, those are in the log."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return record.getMessage()


def _start_log(state: Path, *, detached: bool) -> None:
    """A log that cannot fill the disk, in our own folder; standard error hears of it too, in brief."""
    file = logging.handlers.RotatingFileHandler(
        state / paths.LOG_NAME, maxBytes=LOG_BYTES, backupCount=LOG_FILES - 1, encoding="utf-8", errors="replace"
    )
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    here = logging.StreamHandler()
    here.setFormatter(_Brief())
    here.setLevel(logging.ERROR if detached else logging.INFO)
    logging.raiseExceptions = False  # a full disk is no reason to print tracebacks
    logging.basicConfig(level=logging.INFO, handlers=[file, here], force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _silence(*streams: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(null, stream)
    os.close(null)


def _fail(sentence: str, code: int) -> int:
    if logging.root.handlers:
        _log.error("%s", sentence)
    else:
        print(sentence, file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
