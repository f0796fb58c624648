"""The terminal itself: its size, its end, Ctrl-Z, the clipboard. What Textual's own driver leaves open."""

import base64
import codecs
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import threading
from pathlib import Path
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

HANGUP = 128 + signal.SIGHUP
CLIPBOARD_CAP = 74_994
"""Encoded bytes; terminals drop longer ones, so they are refused here with a word."""


class TerminalDriver(LinuxDriver):
    """Textual's driver, which follows the real window size, leaves when the terminal is gone, and stops properly."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        # the first frame, drawn before any size event, would go by what Rich makes of TERM and COLUMNS
        self._size = self._size or window_size(self.fileno)
        self._stopping = False

    def _get_terminal_size(self) -> tuple[int, int]:
        # COLUMNS and LINES are set once by some shells and never follow the window
        return window_size(self.fileno) or (80, 24)

    def run_input_thread(self) -> None:
        """Hand what is typed to the app. When the terminal is gone there is nothing to read and nobody to ask."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        poller = select.poll()
        poller.register(self.fileno, select.POLLIN)
        while not self.exit_event.is_set():
            ready = poller.poll(100)
            if ready:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:
                    self._loop.call_soon_threadsafe(self._gone)
                    return
                for event in parser.feed(decode(data)):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def _gone(self) -> None:
        leave(self._app, HANGUP, 0.7)

    def set_mouse(self, on: bool) -> None:
        """Ask the terminal for mouse events, or no longer."""
        if on:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False

    def stop_to_shell(self) -> bool:
        """Ctrl-Z: give the terminal back, stop, come back with `fg`. False: no shell is there to come back from."""
        if orphaned():
            return False
        self._stopping = True
        self.suspend_application_mode()
        previous = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # the whole group, as the terminal would: a shell sees a pipeline or a wrapper stop only as a whole
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, previous)
        self.resume_application_mode()
        self._stopping = False
        return True

    def _sigtstp_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._app.action_suspend_process)

    def _sigcont_application(self, *_: object) -> None:
        """Continued after a stop that nobody announced (SIGSTOP): the shell had the terminal meanwhile."""
        if self._stopping or not self._auto_restart:
            return
        self._loop.call_soon_threadsafe(self._again)

    def _again(self) -> None:
        self.suspend_application_mode()
        self.resume_application_mode()
        self._app.refresh(layout=True)


def window_size(descriptor: int) -> tuple[int, int] | None:
    """Columns and rows as the kernel knows them; None when it does not."""
    try:
        rows, columns, _, _ = struct.unpack("4H", fcntl.ioctl(descriptor, termios.TIOCGWINSZ, b"\0" * 8))
    except OSError:
        return None
    return (columns, rows) if columns and rows else None


def leave(app: Any, code: int, patience: float = 3.0) -> None:
    """End the app with an exit code; by force after `patience` seconds, since a dead terminal may block every write."""
    timer = threading.Timer(patience, os._exit, (code,))
    timer.daemon = True
    timer.start()
    app.exit(return_code=code)


def drop_unwritable() -> None:
    """Let what a dead terminal never took go nowhere, or the interpreter fails to flush it and ends with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def orphaned() -> bool:
    """Whether no job-control shell watches our process group: a stop would be for good (`tmux new gputui`)."""
    group, session = os.getpgrp(), os.getsid(0)
    parent = os.getppid()
    while parent > 1:
        try:
            fields = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return True
        if int(fields[3]) != session:
            return True
        if int(fields[2]) != group:
            return False
        # a wrapper in our own group (uv run, make): whoever started it counts
        parent = int(fields[1])
    return True


def clipboard(text: str) -> str | None:
    """The sequence (OSC 52) that puts `text` into the clipboard of the person's own terminal, through tmux or screen.

    None: too long for it.
    """
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(encoded) > CLIPBOARD_CAP:
        return None
    sequence = f"\x1b]52;c;{encoded}\x07"
    if os.environ.get("TMUX"):
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if os.environ.get("TERM", "").startswith("screen"):
        # screen passes at most 768 bytes of one device string on
        parts = [sequence[at : at + 700] for at in range(0, len(sequence), 700)]
        return "".join(f"\x1bP{part}\x1b\\" for part in parts)
    return sequence
