# SPDX-License-Identifier: Apache-2.0
"""Writes a net of the zoo as an ONNX file; the same seed gives the same weights.

It runs in an environment with torch (requirements-zoo.txt), where tvm need not be. Test:
bench/test_zoo.py.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch

from .nets import NETS, Row

# Newer opsets have operators that TVM 0.19 does not know.
_OPSET = 17
# torch's exporter by tracing lacks operators that these need: they take the one by torch.export.
_BY_GRAPH = ("transformers",)


class Net(torch.nn.Module):
    """A model whose inputs are tensors by position and whose outputs are a tuple of tensors."""

    def __init__(self, model: torch.nn.Module, names: list[str] | None) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        given = [first] if second is None else [first, second]
        if self.names is None:
            found = self.model(*given)
        else:
            found = self.model(**dict(zip(self.names, given)))
        return tuple(_tensors(found))


class Features(torch.nn.Module):
    """A detector's backbone and head: without the resizing of images and the choice of boxes."""

    def __init__(self, detector: torch.nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, images: torch.Tensor) -> Any:
        return self.head(list(self.backbone(images).values()))


def _tensors(found: Any) -> list[torch.Tensor]:
    """Return all tensors in an answer, in order."""
    if isinstance(found, torch.Tensor):
        return [found]
    if hasattr(found, "values"):
        found = found.values()
    if isinstance(found, (str, int, float)) or found is None:
        return []
    return [tensor for item in found for tensor in _tensors(item)]


def _declare_vision_operators() -> None:
    """Declare two operators of torchvision: PyPI's is built for CUDA, so its own do not load beside
    a torch for CPUs. The nets use none of them, but importing it, as timm does, needs these two
    declared."""
    if not hasattr(torch.ops.torchvision, "nms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", schema)


def _of_timm(row: Row, size: int) -> torch.nn.Module:
    import timm

    return timm.create_model(row.make, exportable=True, **row.settings_for(size))


def _of_torchvision(row: Row, size: int) -> torch.nn.Module:
    import torchvision

    weights: dict[str, Any] = {"weights": None}
    if "/" in row.make and not row.make.startswith("video/"):
        weights["weights_backbone"] = None
    name = row.make.rpartition("/")[2]
    model = torchvision.models.get_model(name, **weights, **row.settings_for(size))
    return Features(model) if row.make.startswith("detection/") else model


def _of_transformers(row: Row, size: int) -> torch.nn.Module:
    import transformers

    name, _, part = row.make.partition(":")
    kind = getattr(transformers, name)
    configuration = kind.config_class(**row.settings_for(size))
    configuration._attn_implementation = "eager"
    configuration.use_cache = False
    model = kind(configuration)
    return getattr(model, part) if part else model


def _of_torch(row: Row, size: int) -> torch.nn.Module:
    from .torch_nets import BUILDERS

    return BUILDERS[row.make](size)


_MAKERS = {
    "timm": _of_timm,
    "torchvision": _of_torchvision,
    "transformers": _of_transformers,
    "torch": _of_torch,
}


def _enliven(model: torch.nn.Module) -> None:
    """Make numbers random that are all alike at the start: a scale of zero or statistics of nothing
    would fold a whole branch away, or hide a wrong result."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if (
            value.is_floating_point()
            and value.numel() > 1
            and bool((value == value.flatten()[0]).all())
        ):
            is_spread = name.endswith(("weight", "running_var", "gamma", "alpha", "lambda"))
            noise = (
                torch.rand_like(value) * 0.5 + 0.5 if is_spread else torch.randn_like(value) * 0.1
            )
            value.data.copy_(noise)


def export(name: str, size: int, batch: int, seed: int, file: str) -> None:
    """Write a net; whatever torch or the package raises where it cannot."""
    row = NETS[name]
    _declare_vision_operators()
    # The quick path of torch's own transformer layer is one operator that ONNX lacks.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(seed)
    model = _MAKERS[row.package](row, size).eval()
    _enliven(model)
    limits = row.limits()
    inputs = tuple(
        torch.randint(0, limits[name], shape) if name in limits else torch.randn(shape)
        for name, shape in row.shapes(size, batch).items()
    )
    names = list(row.shapes(size, batch))
    net = Net(model, names if row.package == "transformers" else None).eval()
    temporary = Path(file).with_suffix(".tmp")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if row.package in _BY_GRAPH:
            program = torch.onnx.export(
                net, inputs, input_names=names, dynamo=True, opset_version=18, verbose=False
            )
            program.save(str(temporary), external_data=False)
        else:
            torch.onnx.export(
                net, inputs, str(temporary), input_names=names, dynamo=False, opset_version=_OPSET
            )
    os.replace(temporary, file)
