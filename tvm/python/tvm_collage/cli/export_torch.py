# SPDX-License-Identifier: Apache-2.0
"""The nets that the paper transfers between, by torchvision and transformers, as an ONNX file.

Run as a program (export_torch.py NAME BATCH FILE) it needs no TVM, and nothing of Collage.
Test: collage/cli/test_tt_export.py.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

_TOKENS = 128
# Newer opsets have operators that TVM 0.19 does not know.
_OPSET = 17
# What must be there to export them.
NEEDS = "torch, torchvision and transformers"
# By name: the package, its name there, pixels a side (0: tokens).
NETS: dict[str, tuple[str, str, int]] = {
    "resnet18": ("torchvision", "resnet18", 224),
    "resnet50": ("torchvision", "resnet50", 224),
    "alexnet": ("torchvision", "alexnet", 224),
    "vgg16": ("torchvision", "vgg16", 224),
    "mobilenetv2": ("torchvision", "mobilenet_v2", 224),
    "efficientnet_b0": ("torchvision", "efficientnet_b0", 224),
    "efficientnet_b4": ("torchvision", "efficientnet_b4", 380),
    "googlenet": ("torchvision", "googlenet", 224),
    "mnasnet": ("torchvision", "mnasnet1_0", 224),
    "bert": ("transformers", "BertModel", 0),
    "mobilebert": ("transformers", "MobileBertModel", 0),
}


def _declare_operators() -> None:
    """Declare what is missing: PyPI's torchvision is built for CUDA: beside a torch for CPUs its
    own operators do not load. The nets use none of them, but its import, by transformers too, needs
    these to be declared."""
    import torch

    if not hasattr(torch.ops.torchvision, "nms"):
        for operator in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", schema)


def _of_torchvision(name: str) -> Any:
    import torchvision

    more = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    return torchvision.models.get_model(name, weights=None, **more)


def _of_transformers(name: str) -> Any:
    import transformers

    kind = getattr(transformers, name)
    settings = kind.config_class()
    settings._attn_implementation = "eager"  # what the exporter knows
    return kind(settings)


def export(name: str, batch: int, file: str) -> None:
    """Write a net at once or not at all; whatever torch or the package raises where it cannot."""
    import torch

    _declare_operators()
    torch.manual_seed(0)
    package, kind, pixels = NETS[name]
    make = _of_torchvision if package == "torchvision" else _of_transformers
    net = make(kind).eval()
    if pixels:
        names, inputs = ["image"], (torch.randn(batch, 3, pixels, pixels),)
    else:
        names, inputs = ["input_ids"], (torch.randint(0, 1000, (batch, _TOKENS)),)
    temporary = f"{file}.{os.getpid()}.tmp"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if package == "torchvision":
            torch.onnx.export(
                net, inputs, temporary, input_names=names, dynamo=False, opset_version=_OPSET
            )
        else:  # which the exporter by tracing does not know
            program = torch.onnx.export(
                net, inputs, input_names=names, dynamo=True, opset_version=18, verbose=False
            )
            program.save(temporary, external_data=False)
    os.replace(temporary, file)


if __name__ == "__main__":
    export(sys.argv[1], int(sys.argv[2]), sys.argv[3])
