"""Narrow updates: the terminal shows what a full repaint would, and equal cells are not written again."""

import io
import random

import pyte
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from gputui.tui.spans import NarrowUpdate, Shown

WIDTH = 30
CONSOLE = Console(color_system="standard", force_terminal=True, file=io.StringIO())
STYLES = [None, Style(), Style.parse("default on default"), Style.parse("green"), Style.parse("bold black on cyan")]
TEXTS = ["a", "bc", "训练", "x训", "█▋", "  ", "e\u0301f", "97%"]


def line(pieces: list[tuple[str, Style | None]]) -> Strip:
    return Strip([Segment(text, style) for text, style in pieces]).adjust_cell_length(WIDTH)


def update(shown: Shown, strip: Strip, left: int = 0, right: int = WIDTH) -> str:
    """What is written when line 0 becomes `strip` and the cells from `left` to `right` were marked as changed."""
    return NarrowUpdate(ChopsUpdate([{0: strip}], [(0, left, right)], [[WIDTH]]), shown).render_segments(CONSOLE)


def picture(written: str) -> list[tuple[str, ...]]:
    screen = pyte.Screen(WIDTH, 1)
    pyte.Stream(screen).feed(written)
    return [tuple(map(str, screen.buffer[0][x])) for x in range(WIDTH)]


def test_what_is_shown_is_what_a_full_repaint_would_show():
    chance = random.Random(7)
    for _ in range(200):
        shown: Shown = {}
        written = ""
        for _ in range(6):
            strip = line([(chance.choice(TEXTS), chance.choice(STYLES)) for _ in range(chance.randint(0, 12))])
            written += update(shown, strip)
            assert picture(written) == picture(update({}, strip))


def test_equal_cells_are_not_written_again():
    shown: Shown = {}
    green = Style.parse("green")
    update(shown, line([("█████ ", green), (" 97%", None)]))
    assert update(shown, line([("█████ ", green), (" 97%", None)])) == ""
    assert update(shown, line([("█████ ", green), (" 98%", None)])) == "\x1b[1;9H8"


def test_a_wide_character_is_written_whole():
    shown: Shown = {}
    update(shown, line([("训练ab", None)]))
    assert "训练ac" in update(shown, line([("训练ac", None)]))


def test_only_the_changed_span_is_written_and_remembered():
    shown: Shown = {}
    update(shown, line([("aaaaaaaa", None)]))
    assert update(shown, line([("bbbbbbbb", None)]), 2, 4) == "\x1b[1;3Hbb"
    assert "bb" in update(shown, line([("bbbbbbbb", None)]), 4, 8)
    assert update(shown, line([("bbbbbbbb", None)]), 2, 8) == ""
