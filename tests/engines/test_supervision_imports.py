"""What a supervisor loads decides how fast a cold start is and how much memory each run costs."""

import subprocess
import sys
from pathlib import Path

import gputui

ROOT = Path(gputui.__file__).parent.parent
SLOW = {"asyncio", "dataclasses", "inspect", "pathlib", "socket", "subprocess", "typing"}


def test_supervisors_load_little() -> None:
    listing = f"import sys; sys.path.append({str(ROOT)!r}); import gputui.engines.supervisor; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-E", "-c", listing]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    ours = {name for name in loaded if name.startswith("gputui") and ".supervision" not in name}
    assert ours == {"gputui", "gputui.engines", "gputui.engines.supervisor"}
    assert loaded & SLOW == set()
