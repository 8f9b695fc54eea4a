# SPDX-License-Identifier: Apache-2.0
"""Tiny nets in files, and `collage tt` run on them."""

import json

import numpy as np
import onnx
import onnx_nets
from onnx import helper
from tvm_collage.cli import main

SHAPE = ["--target", "llvm -mcpu=x86-64-v2 -num-cores=2"]


def net(path, size, shape=None):
    """A 3x3 convolution with its bias and relu."""
    weights = onnx_nets.Weights()
    weights.add("w", 16, 16, 3, 3)
    weights["b"] = np.ones(16, "float32")
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    given = shape or (1, 16, size, size)
    made = onnx_nets.model(nodes, [("x", given)], [("z", given)], weights)
    onnx.save(made, path)
    return str(path)


def answer(capsys, *arguments, code=0):
    assert main(["tt", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out, parse_constant=no_number)


def no_number(text):
    raise ValueError(f"{text} is no JSON")
