"""The daemon, with the moments written down at which the evidence for a freed GPU begins and is complete.

Each line of the file `$BENCH_EVIDENCE`: begin, end, on the monotonic clock.
"""

import os
import sys
import time
from typing import Any

from gputui.daemon.__main__ import main
from gputui.daemon.services.release import Releases

_release_one = Releases._release_one
_file = os.open(os.environ["BENCH_EVIDENCE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


async def _stamped(self: Releases, *arguments: Any) -> None:
    began = time.monotonic()
    await _release_one(self, *arguments)
    os.write(_file, b"%.9f %.9f\n" % (began, time.monotonic()))


if __name__ == "__main__":
    Releases._release_one = _stamped  # type: ignore[method-assign]
    sys.exit(main())
