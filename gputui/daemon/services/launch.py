"""What a run is given: argv, environment, folders. Nothing of the daemon's own environment leaks into it."""

from pathlib import Path

from gputui.engines.engine import RunSpec
from gputui.store.tables import Job, Run

SHELL = b"/bin/sh"


def run_spec(
    job: Job, run: Run, captured: dict[bytes, bytes], *, run_dir: Path, checkpoints: Path, log_cap: int
) -> RunSpec:
    """The complete spec of a run: the captured environment, and over it what is documented."""
    folder = checkpoint_dir(checkpoints, job.id)
    # nothing of a Slurm job in which the submitter may have sat: the run is not part of it
    env = {name: value for name, value in captured.items() if not name.startswith(b"SLURM_")}
    env.update(
        {
            b"GPUTUI_JOB_ID": b"%d" % job.id,
            b"GPUTUI_RUN_ID": run.run_id.encode(),
            b"GPUTUI_ATTEMPT": b"%d" % run.attempt,
            b"GPUTUI_GRACE_S": f"{job.grace:g}".encode(),
            b"GPUTUI_CHECKPOINT_DIR": bytes(folder),
            b"GPUTUI_RESUME_FROM": b"",
            b"GPUTUI_PREEMPT_FILE": bytes(run_dir / "preempt"),
            b"GPUTUI_DONE_FILE": bytes(run_dir / "done"),
            b"GPUTUI_METRICS_FILE": bytes(run_dir / "metrics"),
            b"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": f"{job.grace:.0f}".encode(),
            b"CUDA_VISIBLE_DEVICES": ",".join(run.gpu_uuids).encode(),
            b"CUDA_DEVICE_ORDER": b"PCI_BUS_ID",
        }
    )
    return RunSpec(
        run_id=run.run_id,
        job_id=job.id,
        attempt=run.attempt,
        argv=(SHELL, b"-c", *job.argv) if job.shell else job.argv,
        cwd=job.cwd,
        env=env,
        gpu_uuids=run.gpu_uuids,
        grace=job.grace,
        log_cap=log_cap,
        interactive=job.interactive,
        share=job.share,
    )


def checkpoint_dir(checkpoints: Path, job_id: int) -> Path:
    """Where a job saves; outlives its runs."""
    return checkpoints / str(job_id)
