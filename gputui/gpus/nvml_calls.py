"""Calls into NVML that answer with a value or with the reason why there is none."""

from collections.abc import Callable
from typing import Any

import pynvml

from gputui.gpus.reading import Int, Missing

_LOST = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "fell off the bus",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "not found",
    pynvml.NVML_ERROR_RESET_REQUIRED: "needs a reset",
}
_UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
ALL_ONES = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
"""What the driver says where it has no value."""


Handle = object
"""A pointer of the driver; never a null one."""


class GpuLost(Exception):  # noqa: N818 - a state of the GPU, not of the program
    """The driver no longer reaches this GPU."""


def ask(function: Callable[..., Any], *args: object) -> Any:  # pynvml has no types
    """The answer of an NVML function, or a Missing. Raises GpuLost."""
    try:
        return function(*args)
    except pynvml.NVMLError as error:
        if error.value in _LOST:
            raise GpuLost(_LOST[error.value]) from None
        return Missing.UNSUPPORTED if error.value in _UNSUPPORTED else Missing.UNKNOWN


def ask_int(function: Callable[..., object], *args: object, most: int | None = None) -> Int:
    """An integer answer; all-ones values are unsupported, values above `most` are unknown."""
    value = ask(function, *args)
    if isinstance(value, Missing):
        return value
    if not isinstance(value, int) or value in ALL_ONES:
        return Missing.UNSUPPORTED
    return value if value >= 0 and (most is None or value <= most) else Missing.UNKNOWN


def ask_text(function: Callable[..., object], *args: object) -> str:
    """A text answer; empty when there is none."""
    value = ask(function, *args)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""
