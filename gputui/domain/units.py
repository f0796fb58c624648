"""Sizes, durations and times as people write them, turned into numbers.

Sizes: `K`, `M`, `G`, `T` and `KiB` to `TiB` count in 1024s (what GPU memory is sold in), `KB` to `TB` in 1000s; a bare
number is bytes. Durations: `90` (seconds), `1h30m`, `2d`, `1.5h`, `500ms`. Times: ISO 8601 with an offset.
"""

import math
import re
from datetime import UTC, datetime

from gputui.domain.errors import InputError

LARGEST = 2**63 - 1
"""The largest whole number the store holds."""

_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*([kmgtp]i?b?|b)?", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:ms|[wdhms])\s*)+", re.IGNORECASE | re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[wdhms])", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

_SIZE_REMEDY = "write a size such as 40GiB or 512M"
_DURATION_REMEDY = "write a duration such as 90, 1h30m or 2d"
_TIME_REMEDY = "write a time as in 2026-05-01T18:00+08:00"


def parse_size(value: object, field: str = "size") -> int:
    """Return bytes. Raises `InputError` for anything but a whole, non-negative number of bytes below 2**63."""
    if type(value) is int:
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = _bytes(match[1], (match[2] or "b").lower())
    else:
        raise InputError(field, value, _SIZE_REMEDY)
    if not 0 <= size <= LARGEST:
        raise InputError(field, value, "a size lies between 0 and 8 EiB")
    return size


def _bytes(number: str, unit: str) -> int:
    if unit == "b":
        factor = 1
    else:
        base = 1000 if len(unit) == 2 and unit[1] == "b" else 1024
        factor = base ** _POWER[unit[0]]
    whole, _, fraction = number.partition(".")
    return int(whole) * factor + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)


def parse_duration(value: object, field: str = "duration") -> float:
    """Return seconds. Raises `InputError` for what is no duration, negative, or not finite."""
    if type(value) is int or type(value) is float:
        seconds = float(value) if abs(value) <= LARGEST else math.inf
    elif isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            seconds = float(text)
        elif _DURATION.fullmatch(text):
            seconds = sum(float(number) * _SECONDS[unit.lower()] for number, unit in _PART.findall(text))
        else:
            raise InputError(field, value, _DURATION_REMEDY)
    else:
        raise InputError(field, value, _DURATION_REMEDY)
    if not 0 <= seconds <= LARGEST:  # NaN compares false
        raise InputError(field, value, _DURATION_REMEDY)
    return seconds


def parse_time(value: object, field: str = "time") -> datetime:
    """Return an aware datetime, in UTC. Raises `InputError` for what is not ISO 8601 or has no offset."""
    if not isinstance(value, str):
        raise InputError(field, value, _TIME_REMEDY)
    try:
        time = datetime.fromisoformat(value.strip())
    except ValueError:
        raise InputError(field, value, _TIME_REMEDY) from None
    if time.tzinfo is None:
        raise InputError(field, value, "name the zone: " + _TIME_REMEDY)
    try:
        return time.astimezone(UTC)
    except OverflowError:  # the last hours of the year 9999, in a zone behind
        raise InputError(field, value, "it lies outside the years 1 to 9999 in UTC") from None
