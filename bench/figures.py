"""One measured number with what it is held against, and the table of them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is measured."""

    frames: int
    monitor_seconds: float
    handoffs: int
    depths: tuple[int, ...]
    bulk: int
    submits: int
    queued: int
    keys: int
    idle_seconds: float
    pass_jobs: int
    pass_gpus: int


FULL = Counts(
    frames=25, monitor_seconds=30, handoffs=150, depths=(10, 10_000, 100_000), bulk=100_000, submits=30,
    queued=100_000, keys=240, idle_seconds=30, pass_jobs=100_000, pass_gpus=1_000,
)  # fmt: skip
QUICK = Counts(
    frames=7, monitor_seconds=8, handoffs=30, depths=(10, 2_000), bulk=10_000, submits=7,
    queued=5_000, keys=40, idle_seconds=8, pass_jobs=10_000, pass_gpus=100,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """`limit` bounds the ratio to the peer when there is a `peer_name`, else the value itself."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    peer: float | None = None
    peer_name: str = ""
    at_least: bool = False
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's; None without a peer."""
        return self.value / self.peer if self.peer else None

    @property
    def met(self) -> bool | None:
        """Whether the design's number is reached; None when there is none, or the peer is missing."""
        measured = self.ratio if self.peer_name else self.value
        if self.limit is None or measured is None:
            return None
        return measured >= self.limit if self.at_least else measured <= self.limit

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "what": self.what, "value": self.value, "unit": self.unit, "peer": self.peer, "peer_name": self.peer_name,
            "ratio": self.ratio, "limit": self.limit, "at_least": self.at_least, "met": self.met, "detail": self.detail,
        }  # fmt: skip

    def cells(self) -> list[str]:
        """One line of the table."""
        peer = f"{_number(self.peer)} {self.unit} {self.peer_name}" if self.peer is not None else self.peer_name
        target = ""
        if self.limit is not None:
            unit = "×" if self.peer_name else self.unit
            target = f"{'≥' if self.at_least else '≤'} {_number(self.limit)} {unit}"
        verdict = {True: "yes", False: "NO", None: ""}[self.met]
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} ×"
        return [self.what, f"{_number(self.value)} {self.unit}", peer, ratio, target, verdict]


HEADINGS = ["what", "gputui", "peer", "ratio", "target", "met"]


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned text."""
    rows = [HEADINGS, *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if 1 <= i <= 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value == int(value) else f"{value:.3g}"
