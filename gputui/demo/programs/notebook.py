"""Somebody's notebook: a process that holds a GPU without a job. Busy now and then; ends with its parent."""

import os
import sys
import time


def main() -> int:
    """Work for a few seconds, rest for a few, and so on."""
    parent = os.getppid()
    while os.getppid() == parent:
        busy = int(time.monotonic()) % 16 < 6
        end = time.process_time() + (0.004 if busy else 0.0)
        while time.process_time() < end:
            pass
        time.sleep(0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
