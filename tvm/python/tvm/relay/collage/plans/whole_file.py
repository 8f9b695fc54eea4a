# SPDX-License-Identifier: Apache-2.0
"""The model's original file as a plan: one node, which a backend that reads the file runs.

Precondition: the module was compared with the file (plans/original/). Test: importer/test_whole.py
"""

from __future__ import annotations

import logging
import os
from typing import Any

import tvm

from ..errors import ModelError, PlacementError
from ..importer.whole import MOST_BYTES, digest_of, load_onnx, whole
from ..options.named import option
from ..relay_util.external import on_one_thread
from ..relay_util.walk import tensors_of
from .placement import Placement
from .request import Request

_logger = logging.getLogger(__name__)

# Bytes of the largest file that is a plan: planning takes seconds for what it gains less in.
_LARGEST_PLANNED = 1 << 25


def add_originals(request: Request) -> None:
    """Add plans that run the model's file as it is, where its outputs are known."""
    if request.original is None or request.original.truth is None:
        return
    try:
        made = whole_of(request.original.model, request.prepared, _LARGEST_PLANNED)
    except ModelError as error:
        _logger.info("no plan runs the model's file itself: %s", error)
        return
    request.plans.add_originals(made, digest_of(made))


def replayed_original(request: Request, placement: Placement) -> tvm.IRModule:
    """Return the module of a placement of the model's file. PlacementError where that is another,
    or none is given."""
    if request.original is None:
        raise PlacementError(
            f"plan {placement.plan} runs the model's file: name that by "
            + option("original", "the argument or option original")
        )
    try:
        made = whole_of(request.original.model, request.prepared)
    except ModelError as error:
        raise PlacementError(
            f"plan {placement.plan} cannot run the model's file: {error}"
        ) from None
    if digest_of(made) != placement.original:
        raise PlacementError(
            f"plan {placement.plan} was made for another file of the model", "module"
        )
    backends = [part.backend for function in placement.functions for part in function.parts]
    if not backends:
        raise PlacementError(f"plan {placement.plan} has no part that says what runs the file")
    mod = request.plans.original_on(made, backends[0])
    if not isinstance(mod, tvm.IRModule):
        why = mod.Summary() if mod else f"{backends[0]} does not take it"
        raise PlacementError(f"plan {placement.plan} cannot run the model's file: {why}")
    return on_one_thread(mod) if placement.one_thread else mod


def whole_of(model: Any, mod: tvm.IRModule, most_bytes: int = MOST_BYTES) -> tvm.IRModule:
    """Return a module of one node that computes the ONNX file or ModelProto from which `mod` was
    imported, of the same inputs and results. ModelError says why there is none, as for a model of
    more bytes."""
    if isinstance(model, (str, os.PathLike)):
        model = load_onnx(model)
    params, results = mod["main"].params, tensors_of(mod["main"].ret_type)
    inputs = {p.name_hint: p.checked_type for p in params}
    return whole(model, inputs, results, most_bytes=most_bytes)
