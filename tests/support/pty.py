"""A terminal for tests: a real program on a real pty, and an emulator that shows what a person would see.

Nothing here sleeps and hopes: `wait_for` returns when the screen shows it, or fails with the picture at its deadline.
"""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

DEADLINE_S = 60.0
PROMPT = "READY$"

KEYS = {
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
    "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "enter": "\r", "escape": "\x1b", "tab": "\t", "space": " ",
    "backspace": "\x7f", "f1": "\x1bOP",
}  # fmt: skip

_OFF_AT_REST = {
    9: "mouse", 47: "alternate screen", 1000: "mouse", 1002: "mouse", 1003: "mouse", 1004: "focus events",
    1005: "mouse", 1006: "mouse", 1015: "mouse", 1016: "mouse", 1047: "alternate screen", 1049: "alternate screen",
    2004: "bracketed paste", 2026: "synchronized output", 2048: "resize reports",
}  # fmt: skip
_PRIVATE_MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_KITTY = re.compile(rb"\x1b\[([<>])[0-9]*u")
# pyte knows neither these sequences nor strings to the terminal, and would print them
_UNKNOWN_TO_PYTE = re.compile(
    rb"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p|\x1b\[\?u|\x1b[PX^_][^\x1b]*\x1b\\|\x1b\[[0-9;]* q"
)
_UNFINISHED = re.compile(rb"\x1b(?:[P\]X^_](?:(?!\x1b\\)[^\x07])*|\[[0-?]*[ -/]*)?\Z")


def left_on(raw: bytes) -> list[str]:
    """Names of the terminal modes that the bytes turned on and never off again ('cursor': hidden and not shown)."""
    state: dict[int, bool] = {}
    for modes, final in _PRIVATE_MODE.findall(raw):
        for mode in modes.split(b";"):
            state[int(mode)] = final == b"h"
    left = {name for mode, name in _OFF_AT_REST.items() if state.get(mode, False)}
    if not state.get(25, True):
        left.add("cursor")
    pushed = sum(1 if direction == b">" else -1 for direction in _KITTY.findall(raw))
    if pushed > 0:
        left.add("kitty keyboard")
    return sorted(left)


class Terminal:
    """One program on a pty of `rows` × `columns`. Use as a context manager: its end ends the program."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        rows: int = 40,
        columns: int = 120,
        term: str = "xterm-256color",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._master, self._slave = os.openpty()
        self._set_size(rows, columns)
        self.modes_before = termios.tcgetattr(self._slave)
        self._raw = bytearray()
        self._pending = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition()
        self._stop_reading, self._wake = os.pipe()
        environment = {**os.environ, **(env or {}), "TERM": term}
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)
        self.process = subprocess.Popen(
            argv,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=environment,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one system call, no lock
        )
        self._reader = threading.Thread(target=self._read, name="pty reader", daemon=True)
        self._reader.start()

    @classmethod
    def shell(cls, folder: Path, *, rows: int = 40, columns: int = 120, term: str = "xterm-256color") -> "Terminal":
        """An interactive bash with job control and the prompt `PROMPT`; returns once it waits for a command."""
        inputrc = folder / "inputrc"
        inputrc.write_text("set enable-bracketed-paste off\n")
        environment = {"INPUTRC": str(inputrc), "PS1": f"{PROMPT} ", "HISTFILE": ""}
        made = cls(["bash", "--norc", "--noprofile", "-i"], rows=rows, columns=columns, term=term, env=environment)
        try:
            made.wait_for(PROMPT)
        except AssertionError:
            made.close()
            raise
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what the person sees

    @property
    def raw(self) -> bytes:
        """Every byte the program wrote so far."""
        with self._changed:
            return bytes(self._raw)

    def lines(self) -> list[str]:
        """The picture: one string per row, blanks at the right cut."""
        with self._changed:
            return [line.rstrip() for line in self._screen.display]

    def text(self) -> str:
        """The picture as one string."""
        return "\n".join(self.lines())

    def wait_for(self, wanted: str | re.Pattern[str] | Callable[[str], bool], deadline: float = DEADLINE_S) -> str:
        """The picture as soon as it shows `wanted` (text, pattern or predicate on the whole); fails at the deadline."""
        end = time.monotonic() + deadline
        while True:
            with self._changed:
                picture = "\n".join(line.rstrip() for line in self._screen.display)
                if _shows(picture, wanted):
                    return picture
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"never showed {wanted!r}; the screen is:\n{picture}")
                self._changed.wait(left)

    def wait_for_bytes(self, wanted: bytes, *, after: int = 0, deadline: float = DEADLINE_S) -> None:
        """Return once the program wrote `wanted` somewhere behind its first `after` bytes."""
        end = time.monotonic() + deadline
        with self._changed:
            while self._raw.find(wanted, after) < 0:
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"never wrote {wanted!r}; the last bytes are {bytes(self._raw[-400:])!r}")
                self._changed.wait(left)

    # --- what the person does

    def send(self, *keys: str | bytes) -> None:
        """Type: names from `KEYS`, '^x' for control keys, else the text itself."""
        for key in keys:
            if isinstance(key, bytes):
                os.write(self._master, key)
            elif len(key) == 2 and key[0] == "^":
                os.write(self._master, bytes([ord(key[1].upper()) & 0x1F]))
            else:
                os.write(self._master, KEYS.get(key, key).encode())

    def command(self, line: str) -> None:
        """Type a line and Enter, for a shell."""
        self.send(line, "enter")

    def resize(self, rows: int, columns: int) -> None:
        """Another window size, which the kernel tells the foreground programs (SIGWINCH)."""
        with self._changed:
            self._screen.resize(rows, columns)
        self._set_size(rows, columns)

    def kill(self, number: signal.Signals) -> None:
        """A signal to the program itself."""
        self.process.send_signal(number)

    def hang_up(self) -> None:
        """Close the terminal, as a lost SSH connection does."""
        self._close_pty()

    # --- how it ends

    def exit_code(self, deadline: float = DEADLINE_S) -> int:
        """Wait for the end: the exit code, 128 + signal when killed, as a shell counts."""
        try:
            code = self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running; the screen is:\n{self.text()}") from None
        return code if code >= 0 else 128 - code

    def not_restored(self) -> list[str]:
        """What the program left changed: modes of the terminal turned on, line discipline other than before."""
        self._drain()
        left = left_on(self.raw)
        if termios.tcgetattr(self._slave)[:4] != self.modes_before[:4]:
            left.append("line discipline")
        return left

    def close(self) -> None:
        """End the program if it still runs, and let go of the pty."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._close_pty()

    # --- inside

    def _set_size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._master, self._stop_reading], [], [])
            if self._stop_reading in ready:
                return
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            with self._changed:
                self._raw += data
                self._feed(data)
                self._changed.notify_all()

    def _feed(self, data: bytes) -> None:
        data = self._pending + data
        unfinished = _UNFINISHED.search(data)
        self._pending = unfinished.group() if unfinished and len(unfinished.group()) < 4096 else b""
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", data[: len(data) - len(self._pending)]))

    def _drain(self) -> None:
        """Wait until the reader has everything that was written to the pty."""
        while select.select([self._master], [], [], 0.05)[0]:
            time.sleep(0.005)

    def _close_pty(self) -> None:
        if self._reader.is_alive():
            os.write(self._wake, b"x")
            self._reader.join()
        for descriptor in (self._master, self._slave, self._stop_reading, self._wake):
            try:
                os.close(descriptor)
            except OSError:
                continue
        self._master = self._slave = self._stop_reading = self._wake = -1


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _shows(picture: str, wanted: str | re.Pattern[str] | Callable[[str], bool]) -> bool:
    if isinstance(wanted, str):
        return wanted in picture
    if isinstance(wanted, re.Pattern):
        return wanted.search(picture) is not None
    return wanted(picture)
