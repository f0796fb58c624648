"""A child that alone loads the NVML stub: each line on stdin is a request, each line on stdout its answer.

The clock is the test's: `{"now": 12.0}` reads as if it were that moment.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from gputui.gpus.nvml import NvmlSource
from gputui.gpus.reading import Snapshot
from gputui.gpus.wire import Encoder, pack


def main() -> None:
    source, encoder = NvmlSource(), Encoder()
    source._table.namespaced = "namespaced" in sys.argv
    for line in sys.stdin:
        request = json.loads(line)
        if "now" in request:
            gpus, problem, driver = source.read(request["now"])
            snapshot = Snapshot(datetime.now(UTC), request["now"], "nvml", gpus, problem=problem, driver=driver)
            answer = encoder.encode(snapshot).decode()
        elif "memory" in request:
            answer = json.dumps(pack(source.memory_used(request["memory"]))) + "\n"
        else:
            answer = json.dumps(len(list(Path("/proc/self/fd").iterdir()))) + "\n"
        sys.stdout.write(answer)
        sys.stdout.flush()


main()
