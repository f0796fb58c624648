"""`gputui monitor --once`: the real program on the stub library and on simulated GPUs."""

import json
import os
import subprocess
import sys

import pytest

from gputui.format import width
from tests.nvml_stub import control
from tests.nvml_stub.control import GIB, NvmlStub, build

PROMISED_GPU = [
    "uuid", "index", "name", "type", "state", "utilization", "memory_used", "memory_total", "temperature", "power",
    "job_id", "processes",
]  # fmt: skip
PROMISED_PROCESS = ["pid", "user", "command", "memory_used", "managed"]


def monitor(*arguments, **env):
    """The program's exit code, standard output and standard error."""
    return subprocess.run(
        [sys.executable, "-m", "gputui.cli", "monitor", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def stub(tmp_path, library):
    stub = NvmlStub(tmp_path, 2, library=library)
    yield stub
    stub.clear_faults()


@pytest.fixture
def worker():
    """A process whose command line is wide, marked up and hostile."""
    process = subprocess.Popen([sys.executable, "-c", "input()", "训练 [b]x[/b] \x1b[31m 🚀"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_table_with_one_row_per_gpu_that_pipes_well(stub, worker):
    stub.gpu(0).utilization, stub.gpu(0).memory_used = 97, 74 * GIB
    stub.gpu(0).set_processes((worker.pid, 73 * GIB))
    stub.fail("nvmlDeviceGetPowerUsage", control.NOT_SUPPORTED, gpu=1)
    stub.fail("nvmlDeviceGetTemperature", control.UNKNOWN, gpu=1)
    ran = monitor("--once", **stub.env)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    host, head, first, second = ran.stdout.splitlines()
    assert host.startswith(f"{os.uname().nodename} · 2 GPUs · cpu ")
    assert head.split() == ["type", "util", "memory", "°C", "W", "state", "held", "by", "uuid"]
    assert first.split()[:7] == ["0", "h100-80g", "97%", "74.0/80G", "35", "70", "busy"]
    assert second.split()[:7] == ["1", "h100-80g", "0%", "0.0/80G", "?", "N/A", "free"]
    for number, row in enumerate((first, second)):
        before = row[: row.index(stub.uuid(number))]
        assert width(before) == width(head[: head.index("uuid")]), "columns are aligned by terminal cells"


def test_json_has_the_promised_fields(stub, worker):
    stub.gpu(1).set_processes((worker.pid, 5 * GIB))
    ran = monitor("--once", "--json", **stub.env)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    assert ran.stdout.count("\n") == 1
    assert document["sampled_at"].endswith("+00:00")
    for gpu in document["gpus"]:
        assert list(gpu)[: len(PROMISED_GPU)] == PROMISED_GPU
    [process] = document["gpus"][1]["processes"]
    assert list(process)[: len(PROMISED_PROCESS)] == PROMISED_PROCESS
    assert (process["pid"], process["memory_used"], process["managed"]) == (worker.pid, 5 * GIB, False)
    assert (document["gpus"][0]["uuid"], document["gpus"][0]["state"]) == (stub.uuid(0), "free")


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (control.DRIVER_NOT_LOADED, "modprobe"),
        (control.VERSION_MISMATCH, "different versions"),
        (control.NO_PERMISSION, "/dev/nvidiactl"),
    ],
)
def test_without_a_usable_driver_the_host_is_shown_and_the_exit_code_is_5(stub, error, word):
    """wookayin/gpustat#147."""
    stub.control.init_error = error
    ran = monitor("--once", **stub.env)
    assert ran.returncode == 5
    assert ran.stdout.startswith(os.uname().nodename)
    assert ran.stderr.count("\n") == 1
    assert word in ran.stderr
    ran = monitor("--json", **stub.env)
    assert (ran.returncode, ran.stderr) == (5, "")
    document = json.loads(ran.stdout)
    assert document["gpus"] == []
    assert word in document["problem"]["sentence"] + document["problem"]["remedy"]


def test_no_gpu_has_another_exit_code_than_no_driver(stub):
    """Syllo/nvtop#150."""
    stub.control.device_count = 0
    ran = monitor("--once", **stub.env)
    assert ran.returncode == 1
    assert "no GPU" in ran.stderr


def test_a_driver_that_hangs_ends_with_a_sentence(stub):
    """aristocratos/btop#1084."""
    stub.hang()
    ran = monitor("--once", **stub.env)
    assert ran.returncode == 5
    assert "has not answered" in ran.stderr
    assert ran.stdout.startswith(os.uname().nodename)


def test_a_lost_gpu_keeps_its_row(stub):
    """XuehaiPan/nvitop#139."""
    stub.gpu(0).lost = control.GPU_IS_LOST
    ran = monitor("--once", **stub.env)
    assert ran.returncode == 0
    assert "lost: fell off the bus" in ran.stdout.splitlines()[2]
    assert "free" in ran.stdout.splitlines()[3]


def test_unified_memory_is_labelled(stub):
    """Syllo/nvtop#426."""
    for function in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        stub.fail(function, control.NOT_SUPPORTED, gpu=0)
    assert "unified" in monitor("--once", **stub.env).stdout.splitlines()[2]


def test_mig_utilization_is_not_a_zero(stub, worker):
    """Syllo/nvtop#256."""
    number = stub.add_mig(0)
    stub.gpu(number).set_processes((worker.pid, GIB))
    parent, instance = monitor("--once", **stub.env).stdout.splitlines()[2:4]
    assert parent.split()[:3] == ["0", "h100-80g", "N/A"]
    assert instance.split()[:3] == ["0", "h100-1g.10gb", "N/A"]


def test_sixteen_gpus_have_sixteen_rows():
    """aristocratos/btop#857: whatever their number, each GPU has its row."""
    ran = monitor("--once", GPUTUI_SIMULATED_GPUS="16")
    assert ran.returncode == 0
    assert [line.split()[0] for line in ran.stdout.splitlines()[2:]] == [str(index) for index in range(16)]


def test_a_bad_spec_is_bad_input():
    ran = monitor("--once", GPUTUI_SIMULATED_GPUS="8x")
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "GPUTUI_SIMULATED_GPUS is '8x'" in ran.stderr
