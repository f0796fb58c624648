"""Normalised names of GPU types, and how big each is.

'NVIDIA H100 80GB HBM3' becomes `h100-80g`: the model without maker and packaging, and the memory it is sold with. A MIG
instance keeps its profile: `a100-mig-1g.10gb`. Names nobody has seen yet give a stable name all the same.
"""

import re
from typing import Final

from gputui.domain.gpu import GpuType

_GIB: Final = 1 << 30
_SOLD: Final = (1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 186, 192, 288)
"""Memory sizes GPUs are sold with. The driver reports a little less, up to a sixteenth with ECC on."""

_MIG = re.compile(r"^(?P<model>.*?)\s+MIG\s+(?P<profile>(?P<slices>\d+)g\.\d+gb\S*)$", re.IGNORECASE)
_MEMORY = re.compile(r"^(\d+)G[Bi]?B?$", re.IGNORECASE)
_NOISE = re.compile(
    r"^(nvidia|corporation|tesla|geforce|quadro|simulated|gpu|graphics|device|generation|edition|server|workstation"
    r"|blackwell|sxm\d*|pcie?|oam|mxm|nvl|hbm\d*e?|gddr\d*x?|max|q)$",
    re.IGNORECASE,
)

_SIZE: Final = {
    "k80": 6, "m60": 6, "p4": 7, "p40": 12, "p100": 14, "t4": 12, "v100": 24, "titanv": 20, "titanrtx": 18,
    "a2": 8, "a10": 26, "a10g": 26, "a16": 9, "a30": 30, "a40": 34, "a100": 50, "a800": 50,
    "rtxa4000": 20, "rtxa5000": 27, "rtxa6000": 34, "l4": 22, "l20": 36, "l40": 42, "l40s": 46,
    "rtx3090": 30, "rtx3090ti": 31, "rtx4090": 46, "rtx5090": 56, "rtx6000ada": 44, "rtxpro6000": 60,
    "h20": 48, "h100": 80, "h800": 78, "h200": 88, "gh200": 86, "b200": 130, "gb200": 132, "b300": 150, "gb300": 152,
    "gb10": 25,
}  # fmt: skip
"""How big a model is beside the others, in rough proportion to its speed in training. Models not here go by memory."""


def normalise(name: str, memory: int) -> GpuType:
    """Return the type of a GPU by the name its driver gives and its memory in bytes (0: unknown)."""
    mig = _MIG.match(name.strip())
    if mig:
        model, _ = _model(mig["model"])
        slices = min(int(mig["slices"]), 7)
        size = _size(model, memory) * slices // 7
        return GpuType(f"{model}-mig-{mig['profile'].lower()}", memory, _rank(size, memory))
    model, stated = _model(name)
    sold = _sold(memory, stated)
    return GpuType(f"{model}-{sold}g" if sold else model, memory, _rank(_size(model, memory), memory))


def _model(name: str) -> tuple[str, int]:
    """The model's name and the memory it states in GiB, 0 when none."""
    stated = 0
    words = []
    for word in re.split(r"[\s_()/\-]+", name):
        if match := _MEMORY.match(word):
            stated = int(match[1])
        elif word and not _NOISE.match(word):
            words.append(re.sub(r"[^a-z0-9.+]", "", word.lower()))
    return "".join(words) or "gpu", stated


def _sold(memory: int, stated: int) -> int:
    if not memory:
        return stated
    reported = memory / _GIB
    # 'GH200 480GB' states the memory of its CPU
    if stated and stated * 0.8 <= reported <= stated * 1.02:
        return stated
    return next((size for size in _SOLD if size * 1.005 >= reported), -(-memory // _GIB))


def _size(model: str, memory: int) -> int:
    return _SIZE.get(model, min(memory // _GIB, 200))


def _rank(size: int, memory: int) -> int:
    return size * 1000 + min(memory // _GIB, 999)
