"""Normalised names of GPU types: `NVIDIA H100 80GB HBM3` is `h100-80g`, a MIG instance of it `h100-1g.10gb`."""

import re

_GIB = 1 << 30
_NOMINAL = (1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 288)
"""Sizes in GB as vendors print them; the driver reports somewhat less (ECC, firmware)."""
_NOISE = frozenset({"nvidia", "geforce", "tesla", "quadro", "graphics", "device", "generation", "laptop", "gpu"})
_FORM = re.compile(r"^(?:sxm\d*|pcie|hbm\w*|nvl\d*|oam|\d+gb?|mig|\d+[cg]\..*)$")
_MIG = re.compile(r"\bMIG\s+(\S+)", re.IGNORECASE)
_SIZE = re.compile(r"\b(\d+)\s?GB\b", re.IGNORECASE)


def gpu_type(name: str, memory_total: int | None) -> str:
    """Normalise a GPU's name as the driver gives it; `memory_total` in bytes helps where the name has no size."""
    base = _MIG.sub("", name)
    words = [word for word in re.split(r"[\s\-_/()]+", base.lower()) if word and word not in _NOISE]
    model = "".join(re.sub(r"[^a-z0-9]", "", word) for word in words if not _FORM.match(word)) or "gpu"
    instance = _MIG.search(name)
    if instance:
        return f"{model}-{instance.group(1).lower()}"
    size = _SIZE.search(base)
    if size:
        return f"{model}-{size.group(1)}g"
    if memory_total:
        return f"{model}-{_nominal(memory_total)}g"
    return model


def _nominal(memory: int) -> int:
    gib = memory / _GIB
    for size in _NOMINAL:
        if gib <= size * 1.005 and gib > size * 0.85:
            return size
    return max(1, round(gib))
