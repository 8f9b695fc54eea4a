# SPDX-License-Identifier: Apache-2.0
"""Nets to measure on: built as ONNX models with seeded random weights and checked against the
published counts, and real ones. `python -m bench.models --list` prints them.

Test: tvm/tests/python/collage/test_bench_models.py.
"""

from __future__ import annotations

from . import (
    bert,
    dcgan,
    densenet,
    gpt2,
    inception,
    mobilenet,
    nasnet,
    nasrnn,
    ppocr,
    resnet,
    resnet3d,
    vit,
    yolo,
)
from .count import Counts, count
from .net import Net, random_inputs
from .relay_import import to_relay

__all__ = ["NETS", "Counts", "Net", "count", "find", "random_inputs", "to_relay"]

_FAMILIES = (
    resnet,
    resnet3d,
    mobilenet,
    nasnet,
    nasrnn,
    dcgan,
    bert,
    gpt2,
    vit,
    yolo,
    inception,
    densenet,
    ppocr,
)
NETS: dict[str, Net] = {net.name: net for family in _FAMILIES for net in family.NETS}


def find(names: str) -> list[Net]:
    """Nets by names, separated by commas; "all" is all of them. ValueError names unknown ones."""
    if names == "all":
        return list(NETS.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in NETS]
    if unknown or not wanted:
        what = f"unknown net {', '.join(unknown)}" if unknown else "no net named"
        raise ValueError(f"{what}: choose of {', '.join(NETS)}")
    return [NETS[name] for name in wanted]
