"""NVML readings through the real pynvml and the stub library. Field reports are named as repository#number."""

import os
import time

import pytest

from gputui.gpus.processes import read_stat
from gputui.gpus.reading import Missing
from tests.nvml_stub import control
from tests.nvml_stub.control import GIB, NOT_AVAILABLE, build
from tests.support.counts import count

FREE_PID = 4_000_000
"""Above this kernel's usual pids; the tests that use it check that nobody has it."""


def test_reads_every_field(make_stub, open_source, spawn):
    stub = make_stub(2)
    gpu = stub.gpu(1)
    gpu.utilization, gpu.memory_used, gpu.temperature, gpu.power, gpu.power_limit, gpu.fan = (
        97, 74 * GIB, 71, 664_000, 700_000, 55,
    )  # fmt: skip
    gpu.throttle = 0x4 | 0x20
    worker = spawn()
    gpu.set_processes((worker.pid, 73 * GIB))
    gpu.set_samples((worker.pid, 88, 0))
    first, second = open_source(stub).read()
    assert (first.index, first.utilization, first.memory_used, first.processes) == (0, 0, 0, ())
    assert second.uuid == stub.uuid(1)
    assert (second.name, second.type) == ("NVIDIA H100 80GB HBM3", "h100-80g")
    assert (second.memory_total, second.memory_used) == (80 * GIB, 74 * GIB)
    assert (second.utilization, second.temperature, second.fan, second.sm_clock) == (97, 71, 55, 1980)
    assert (second.power, second.power_limit) == (664.0, 700.0)
    assert second.throttle == ("power cap", "thermal")
    assert second.pci == "00000000:11:00.0"
    assert second.warnings == ()
    [process] = second.processes
    assert (process.pid, process.memory, process.sm, process.kind) == (worker.pid, 73 * GIB, 88, "compute")
    assert process.start_time == read_stat(worker.pid).start_time
    assert (process.uid, process.command) == (os.getuid(), "sleep 600")


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetPowerUsage", "power"),
        ("nvmlDeviceGetUtilizationRates", "utilization"),
        ("nvmlDeviceGetTemperature", "temperature"),
        ("nvmlDeviceGetFanSpeed", "fan"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit"),
        ("nvmlDeviceGetClockInfo", "sm_clock"),
    ],
)
@pytest.mark.parametrize(
    ("error", "missing"),
    [(control.NOT_SUPPORTED, Missing.UNSUPPORTED), (control.UNKNOWN, Missing.UNKNOWN)],
)
def test_a_field_fails_alone(make_stub, open_source, function, field, error, missing):
    """msminhas93/nviwatch#28: one card without power readings must not take anything else down."""
    stub = make_stub(2)
    stub.fail(function, error, gpu=0)
    broken, whole = open_source(stub).read()
    assert getattr(broken, field) is missing
    fields = ("power", "utilization", "temperature", "fan", "power_limit", "sm_clock", "memory_used")
    assert all(isinstance(getattr(broken, name), int | float) for name in fields if name != field)
    assert all(isinstance(getattr(whole, name), int | float) for name in fields)


def test_mig_instances_have_memory_and_processes_of_their_own(make_stub, open_source, spawn):
    """XuehaiPan/nvitop#5, Syllo/nvtop#256: utilization of MIG is unsupported, never 0 and never an error."""
    stub = make_stub(2)
    one, two = stub.add_mig(0), stub.add_mig(0, "2g.20gb", 20 * GIB)
    worker = spawn()
    stub.gpu(one).memory_used = 9 * GIB
    stub.gpu(one).set_processes((worker.pid, 9 * GIB))
    parent, first, second, other = open_source(stub).read()
    assert parent.mig_enabled
    assert parent.utilization is Missing.UNSUPPORTED
    assert (parent.processes, parent.power) == ((), 70.0)
    assert [first.uuid, second.uuid] == [stub.uuid(one), stub.uuid(two)]
    assert first.mig_parent == second.mig_parent == parent.uuid
    assert (first.type, second.type) == ("h100-1g.10gb", "h100-2g.20gb")
    assert (first.memory_total, first.memory_used, second.memory_used) == (10 * GIB, 9 * GIB, 0)
    assert [process.pid for process in first.processes] == [worker.pid]
    assert second.processes == ()
    assert first.utilization is Missing.UNSUPPORTED
    assert first.processes[0].sm is Missing.UNSUPPORTED
    assert (other.uuid, other.mig_enabled, other.utilization) == (stub.uuid(1), False, 0)


def test_mig_instances_come_and_go_while_running(make_stub, open_source):
    stub = make_stub(1)
    source = open_source(stub)
    assert len(source.read(0)) == 1
    number = stub.add_mig(0)
    assert [gpu.uuid for gpu in source.read(5)] == [stub.uuid(0), stub.uuid(number)]
    stub.gpu(0).mig_mode = 0
    assert [gpu.uuid for gpu in source.read(10)] == [stub.uuid(0)]


def test_a_lost_gpu_keeps_its_row_and_the_others_live(make_stub, open_source):
    """XuehaiPan/nvitop#139; a null handle would abort the stub's program."""
    stub = make_stub(3)
    source = open_source(stub)
    source.read(0)
    stub.gpu(1).lost = control.GPU_IS_LOST
    stub.gpu(2).utilization = 50
    first, lost, third = source.read(1)
    assert (lost.uuid, lost.lost, lost.processes) == (stub.uuid(1), "fell off the bus", None)
    assert lost.lost_at
    assert lost.memory_used is lost.utilization is lost.power is Missing.UNKNOWN
    assert lost.memory_total == 80 * GIB
    assert (first.lost, third.lost, third.utilization) == ("", "", 50)
    assert source.memory_used(lost.uuid) is Missing.UNKNOWN
    assert source.memory_used(first.uuid) == 0
    stub.gpu(1).lost = 0
    assert source.read(2)[1].lost, "asked again only after a while"
    assert source.read(40)[1].lost == ""


def test_a_gpu_lost_before_the_start_has_a_row_too(make_stub, open_source):
    stub = make_stub(2)
    stub.gpu(0).lost = control.GPU_IS_LOST
    source = open_source(stub)
    lost, fine = source.read(0)
    assert (lost.index, lost.lost, lost.memory_used) == (0, "fell off the bus", Missing.UNKNOWN)
    assert (fine.uuid, fine.lost) == (stub.uuid(1), "")
    stub.gpu(0).lost = 0
    assert source.read(31)[0].uuid == stub.uuid(0)


@pytest.mark.parametrize("function", ["nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex_v2"])
def test_a_gpu_that_cannot_be_opened_stops_no_other(make_stub, open_source, function):
    stub = make_stub(2)
    stub.fail(function, control.UNKNOWN, gpu=0)
    broken, fine = open_source(stub).read()
    assert broken.lost
    assert fine.uuid == stub.uuid(1)


def test_gpus_given_to_others_are_no_rows(make_stub, open_source):
    """In a container or a job of another scheduler the driver counts GPUs that it does not open for us."""
    stub = make_stub(2)
    stub.fail("nvmlDeviceGetHandleByIndex_v2", control.NO_PERMISSION, gpu=0)
    source = open_source(stub)
    snapshot = source.snapshot(0)
    assert [gpu.uuid for gpu in snapshot.gpus] == [stub.uuid(1)]
    assert snapshot.problem is None
    stub.clear_faults()
    assert [gpu.index for gpu in source.read(31)] == [0, 1]


def test_no_gpu_that_may_be_opened_is_a_problem(make_stub, open_source):
    stub = make_stub(2)
    stub.fail("nvmlDeviceGetHandleByIndex_v2", control.NO_PERMISSION)
    snapshot = open_source(stub).snapshot()
    assert (snapshot.gpus, snapshot.problem.code) == ((), "no_permission")


def test_fatal_xids_are_noticed_and_others_are_not(make_stub, open_source):
    stub = make_stub(3)
    source = open_source(stub)
    source.read(0)
    stub.xid(0, 13)  # a fault of the program, not of the GPU
    stub.xid(1, 94)
    stub.xid(2, 79)
    first, second, third = source.read(1)
    assert (first.xid, first.lost) == (None, "")
    assert (second.xid, second.lost, second.memory_used) == (94, "", 0)
    assert (third.xid, third.lost) == (79, "Xid 79")


def test_drivers_that_fill_another_structure(make_stub, open_source, spawn):
    """XuehaiPan/nvitop#75: when v3 is garbage the older function is right."""
    stub = make_stub(1)
    pids = [spawn().pid for _ in range(3)]
    stub.gpu(0).set_processes(*((pid, 2 * GIB) for pid in pids))
    stub.control.process_stride = 32
    [gpu] = open_source(stub).read()
    assert [(process.pid, process.memory) for process in gpu.processes] == [(pid, 2 * GIB) for pid in pids]
    assert gpu.warnings == ()


def test_garbage_processes_are_unknown_with_a_warning(make_stub, open_source, spawn):
    """XuehaiPan/nvitop#75: where no function is right, say so and show no garbage."""
    stub = make_stub(1)
    stub.gpu(0).set_processes(*((spawn().pid, 2 * GIB) for _ in range(3)))
    stub.control.process_stride = 32
    stub.fail("nvmlDeviceGetComputeRunningProcesses_v2", control.NOT_SUPPORTED)
    [gpu] = open_source(stub).read()
    assert gpu.processes is None, "a layout nobody understands is not an empty list"
    assert gpu.warnings == ("processes unknown: driver and library disagree about their layout",)


def test_drivers_that_list_no_processes_leave_memory_as_evidence(make_stub, open_source):
    stub = make_stub(1)
    stub.gpu(0).memory_used = 2 * GIB
    for version in (2, 3):
        stub.fail(f"nvmlDeviceGetComputeRunningProcesses_v{version}", control.NOT_SUPPORTED)
    [gpu] = open_source(stub).read()
    assert (gpu.processes, gpu.memory_used) == ((), 2 * GIB)
    assert gpu.warnings == ("processes unsupported: this driver lists none",)


def test_old_drivers_without_the_newest_functions(tmp_path, make_stub, open_source, spawn):
    absent = [
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
        "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMigMode",
    ]  # fmt: skip
    old = tmp_path / "old"
    old.mkdir()
    stub = make_stub(1, library=build(old, absent))
    worker = spawn()
    stub.gpu(0).set_processes((worker.pid, GIB))
    stub.gpu(0).memory_used, stub.gpu(0).throttle = 3 * GIB, 0x80
    [gpu] = open_source(stub).read()
    assert [process.pid for process in gpu.processes] == [worker.pid]
    assert gpu.memory_used == 3 * GIB + GIB // 2  # the older function counts reserved memory as used
    assert gpu.throttle == ("power brake",)


def test_pids_of_another_namespace_are_shown_and_have_no_identity(make_stub, open_source):
    """Syllo/nvtop#149: such a row has memory, no user, no command, and no start time to signal it by."""
    stub = make_stub(1)
    assert read_stat(FREE_PID) is None
    stub.gpu(0).set_processes((FREE_PID, 5 * GIB))
    [process] = open_source(stub).read()[0].processes
    assert (process.pid, process.memory, process.start_time) == (FREE_PID, 5 * GIB, None)
    assert (process.user, process.uid, process.command) == ("?", None, f"host pid {FREE_PID}")


def test_a_pid_of_the_host_is_not_taken_for_the_one_of_that_number_here(make_stub, open_source, spawn):
    """Syllo/nvtop#149: in a container, one pid that is nobody here shows that all are the host's."""
    stub = make_stub(1)
    worker = spawn()
    stub.gpu(0).set_processes((FREE_PID, GIB), (worker.pid, GIB))
    inside = open_source(stub, "namespaced").read()[0].processes
    assert [(process.pid, process.start_time, process.user) for process in inside] == [
        (FREE_PID, None, "?"),
        (worker.pid, None, "?"),
    ]
    outside = open_source(stub).read()[0].processes
    assert [process.start_time is None for process in outside] == [True, False]


def test_processes_that_vanish_between_two_calls(make_stub, open_source, spawn):
    """wookayin/gpustat#144: one that was here and is gone has ended; zombies are dead; nothing is aborted."""
    stub = make_stub(1)
    staying, leaving, zombie = spawn(), spawn(), spawn()
    stub.gpu(0).set_processes(*((process.pid, GIB) for process in (staying, leaving, zombie)))
    source = open_source(stub)
    assert len(source.read(0)[0].processes) == 3
    leaving.kill()
    leaving.wait()
    zombie.kill()
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    [gpu] = source.read(2)
    assert [process.pid for process in gpu.processes] == [staying.pid]
    assert [process.pid for process in source.read(4)[0].processes] == [staying.pid]


def test_sentinels_are_unsupported_before_any_arithmetic(make_stub, open_source, spawn):
    """Syllo/nvtop#432: WSL2 says all-ones where it has no value."""
    stub = make_stub(1)
    worker = spawn()
    gpu = stub.gpu(0)
    gpu.set_processes((worker.pid, NOT_AVAILABLE))
    gpu.power, gpu.utilization, gpu.temperature, gpu.fan = (0xFFFFFFFF,) * 4
    [reading] = open_source(stub).read()
    assert reading.processes[0].memory is Missing.UNSUPPORTED
    assert reading.power is reading.utilization is Missing.UNSUPPORTED
    assert reading.temperature is reading.fan is Missing.UNSUPPORTED
    assert reading.memory_total == 80 * GIB


def test_process_utilization_believes_only_sensible_samples(make_stub, open_source, spawn):
    """Syllo/nvtop#110: garbage shares, dead pids, and old samples that come again."""
    stub = make_stub(1)
    good, wild, silent = spawn(), spawn(), spawn()
    gpu = stub.gpu(0)
    gpu.set_processes(*((process.pid, GIB) for process in (good, wild, silent)))
    now = int(time.time() * 1e6)
    gpu.set_samples((good.pid, 12, now - 2000), (good.pid, 40, now - 1000), (wild.pid, 37100, now), (FREE_PID, 99, now))
    source = open_source(stub)
    shares = {process.pid: process.sm for process in source.read(0)[0].processes}
    assert shares == {good.pid: 40, wild.pid: Missing.UNKNOWN, silent.pid: Missing.UNKNOWN}
    shares = {process.pid: process.sm for process in source.read(2)[0].processes}
    assert shares[good.pid] is Missing.UNKNOWN, "the same sample again says nothing about now"


def test_unified_memory(make_stub, open_source, spawn):
    """Syllo/nvtop#426: GB10 shares memory with the host; the sum of its processes is what is used."""
    stub = make_stub(1, name="NVIDIA GB10")
    for function in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        stub.fail(function, control.NOT_SUPPORTED)
    stub.gpu(0).set_processes((spawn().pid, 3 * GIB), (spawn().pid, GIB))
    source = open_source(stub)
    [gpu] = source.read()
    assert gpu.unified_memory
    assert gpu.type == "gb10"
    assert gpu.memory_used == 4 * GIB
    assert gpu.memory_total > gpu.memory_used
    assert gpu.fan is Missing.UNSUPPORTED
    assert source.memory_used(gpu.uuid) == 4 * GIB


def test_memory_that_turns_to_garbage_is_unknown_and_no_sign_of_unified_memory(make_stub, open_source):
    stub = make_stub(1)
    source = open_source(stub)
    source.read()
    stub.gpu(0).memory_used = NOT_AVAILABLE
    [gpu] = source.read(1)
    assert (gpu.memory_used, gpu.memory_total, gpu.unified_memory) == (Missing.UNKNOWN, 80 * GIB, False)
    assert source.memory_used(gpu.uuid) is Missing.UNKNOWN
    stub.gpu(0).memory_used = GIB
    assert source.read(2)[0].memory_used == GIB


def test_unified_memory_of_unknown_processes_is_unknown(make_stub, open_source):
    stub = make_stub(1, name="NVIDIA GB10")
    stub.gpu(0).memory_total = NOT_AVAILABLE
    stub.fail("nvmlDeviceGetComputeRunningProcesses_v3", control.UNKNOWN)
    [gpu] = open_source(stub).read()
    assert gpu.unified_memory
    assert not isinstance(gpu.memory_used, int)
    assert gpu.processes is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (control.DRIVER_NOT_LOADED, "driver_missing"),
        (control.VERSION_MISMATCH, "version_mismatch"),  # wookayin/gpustat#147
        (control.NO_PERMISSION, "no_permission"),
        (control.UNKNOWN, "driver_missing"),
    ],
)
def test_failing_to_start_is_a_problem_with_a_remedy(make_stub, open_source, error, code):
    stub = make_stub(1)
    stub.control.init_error = error
    source = open_source(stub)
    snapshot = source.snapshot(0)
    assert (snapshot.problem.code, snapshot.gpus) == (code, ())
    assert snapshot.problem.sentence.endswith(".")
    assert snapshot.problem.remedy.endswith(".")
    stub.control.init_error = 0
    assert source.snapshot(1).problem, "asked again only after a while"
    snapshot = source.snapshot(6)
    assert (snapshot.problem, len(snapshot.gpus)) == (None, 1)
    assert snapshot.driver == "580.95.05"


def test_a_driver_without_gpus(make_stub, open_source):
    assert open_source(make_stub(0)).snapshot().problem.code == "no_gpu"


def test_persistence_mode_off_is_a_hint(make_stub, open_source):
    """wookayin/gpustat#54: each poll costs dearly then."""
    stub = make_stub(1)
    stub.gpu(0).persistence = 0
    [warning] = open_source(stub).read()[0].warnings
    assert "persistence mode is off" in warning


def test_graphics_processes_are_listed_with_the_others(make_stub, open_source, spawn):
    stub = make_stub(1)
    worker = spawn()
    stub.gpu(0).set_processes((worker.pid, GIB), kind=1)
    [process] = open_source(stub).read()[0].processes
    assert (process.pid, process.kind) == (worker.pid, "graphics")


def test_calls_per_minute(make_stub, open_source):
    """wookayin/gpustat#54: one initialisation, static fields once, costly ones seldom."""
    stub = make_stub(1)
    source = open_source(stub)
    for second in range(60):
        source.read(float(second))
    assert stub.calls("nvmlInitWithFlags") == 1
    assert stub.calls("nvmlDeviceGetHandleByIndex_v2") == 1
    assert stub.calls("nvmlDeviceGetName") == stub.calls("nvmlDeviceGetUUID") == 1
    assert stub.calls("nvmlDeviceGetUtilizationRates") == stub.calls("nvmlDeviceGetPowerUsage") == 60
    assert stub.calls("nvmlDeviceGetComputeRunningProcesses_v3") == 30
    assert stub.calls("nvmlDeviceGetTemperature") == 12
    assert stub.calls("nvmlDeviceGetFanSpeed") == stub.calls("nvmlDeviceGetGraphicsRunningProcesses_v3") == 6


def test_open_files_stay_flat(make_stub, open_source, spawn):
    """lablup/all-smi#118: polling for days opens nothing more."""
    stub = make_stub(4)
    stub.gpu(2).lost = control.GPU_IS_LOST
    worker = spawn()
    source = open_source(stub)
    source.read(0)
    before = source.open_files()
    for second in range(1, count(200, 20_000)):
        stub.gpu(0).set_processes(*((worker.pid, GIB),) * (second % 2))
        stub.gpu(1).lost = control.GPU_IS_LOST if second % 40 > 35 else 0
        source.read(float(second))
    assert source.open_files() == before


def test_open_files_stay_flat_while_the_driver_is_missing(make_stub, open_source):
    stub = make_stub(1)
    stub.control.init_error = control.DRIVER_NOT_LOADED
    source = open_source(stub)
    source.read(0)
    before = source.open_files()
    for round_ in range(1, count(50, 5_000)):
        source.read(round_ * 61.0)
    assert stub.calls("nvmlInitWithFlags") > 20
    assert source.open_files() == before
