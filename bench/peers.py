"""The programs we are held against: where they are, or a sentence why they are missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
VENV = HERE / ".peers"
FROM_PYPI = ("nvitop", "gpustat")


def monitors() -> dict[str, Path]:
    """nvitop and gpustat: in `$BENCH_PEERS`, else in a virtual environment of our own that is made once."""
    folder = Path(os.environ.get("BENCH_PEERS") or VENV / "bin")
    if "BENCH_PEERS" not in os.environ and not all((folder / name).exists() for name in FROM_PYPI):
        print(f"Installing {' and '.join(FROM_PYPI)} into {VENV}")
        try:
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
            pip = [str(folder / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *FROM_PYPI]
            subprocess.run(pip, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"The monitors to compare with could not be installed: {error}")
    found = {name: folder / name for name in FROM_PYPI if (folder / name).exists()}
    for name in FROM_PYPI:
        if name not in found:
            print(f"{name} is missing, so nothing is compared with it: python -m pip install {name}")
    return found


def task_spooler() -> str | None:
    """Debian's `tsp`."""
    found = shutil.which("tsp")
    if found is None:
        print("task-spooler is missing, so nothing is compared with it: sudo apt-get install task-spooler")
    return found
