"""Processes, types, problems, wire, host: the parts the sources are made of."""

import json
import os
import pwd
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from gputui.gpus import processes as processes_module
from gputui.gpus.host import HostSource
from gputui.gpus.problems import LIBRARY_NOT_FOUND, init_problem, is_tegra
from gputui.gpus.processes import ProcessTable, read_stat
from gputui.gpus.reading import GpuReading, HostReading, Missing, Problem, ProcessReading, Snapshot
from gputui.gpus.rows import gpu_row, state
from gputui.gpus.types import gpu_type
from gputui.gpus.wire import Decoder, Encoder

GIB = 1 << 30
MIB = 1 << 20


# --- processes ---


def test_a_process_is_who_it_is(spawn):
    process = spawn("sleep", "601")
    stat = read_stat(process.pid)
    who = ProcessTable().who(process.pid, stat)
    other = psutil.Process(process.pid)
    assert abs(stat.start_time / os.sysconf("SC_CLK_TCK") - (other.create_time() - psutil.boot_time())) < 2
    assert (who.uid, who.user, who.command) == (os.getuid(), other.username(), "sleep 601")


def test_odd_names_do_not_confuse_the_fields(spawn, tmp_path):
    """A program may be called anything, parentheses and newlines included."""
    program = tmp_path / "a) R 1\n(b"
    program.symlink_to(sys.executable)
    process = spawn(str(program), "-c", "import time; print('up', flush=True); time.sleep(600)", stdout=subprocess.PIPE)
    process.stdout.readline()
    stat = read_stat(process.pid)
    assert stat.comm == "a) R 1\n(b"
    assert (
        abs(
            stat.start_time / os.sysconf("SC_CLK_TCK")
            - (psutil.Process(process.pid).create_time() - psutil.boot_time())
        )
        < 2
    )
    process.stdout.close()


def test_zombies_and_absent_pids_are_dead(spawn):
    process = spawn("true")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert read_stat(process.pid) is None
    assert ProcessTable().dead(process.pid)
    assert read_stat(0) is None
    assert read_stat(-1) is None
    assert not ProcessTable().dead(4_000_000)


def test_a_program_that_execs_another_has_a_new_command(spawn):
    table = ProcessTable()
    process = spawn("sh", "-c", "read line; exec sleep 602", stdin=subprocess.PIPE)
    before = table.who(process.pid, read_stat(process.pid))
    process.stdin.write(b"go\n")
    process.stdin.close()
    deadline = time.monotonic() + 20
    while (after := table.who(process.pid, read_stat(process.pid))).command != "sleep 602":
        assert time.monotonic() < deadline, after
    assert after.start_time == before.start_time


def test_a_user_that_cannot_be_named_costs_only_that_field(spawn, monkeypatch):
    """wookayin/gpustat#121: what cannot be read is '?' or a number in that one field."""

    def unknown(uid):
        raise KeyError(uid)

    process = spawn()
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    who = ProcessTable().who(process.pid, read_stat(process.pid))
    assert (who.user, who.command) == (str(os.getuid()), "sleep 600")
    denied = os.stat

    def refuse(path, *args, **kwargs):
        if str(path).startswith("/proc/"):
            raise PermissionError(path)
        return denied(path, *args, **kwargs)

    monkeypatch.setattr(processes_module.os, "stat", refuse)
    who = ProcessTable().who(process.pid, read_stat(process.pid))
    assert (who.user, who.uid, who.command) == ("?", None, "sleep 600")


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        ("0::/system.slice/docker-" + "a1" * 32 + ".scope\n", "a1a1a1a1a1a1"),
        ("12:devices:/docker/" + "b2" * 32 + "\n0::/\n", "b2b2b2b2b2b2"),
        ("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + "c3" * 32 + ".scope\n", "c3c3c3c3c3c3"),
        ("0::/user.slice/user-1000.slice/session-2.scope\n", ""),
        ("", ""),
    ],
)
def test_containers_are_known_by_their_cgroup(cgroup, container, spawn, monkeypatch):
    process = spawn()
    read = processes_module._read
    monkeypatch.setattr(
        processes_module, "_read", lambda path: cgroup.encode() if path.endswith("/cgroup") else read(path)
    )
    assert ProcessTable().who(process.pid, read_stat(process.pid)).container == container


# --- types ---


@pytest.mark.parametrize(
    ("name", "memory", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 81559 * MIB, "h100-80g"),
        ("NVIDIA H100 PCIe", 81559 * MIB, "h100-80g"),
        ("NVIDIA H100 NVL", 95830 * MIB, "h100-94g"),
        ("NVIDIA H200", 143771 * MIB, "h200-141g"),
        ("NVIDIA A100-SXM4-40GB", 40960 * MIB, "a100-40g"),
        ("NVIDIA A100 80GB PCIe", 81920 * MIB, "a100-80g"),
        ("NVIDIA L40S", 46068 * MIB, "l40s-48g"),
        ("NVIDIA A10", 23028 * MIB, "a10-24g"),
        ("NVIDIA A10G", 23028 * MIB, "a10g-24g"),
        ("Tesla V100-SXM2-32GB", 32768 * MIB, "v100-32g"),
        ("Tesla T4", 15360 * MIB, "t4-16g"),
        ("NVIDIA GeForce RTX 4090", 24564 * MIB, "rtx4090-24g"),
        ("NVIDIA GeForce RTX 3080 Ti", 12288 * MIB, "rtx3080ti-12g"),
        ("NVIDIA RTX A6000", 49140 * MIB, "rtxa6000-48g"),
        ("NVIDIA RTX 6000 Ada Generation", 49140 * MIB, "rtx6000ada-48g"),
        ("NVIDIA B200", 183359 * MIB, "b200-180g"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864 * MIB, "a100-1g.5gb"),
        ("NVIDIA GB10", None, "gb10"),
        ("?", None, "gpu"),
        ("NVIDIA", 16 * GIB, "gpu-16g"),
    ],
)
def test_types_are_normalised(name, memory, expected):
    assert gpu_type(name, memory) == expected


# --- problems ---


def test_tegra_is_told_apart_from_a_missing_driver(tmp_path):
    """Syllo/nvtop#150."""
    assert not is_tegra(tmp_path)
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_bytes(b"nvidia,p2972-0000\0nvidia,tegra194\0")
    assert is_tegra(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").touch()
    assert is_tegra(tmp_path)
    tegra = init_problem(LIBRARY_NOT_FOUND, "Library not found", tegra=True)
    missing = init_problem(LIBRARY_NOT_FOUND, "Library not found", tegra=False)
    assert (tegra.code, missing.code) == ("tegra", "driver_missing")
    assert "tegrastats" in tegra.remedy


# --- wire ---


def snapshot(*gpus, problem=None, monotonic=1.0):
    return Snapshot(
        datetime(2026, 11, 30, 6, 2, 31, tzinfo=UTC), monotonic, "nvml", gpus, HostReading("h"), problem, "1"
    )


def full_gpu(**changes):
    values = {
        "uuid": "GPU-1",
        "index": 0,
        "name": "NVIDIA H100 \udcff",
        "type": "h100-80g",
        "memory_total": 80,
        "utilization": Missing.UNSUPPORTED,
        "power": 71.5,
        "throttle": ("power cap",),
        "processes": (ProcessReading(7, 9.0, Missing.UNSUPPORTED, "li", 1000, "训练 x", sm=3, cpu_seconds=1.25),),
    }
    return GpuReading(**{**values, **changes})


def roundtrip(encoder, decoder, value):
    line = encoder.encode(value)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return line, decoder.decode(json.loads(line))


def test_snapshots_survive_the_wire():
    encoder, decoder = Encoder(), Decoder()
    sequence = [
        snapshot(full_gpu(), full_gpu(uuid="GPU-2", index=1)),
        snapshot(full_gpu(power=Missing.UNKNOWN), full_gpu(uuid="GPU-2", index=1, processes=None)),
        snapshot(full_gpu(uuid="GPU-2", index=0, lost="fell off the bus", xid=79)),
        snapshot(problem=Problem("hung", "s", "r")),
        snapshot(full_gpu(uuid="GPU-2"), full_gpu()),
    ]
    for value in sequence:
        assert roundtrip(encoder, decoder, value)[1] == value


def test_unchanged_fields_are_not_sent_again():
    encoder, decoder = Encoder(), Decoder()
    roundtrip(encoder, decoder, snapshot(full_gpu(power=1.0)))
    line, value = roundtrip(encoder, decoder, snapshot(full_gpu(power=2.0)))
    assert b"H100" not in line
    assert b"processes" not in line
    assert value == snapshot(full_gpu(power=2.0))


def test_a_new_reader_starts_anew():
    decoder = Decoder()
    roundtrip(Encoder(), decoder, snapshot(full_gpu(), full_gpu(uuid="GPU-2")))
    value = snapshot(full_gpu(uuid="GPU-2"))
    assert roundtrip(Encoder(), decoder, value)[1] == value


# --- host ---


def test_the_host_is_read_with_rates_between_reads():
    source = HostSource((str(Path.cwd()),))
    first = source.read(0.0)
    assert first.cpu_percent is first.net_rx is Missing.UNKNOWN
    assert first.memory_total == psutil.virtual_memory().total
    assert first.disks == tuple(disk for disk in first.disks if 0 <= disk[1] <= disk[2])
    second = source.read(1.0)
    assert 0 <= second.cpu_percent <= 100
    assert second.net_rx >= 0
    assert second.cpu_count == os.cpu_count()


def test_a_host_field_fails_alone(monkeypatch):
    def fail(*_, **__):
        raise OSError("gone")

    monkeypatch.setattr(psutil, "virtual_memory", fail)
    monkeypatch.setattr(psutil, "net_io_counters", fail)
    monkeypatch.setattr(psutil, "disk_partitions", fail)
    reading = HostSource().read(0.0)
    assert reading.memory_total is reading.net_rx is Missing.UNKNOWN
    assert reading.disks == ()
    assert isinstance(reading.load_1m, float)


# --- rows ---


@pytest.mark.parametrize(
    ("changes", "problem", "expected"),
    [
        ({"processes": (), "memory_used": 0}, None, "free"),
        ({"processes": None, "memory_used": 0}, None, "unknown"),
        ({"processes": (), "memory_used": Missing.UNKNOWN}, None, "unknown"),
        ({"processes": (), "memory_used": 5 * GIB}, None, "busy"),
        ({"memory_used": 5 * GIB}, None, "busy"),
        ({"processes": (), "memory_used": Missing.UNSUPPORTED}, None, "free"),
        ({"processes": (), "memory_used": 0, "lost": "fell off the bus"}, None, "lost"),
        ({"processes": (), "memory_used": 0}, Problem("hung", "s", "r"), "unknown"),
    ],
)
def test_free_is_only_what_is_known_to_be_free(changes, problem, expected):
    assert state(full_gpu(**changes), problem) == expected


def test_rows_tell_unsupported_from_unknown():
    row = gpu_row(full_gpu(power=Missing.UNKNOWN))
    assert (row["utilization"], row["power"], row["unsupported"]) == (None, None, ["utilization"])
    assert (row["held_by"], row["held_user"]) == ("训练 x", "li")
