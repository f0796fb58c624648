"""`monitor`: the GPUs of this machine, without daemon, store or queue."""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from gputui import format as fmt
from gputui.cli.app import Command, Json, new_app
from gputui.cli.output import note, print_json, say, show_table
from gputui.gpus.handle import read_once
from gputui.gpus.rows import reply
from gputui.protocol import GpuRow, GpusReply, HostRow

app = new_app()

NO_DRIVER = 5
NO_GPU = 1
SIMULATED_VARIABLE = "GPUTUI_SIMULATED_GPUS"


@app.command(cls=Command)
def monitor(
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    json: Json = False,
) -> None:
    """Watch the GPUs of this machine: no daemon, no queue. Exit code 5 when there is no usable driver."""
    if not once and not json:
        raise typer.Exit(_open_screen())
    found = reply(read_once(os.environ.get(SIMULATED_VARIABLE) or None))
    if json:
        print_json(found)
    else:
        _show(found)
    problem = found["problem"]
    if problem is not None:
        if not json:
            sys.stdout.flush()
            note(f"{problem['sentence']} {problem['remedy']}")
        raise typer.Exit(NO_GPU if problem["code"] == "no_gpu" else NO_DRIVER)


def _open_screen() -> int:
    from gputui.tui.app import run_monitor

    return run_monitor()


def _show(found: GpusReply) -> None:
    say(_host_line(found["host"], len(found["gpus"])))
    if found["gpus"]:
        show_table(
            ["", "type", "util", "memory", "°C", "W", "state", "held by", "uuid"],
            [_cells(gpu) for gpu in found["gpus"]],
            right=[0, 2, 3, 4, 5],
        )
    for gpu in found["gpus"]:
        for warning in gpu["warnings"]:
            note(f"GPU {gpu['index']}: {warning}")


def _cells(gpu: GpuRow) -> list[str]:
    memory = fmt.used_of(gpu["memory_used"], gpu["memory_total"])
    return [
        str(gpu["index"]),
        gpu["type"],
        _reading(gpu, "utilization", gpu["utilization"], lambda value: f"{value:.0f}%"),
        _reading(gpu, "memory_used", gpu["memory_used"], lambda _: memory + (" unified" * gpu["unified_memory"])),
        _reading(gpu, "temperature", gpu["temperature"], lambda value: f"{value:.0f}"),
        _reading(gpu, "power", gpu["power"], lambda value: f"{value:.0f}"),
        f"{gpu['state']}: {gpu['why']}" if gpu["why"] else gpu["state"],
        _holders(gpu),
        gpu["uuid"],
    ]


def _reading(gpu: GpuRow, name: str, value: float | None, show: Callable[[float], str]) -> str:
    if name in gpu["unsupported"]:
        return fmt.UNSUPPORTED
    return fmt.UNKNOWN if value is None else show(value)


def _holders(gpu: GpuRow) -> str:
    if not gpu["processes"]:
        return ""
    others = len(gpu["processes"]) - 1
    first = fmt.fit(fmt.clean(f"{gpu['held_user']} {gpu['held_by']}"), 40).rstrip()
    return f"{first} +{others}" if others else first


def _host_line(host: HostRow, gpus: int) -> str:
    cpu = fmt.UNKNOWN if host["cpu_percent"] is None else f"{host['cpu_percent']:.0f}%"
    parts = [
        host["hostname"],
        f"{gpus} GPU{'' if gpus == 1 else 's'}",
        f"cpu {cpu} of {host['cpu_count']}",
        f"ram {fmt.used_of(host['memory_used'], host['memory_total'])}",
        *(f"{mount} {used / max(total, 1):.0%}" for mount, used, total in host["disks"]),
    ]
    return fmt.clean(" · ".join(parts))
