"""Everything, or the sections named: prints a table of ratios with the design's targets, keeps it as JSON.

python -m bench [--quick] [SECTION...]
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench import idle, monitor, passes, screen, starts, submits
from bench.figures import FULL, QUICK, Counts, Figure, table
from bench.place import cores

RESULTS = Path(__file__).parent / "results"
SECTIONS: dict[str, Callable[[Counts], list[Figure]]] = {
    "first-frame": screen.first_frames,
    "monitor": monitor.measure,
    "starts": starts.measure,
    "submit": submits.single,
    "bulk": submits.bulk,
    "pass": passes.measure,
    "keys": screen.keys,
    "idle": idle.measure,
}


def main() -> int:
    """Measure, print, keep; 1 when a section could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure gputui beside its peers.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"some of: {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="reduced counts: to see that it works, not how fast")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    figures, failed = _measure(options.sections or list(SECTIONS), QUICK if options.quick else FULL)
    print(f"\n{table(figures)}\n\n{_conditions()}")
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    kept.write_text(
        json.dumps(
            {
                "conditions": _conditions(),
                "quick": options.quick,
                "figures": [one.as_json() for one in figures],
                "failed": failed,
            },
            indent=1,
        )
    )
    print(f"Kept in {kept}")
    return 1 if failed else 0


def _measure(sections: list[str], counts: Counts) -> tuple[list[Figure], dict[str, str]]:
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    for name in sections:
        began = time.monotonic()
        print(f"{name} …", end=" ", flush=True)
        try:
            figures += SECTIONS[name](counts)
        except Exception as error:  # noqa: BLE001 - one that cannot be measured must not cost the others
            failed[name] = f"{type(error).__name__}: {error}"
            print(f"not measured: {failed[name]}")
        else:
            print(f"{time.monotonic() - began:.0f} s")
    return figures, failed


def _conditions() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("gputui", "textual", "typer"))
    return f"{cores()} cores, Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    sys.exit(main())
