"""Simulated GPUs: memory as declared, utilization from the CPU use of real processes."""

import json
import os

import pytest

from gputui.domain.errors import InputError
from gputui.gpus.processes import ProcStat
from gputui.gpus.reading import Holder
from gputui.gpus.simulated import FOREIGN_ENV, SimulatedSource, parse_spec, simulated_uuid

GIB = 1 << 30


def test_a_number_gives_three_types():
    assert [gpu.type for gpu in parse_spec("8")] == ["h100-80g"] * 4 + ["l40s-48g"] * 2 + ["a10-24g"] * 2
    assert [gpu.type for gpu in parse_spec("1")] == ["h100-80g"]
    assert len(parse_spec("1024")) == 1024


def test_a_list_of_types():
    gpus = parse_spec(" 2xH100-80g, l40s-48g,1xmystery-7g")
    assert [(gpu.type, gpu.memory) for gpu in gpus] == [
        ("h100-80g", 80 * GIB),
        ("h100-80g", 80 * GIB),
        ("l40s-48g", 48 * GIB),
        ("mystery-7g", 7 * GIB),
    ]


@pytest.mark.parametrize(
    "spec", ["", "0", "-1", "1025", "9" * 30, "x", "4x", "h100", "h100-0g", "4*h100-80g", "2xh100-80g,"]
)
def test_a_bad_spec_names_the_remedy(spec):
    with pytest.raises(InputError) as caught:
        parse_spec(spec)
    assert caught.value.field == "GPUTUI_SIMULATED_GPUS"
    assert "4xh100-80g" in caught.value.sentence


def test_uuids_are_stable_and_differ(monkeypatch):
    first = [simulated_uuid(index) for index in range(100)]
    assert first == [simulated_uuid(index) for index in range(100)]
    assert len(set(first)) == 100
    assert all(uuid.startswith("GPU-sim-") for uuid in first)
    monkeypatch.setattr("gputui.gpus.simulated._machine_id", lambda: "another machine")
    assert not set(first) & {simulated_uuid(index) for index in range(100)}


def test_an_idle_gpu():
    [gpu] = SimulatedSource("h100-80g").read(0.0)[0]
    assert (gpu.utilization, gpu.memory_used, gpu.memory_total, gpu.processes) == (0, 0, 80 * GIB, ())


def test_utilization_is_cpu_use_over_a_tenth_of_a_core(monkeypatch):
    cpu = {11: 5.0, 12: 0.0}
    monkeypatch.setattr("gputui.gpus.simulated.read_stat", lambda pid: ProcStat(1, cpu[pid], 0.0, "train"))
    source = SimulatedSource("h100-80g")
    [gpu] = source.read(100.0)[0]
    source.set_holders({gpu.uuid: (Holder((11, 12), 8 * GIB),)})
    readings = []
    for second in range(101, 109):
        readings.append(source.read(float(second))[0][0])
        cpu[11] += 0.05  # half of a tenth of a core
    assert readings[0].utilization == 0, "what was used before it held the GPU does not count"
    assert readings[-1].utilization == 50
    assert readings[-1].memory_used == 8 * GIB
    assert readings[-1].power > readings[0].power > gpu.power
    assert readings[-1].temperature > gpu.temperature
    cpu[12] += 100.0
    assert source.read(109.0)[0][0].utilization <= 100


def test_cpu_of_ended_children_counts_once(monkeypatch):
    stats = {1: ProcStat(1, 0.0, 0.0, "sh"), 2: ProcStat(2, 0.0, 0.0, "python")}
    monkeypatch.setattr("gputui.gpus.simulated.read_stat", stats.get)
    source = SimulatedSource("h100-80g")
    [gpu] = source.read(0.0)[0]
    source.set_holders({gpu.uuid: (Holder((1, 2), GIB),)})
    source.read(1.0)
    for second in range(2, 10):
        stats[2] = ProcStat(2, stats[2].cpu + 0.1, 0.0, "python")
        assert source.read(float(second))[0][0].utilization <= 100
    assert source.read(10.0)[0][0].utilization < 100
    before = source.read(11.0)[0][0].utilization
    stats[1] = ProcStat(1, 0.0, stats.pop(2).cpu, "sh")
    assert source.read(12.0)[0][0].utilization <= before


def test_foreign_holders_come_from_a_file(monkeypatch, tmp_path, spawn):
    path = tmp_path / "foreign.json"
    monkeypatch.setenv(FOREIGN_ENV, str(path))
    source = SimulatedSource("2xh100-80g")
    second = simulated_uuid(1)
    process = spawn()
    assert source.read(0.0)[0][0].processes == ()
    path.write_text(json.dumps({"0": [{"pid": process.pid, "memory": 56 * GIB}], second: []}))
    gpu = source.read(1.0)[0][0]
    assert (gpu.memory_used, gpu.processes[0].pid, gpu.processes[0].uid) == (56 * GIB, process.pid, os.getuid())
    assert source.memory_used(gpu.uuid) == 56 * GIB
    path.write_text('{"0": [{"pid"')  # half written
    assert source.read(2.0)[0][0].memory_used == 56 * GIB
    path.write_text("{}  ")
    assert source.read(3.0)[0][0].memory_used == 0
    path.write_text(json.dumps({second: [{"pid": process.pid, "memory": GIB}]}))
    assert [gpu.memory_used for gpu in source.read(4.0)[0]] == [0, GIB]
    path.unlink()
    assert source.read(5.0)[0][1].memory_used == 0
