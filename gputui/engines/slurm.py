"""Telling what runs under Slurm: such processes are never ours to schedule or to signal."""

from pathlib import Path


def under_slurm(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether a process lives in a cgroup that Slurm made (`slurmstepd.scope`, `slurm/uid_N/job_M`, either version).

    False for a process that is gone or cannot be read.
    """
    try:
        lines = (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    paths = (line.split(":", 2)[-1] for line in lines)
    return any(part.startswith("slurm") for path in paths for part in path.split("/"))
