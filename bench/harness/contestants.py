# SPDX-License-Identifier: Apache-2.0
"""Contestants of measure.compare that a benchmark has beside those of the package: PyTorch's
compiler, stock TVM, onnxruntime as a program calls it. Test: bench/test_peers.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.measure import Contestant, peers
from tvm.relay.collage.measure.peers import (
    Peer,
    Runnable,
    arrays_of,
    open_session,
    untouched_variables,
)

from .served import stock_library

PEERS = {**peers.PEERS, "inductor": Peer("inductor", "torch", f"{__name__}:inductor_model")}


def stock(name: str, library: str, inputs: str, environment: Mapping[str, str]) -> Contestant:
    """A library on stock TVM, in a process that has the variables of whoever has no Collage."""
    arguments = {"library": library, "inputs": inputs}
    variables = {**environment, **untouched_variables()}
    return Contestant(name, path_of(stock_library), arguments, variables)


def onnxruntime_called(model: str, inputs: str, threads: int) -> Any:
    """onnxruntime as its `run` is called, with arrays and for arrays."""
    session = open_session(model, threads)
    values = arrays_of(inputs)
    return Runnable(lambda: session.run(None, values), lambda answer: answer)


def inductor_model(model: str, inputs: str, threads: int) -> Any:
    """PyTorch's compiler on the net as a torch.fx graph; ValueError for an operator not known.

    Frozen: weights are constants, which it folds and packs once, as every other contestant does.
    """
    import onnx
    import torch
    import torch._inductor.config

    from .torch_import import to_torch

    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    graph = onnx.load(model)
    compiled = torch.compile(to_torch(graph), fullgraph=True, dynamic=False)
    values = arrays_of(inputs)
    tensors = [torch.from_numpy(values[name]) for name in values]

    def run() -> Any:
        with torch.no_grad():
            return compiled(*tensors)

    return Runnable(run, lambda answer: [item.numpy() for item in answer])
