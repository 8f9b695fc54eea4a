# SPDX-License-Identifier: Apache-2.0
"""Nets to measure on: built as ONNX models with seeded random weights and checked against the
published counts, and real ones. `<net>_int8`,
`<net>_fp16` and `<net>_bf16` are an image net in 8 bits, float16, bfloat16 (low_precision.py), and
`chain:1000` and the like are synthetic (synthetic.py).

Test: bench/test_models.py.
"""

from __future__ import annotations

from typing import Any

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
    vit,
    yolo,
)
from .low_precision import LOW_PRECISION, in_low_precision
from .net import Net, random_inputs, save
from .relay_import import to_relay
from .synthetic import SIZED, find_synthetic

__all__ = [
    "LOW_PRECISION",
    "NETS",
    "SIZED",
    "Net",
    "find",
    "random_inputs",
    "relay_of",
    "save",
    "to_relay",
]

_FAMILIES = (
    resnet,
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
    """Find nets by names, separated by commas, in low precision and synthetic too; "all" is all of
    NETS.

    ValueError names unknown ones.
    """
    if names == "all":
        return list(NETS.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    found = {name: _find_one(name) for name in wanted}
    unknown = [name for name in wanted if found[name] is None]
    if unknown or not wanted:
        what = f"unknown net {', '.join(unknown)}" if unknown else "no net named"
        others = [*(f"<net>_{kind}" for kind in LOW_PRECISION), *(f"{kind}:100" for kind in SIZED)]
        raise ValueError(f"{what}: choose of {', '.join(NETS)}; {', '.join(others)}, two_inputs")
    return [found[name] for name in wanted]


def relay_of(name: str) -> Any:
    """Module and parameters of a net of batch 1."""
    (net,) = find(name)
    return to_relay(net.build(1))


def _find_one(name: str) -> Net | None:
    """Find the net of that name, one in low precision or a synthetic one; None for none of
    these."""
    base, _, kind = name.rpartition("_")
    if name in NETS or base not in NETS or kind not in LOW_PRECISION:
        return NETS.get(name) or find_synthetic(name)
    return in_low_precision(NETS[base], kind)
