"""Normalised names of GPU types."""

import pytest

from gputui.domain.gputype import normalise

MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "mebibytes", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "h100-80g"),
        ("NVIDIA H100 PCIe", 81559, "h100-80g"),
        ("NVIDIA H100 NVL", 95830, "h100-94g"),
        ("NVIDIA H200", 143771, "h200-141g"),
        ("NVIDIA B200", 183359, "b200-180g"),
        ("NVIDIA GH200 480GB", 97871, "gh200-96g"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-40g"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-80g"),
        ("NVIDIA L40S", 46068, "l40s-48g"),
        ("NVIDIA L4", 23034, "l4-24g"),
        ("NVIDIA A10G", 23028, "a10g-24g"),
        ("NVIDIA RTX A6000", 49140, "rtxa6000-48g"),
        ("NVIDIA RTX 6000 Ada Generation", 46068, "rtx6000ada-48g"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "rtxpro6000-96g"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx4090-24g"),
        ("NVIDIA GeForce GTX 1080 Ti", 11264, "gtx1080ti-11g"),
        ("GeForce RTX 2080 Ti", 11019, "rtx2080ti-11g"),
        ("Tesla V100-SXM2-32GB", 32510, "v100-32g"),
        ("Tesla P100-PCIE-16GB", 16280, "p100-16g"),
        ("Tesla T4", 15360, "t4-16g"),
        ("NVIDIA GB10", 0, "gb10"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9728, "a100-mig-1g.10gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", 9984, "h100-mig-1g.10gb+me"),
        ("Some New Thing 9", 300 * 1024, "somenewthing9-300g"),
        ("", 0, "gpu"),
        ("显卡", 8192, "gpu-8g"),
    ],
)
def test_a_name_and_its_memory_give_a_type(name: str, mebibytes: int, expected: str) -> None:
    found = normalise(name, mebibytes * MIB)
    assert found.name == expected
    assert found.memory == mebibytes * MIB


def test_types_are_ranked_by_how_big_they_are() -> None:
    ascending = [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9728),
        ("Tesla T4", 15360),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40192),
        ("Tesla V100-SXM2-32GB", 32510),
        ("NVIDIA L40S", 46068),
        ("NVIDIA A100-SXM4-40GB", 40960),
        ("NVIDIA A100-SXM4-80GB", 81920),
        ("NVIDIA H100 80GB HBM3", 81559),
        ("NVIDIA H200", 143771),
        ("NVIDIA B200", 183359),
    ]
    ranks = [normalise(name, mebibytes * MIB).rank for name, mebibytes in ascending]
    assert ranks == sorted(set(ranks))


def test_unknown_types_are_ranked_by_memory() -> None:
    assert normalise("X1", 24 << 30).rank < normalise("Y2", 80 << 30).rank
