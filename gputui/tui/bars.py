"""Bars in eighths of a cell, and sparklines."""

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = "_.-=+*##"


def bar(fraction: float, width: int, plain: bool = False) -> str:
    """A bar `width` cells wide. More than nothing shows at least an eighth, less than all is never drawn full.

    `plain`: in ASCII, for consoles without the block characters.
    """
    fraction = min(1.0, max(0.0, fraction))
    if plain:
        filled = round(fraction * width)
        return "#" * filled + "." * (width - filled)
    eighths = round(fraction * width * 8)
    if fraction > 0:
        eighths = max(1, eighths)
    if fraction < 1:
        eighths = min(width * 8 - 1, eighths)
    whole, rest = divmod(eighths, 8)
    drawn = "█" * whole + (_EIGHTHS[rest] if rest else "")
    return drawn + " " * (width - len(drawn))


def sparkline(values: Sequence[float | None], width: int, plain: bool = False) -> str:
    """The last `width` values (0 to 100), newest at the right; a space where there was no reading, '▁' for zero."""
    levels = _PLAIN_LEVELS if plain else _LEVELS
    shown = list(values)[-width:]
    drawn = "".join(
        " " if value is None else levels[min(7, int(min(100.0, max(0.0, value)) / 100 * 8))] for value in shown
    )
    return " " * (width - len(shown)) + drawn
