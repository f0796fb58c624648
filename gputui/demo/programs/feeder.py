"""Fills a dataset while one watches: one file every so often, and a marker at the end. Ends with its parent."""

import argparse
import os
import sys
import time
from pathlib import Path


def main() -> int:
    """Write the files; the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--size", type=int, default=64 * 1024, help="bytes per file")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between files")
    options = parser.parse_args()
    parent = os.getppid()
    options.folder.mkdir(parents=True, exist_ok=True)
    for number in range(options.files):
        unfinished = options.folder / f".part-{number:05}.tmp"
        unfinished.write_bytes(os.urandom(options.size))
        unfinished.rename(options.folder / f"part-{number:05}.bin")
        end = time.monotonic() + options.every
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            if os.getppid() != parent:
                return 1
    (options.folder / "_SUCCESS").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
