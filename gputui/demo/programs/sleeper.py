"""Holds its GPU and does nothing: an idle GPU to look at. With --stubborn it takes its time when asked to stop."""

import argparse
import signal
import sys
import time


def main() -> int:
    """Sleep; the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--stubborn", action="store_true")
    options = parser.parse_args()
    if options.stubborn:
        signal.signal(signal.SIGTERM, lambda *_: print("not now", flush=True))
    print("waiting for requests", flush=True)
    end = time.monotonic() + options.seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
