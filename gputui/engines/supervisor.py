"""The supervisor of one run, run by file path: `python -I -S -E supervisor.py [--interactive] RUN_DIR`.

Without `--interactive` it is started as the leader of a session of its own, with nothing but /dev/null open.
`supervise.py` does the work; this file is small because a script is compiled anew each time it runs.
"""

import os
import sys

if __name__ == "__main__":
    # -I and -S leave only the standard library to import from; ours comes last, so that nothing here can shadow it
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from gputui.engines.supervise import supervise


def main(arguments: list[str]) -> int:
    """Returns the exit code; of an interactive run that of its program, as a shell would report it."""
    interactive = arguments[:1] == ["--interactive"]
    return supervise(arguments[-1], interactive=interactive)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
