"""What runs under Slurm is recognised by its cgroup, in both versions."""

import os
from pathlib import Path

import pytest

from gputui.engines.slurm import under_slurm


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ("0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n", True),
        ("9:memory:/slurm/uid_1000/job_77/step_batch\n0::/\n", True),
        ("5:devices:/slurm_node1/uid_1000/job_4\n", True),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", False),
        ("0::/system.slice/ssh.service\n9:memory:/\n", False),
        ("0::/user.slice/my-slurm-notes.scope\n", False),
    ],
)
def test_cgroups(tmp_path: Path, cgroup: str, expected: bool) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text(cgroup)
    assert under_slurm(42, tmp_path) is expected


def test_this_process_and_one_that_is_gone(tmp_path: Path) -> None:
    assert under_slurm(os.getpid()) is False
    assert under_slurm(43, tmp_path) is False
