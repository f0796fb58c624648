"""The supervisor of one run, run by file path: `python -I -S -E supervisor.py [--interactive|--drain] RUN_DIR`.

Without `--interactive` it is started as the leader of a session of its own, with nothing but /dev/null open.
`--drain` only reads the output of a run whose supervisor was killed. `supervision/` does the work; this file is small
because a script is compiled anew each time it runs.
"""

import os
import sys

if __name__ == "__main__":
    # -I and -S leave only the standard library to import from; ours comes last, so that nothing here can shadow it
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from gputui.engines.supervision.drain import drain
from gputui.engines.supervision.supervise import supervise


def main(arguments: list[str]) -> int:
    """Returns the exit code; of an interactive run that of its program, as a shell would report it."""
    mode, run_dir = arguments[:-1], arguments[-1]
    if mode == ["--drain"]:
        return drain(run_dir)
    return supervise(run_dir, interactive=mode == ["--interactive"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
