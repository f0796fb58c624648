"""How many times a test repeats itself: few by default, the issue's full count under `make soak`."""

import os

SOAK = os.environ.get("GPUTUI_SOAK") == "1"


def count(reduced: int, full: int) -> int:
    """`full` when GPUTUI_SOAK=1, else `reduced`."""
    return full if SOAK else reduced
