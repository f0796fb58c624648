"""Runs from submit to end, on a real store, engine and reader."""

import json
import sys
from pathlib import Path

from tests.support.core import ME, core


def output(folder: str) -> bytes:
    """What a run wrote, of a log with one segment."""
    (segment,) = Path(folder).iterdir()
    return segment.read_bytes()


async def test_a_job_runs_on_a_gpu_and_gives_it_back(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("/bin/sh", "-c", "echo hello; exit 3", name="short")
        (row,) = await daemon.ended(job)
        assert (row["state"], row["exit_code"], row["attempt"]) == ("failed", 3, 1)
        assert row["gpu_uuids"] == [daemon.uuid(0)]
        await daemon.until(lambda: daemon.gpu_state(0) == "free")
        reply = await daemon.services.why.why(job)
        assert "exited with code 3" in reply["reason"]
        shown = await daemon.services.rows.show(job)
        assert [run["exit_code"] for run in shown["runs"]] == [3]
        log = await daemon.ctx.read(lambda session: session.connection().exec_driver_sql("select act from audit").all())
        assert [act for (act,) in log] == ["settings.change", "job.submit", "job.start", "job.end"]


async def test_the_environment_is_what_was_captured_and_what_is_documented(home: Path) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    async with core(home) as daemon:
        job = await daemon.submit(
            sys.executable, "-c", program, gpus=2, env={"MINE": "1", "SLURM_JOB_ID": "7"}, grace=30
        )
        (row,) = await daemon.ended(job)
        assert row["state"] == "succeeded", row["reason"]
        shown = await daemon.services.rows.show(job)
        run = shown["runs"][0]
        found = json.loads(output(run["log"]))
        found.pop("LC_CTYPE", None)
        folder = str(daemon.engine.run_dir(run["run_id"]))
        assert found.pop("PATH")
        assert found.pop("GPUTUI_CHECKPOINT_DIR") == str(home / "state" / "checkpoints" / str(job))
        assert found == {
            "MINE": "1",
            "GPUTUI_JOB_ID": str(job),
            "GPUTUI_RUN_ID": run["run_id"],
            "GPUTUI_ATTEMPT": "1",
            "GPUTUI_GRACE_S": "30",
            "GPUTUI_RESUME_FROM": "",
            "GPUTUI_PREEMPT_FILE": f"{folder}/preempt",
            "GPUTUI_DONE_FILE": f"{folder}/done",
            "GPUTUI_METRICS_FILE": f"{folder}/metrics",
            "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "30",
            "CUDA_VISIBLE_DEVICES": f"{daemon.uuid(0)},{daemon.uuid(1)}",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }


async def test_cancel_ends_a_running_job_and_the_queue_goes_on(home: Path) -> None:
    async with core(home, "1xh100-80g") as daemon:
        first = await daemon.submit("sleep", "600")
        await daemon.until(lambda: daemon.state(first) == "running")
        second = await daemon.submit("true")
        assert daemon.gpu_state(0) == "busy"
        assert (await daemon.row(second))["reason"] == f"1 GPU: #{first} ends"
        reply = await daemon.services.jobs.cancel(ME, [first], reason="wrong data")
        assert reply["ids"] == [first]
        one, two = await daemon.ended(first, second)
        assert (one["state"], two["state"]) == ("cancelled", "succeeded")
        assert (await daemon.services.why.why(first))["reason"] == "cancelled by li (wrong data)"
