# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models with random weights, one for each thing that importers make of Relay."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 13


def model(nodes, inputs, outputs, weights=(), opset=OPSET, is_checked=True):
    """A model, checked unless it is wrong on purpose; inputs and outputs are (name, shape[, element
    type]), weights name: array.

    A dimension is a number or, where it is dynamic, a name.
    """
    graph = helper.make_graph(
        nodes,
        "net",
        [_value(*item) for item in inputs],
        [_value(*item) for item in outputs],
        [numpy_helper.from_array(array, name) for name, array in dict(weights).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    if is_checked:
        onnx.checker.check_model(made)
    return made


def _value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


class Weights(dict):
    """Random float32 arrays by name, small so that deep nets stay near one."""

    def __init__(self, seed=0):
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def add(self, name, *shape):
        self[name] = (self.rng.standard_normal(shape) * 0.3).astype("float32")
        return name


def conv_net(batch=1):
    """Convolution, batch norm, residual, pooling, dense, softmax."""
    w = Weights()
    w.add("w1", 8, 3, 3, 3), w.add("b1", 8), w.add("w2", 8, 8, 3, 3)
    for name in ("scale", "bias", "mean"):
        w.add(name, 8)
    w["var"] = np.abs(w.rng.standard_normal(8)).astype("float32") + 0.5
    w.add("fc", 10, 8), w.add("fc_b", 10)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "scale", "bias", "mean", "var"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["s"]),
        node("Relu", ["s"], ["r2"]),
        node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "fc", "fc_b"], ["d"], transB=1),
        node("Softmax", ["d"], ["y"]),
    ]
    return model(nodes, [("x", [batch, 3, 16, 16])], [("y", [batch, 10])], w)


def attention(length=6, width=16, heads=2):
    """A transformer block: attention with a mask, layer norm written out, GELU."""
    w = Weights()
    depth = width // heads
    for name in ("wq", "wk", "wv", "wo"):
        w.add(name, width, width)
    w.add("up", width, 4 * width), w.add("down", 4 * width, width)
    w.add("gain", width), w.add("shift", width)
    w["split"] = np.array([0, 0, heads, depth], "int64")
    w["join"] = np.array([0, 0, width], "int64")
    w["scale"] = np.array(depth**-0.5, "float32")
    for name, value in (("eps", 1e-5), ("half", 0.5), ("one", 1.0), ("root2", 2**0.5)):
        w[name] = np.array(value, "float32")
    node = helper.make_node
    nodes = []
    for name in "qkv":
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            node("MatMul", ["x", f"w{name}"], [name]),
            node("Reshape", [name, "split"], [f"{name}4"]),
            node("Transpose", [f"{name}4"], [f"{name}t"], perm=perm),
        ]
    nodes += [
        node("MatMul", ["qt", "kt"], ["qk"]),
        node("Mul", ["qk", "scale"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["probs"], axis=-1),
        node("MatMul", ["probs", "vt"], ["mixed"]),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "join"], ["joined"]),
        node("MatMul", ["joined", "wo"], ["out"]),
        node("Add", ["out", "x"], ["residual"]),
        node("ReduceMean", ["residual"], ["mean"], axes=[-1]),
        node("Sub", ["residual", "mean"], ["centred"]),
        node("Mul", ["centred", "centred"], ["squared"]),
        node("ReduceMean", ["squared"], ["variance"], axes=[-1]),
        node("Add", ["variance", "eps"], ["safe"]),
        node("Sqrt", ["safe"], ["deviation"]),
        node("Div", ["centred", "deviation"], ["unit"]),
        node("Mul", ["unit", "gain"], ["gained"]),
        node("Add", ["gained", "shift"], ["normed"]),
        node("MatMul", ["normed", "up"], ["wide"]),
        node("Div", ["wide", "root2"], ["over"]),
        node("Erf", ["over"], ["erf"]),
        node("Add", ["erf", "one"], ["erf1"]),
        node("Mul", ["wide", "erf1"], ["gate"]),
        node("Mul", ["gate", "half"], ["gelu"]),
        node("MatMul", ["gelu", "down"], ["narrow"]),
        node("Add", ["narrow", "normed"], ["y"]),
    ]
    inputs = [("x", [1, length, width]), ("mask", [1, 1, length, length])]
    return model(nodes, inputs, [("y", [1, length, width])], w)


def lstm(length=4, width=6, hidden=5, **attrs):
    w = Weights()
    w.add("w", 1, 4 * hidden, width), w.add("r", 1, 4 * hidden, hidden), w.add("b", 1, 8 * hidden)
    w["ends"] = np.array([1], "int64")
    nodes = [
        helper.make_node(
            *("LSTM", ["x", "w", "r", "b"], ["seq", "last", "cell"]), hidden_size=hidden, **attrs
        ),
        helper.make_node("Squeeze", ["seq", "ends"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    outputs = [("y", [length, 1, hidden]), ("last", [1, 1, hidden])]
    return model(nodes, [("x", [length, 1, width])], outputs, w)


def branch():
    """If over a number that only the input tells."""
    node = helper.make_node

    def graph(name, op):
        nodes = [node("Conv", ["x", "w"], [f"c_{name}"]), node(op, [f"c_{name}"], [f"o_{name}"])]
        return helper.make_graph(nodes, name, [], [_value(f"o_{name}", [1, 4, 6, 6])])

    w = Weights()
    w.add("w", 4, 3, 3, 3)
    w["zero"] = np.array(0, "float32")
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["positive"]),
        node(
            "If",
            ["positive"],
            ["y"],
            then_branch=graph("then", "Relu"),
            else_branch=graph("else", "Neg"),
        ),
    ]
    return model(nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])], w)


def loop(width=8):
    """A dense layer applied as often as an input says."""
    node = helper.make_node
    body = helper.make_graph(
        [
            node("MatMul", ["state", "w"], ["dense"]),
            node("Relu", ["dense"], ["next"]),
            node("Identity", ["go_on"], ["still"]),
        ],
        "body",
        [_value("i", [], TensorProto.INT64), _value("go_on", [], TensorProto.BOOL)]
        + [_value("state", [2, width])],
        [_value("still", [], TensorProto.BOOL), _value("next", [2, width])],
    )
    w = Weights()
    w.add("w", width, width)
    w["yes"] = np.array(True)
    nodes = [
        node("Loop", ["count", "yes", "x"], ["end"], body=body),
        node("Softmax", ["end"], ["y"]),
    ]
    inputs = [("count", [], TensorProto.INT64), ("x", [2, width])]
    return model(nodes, inputs, [("y", [2, width])], w)


def shape_arithmetic(batch="batch"):
    """Flatten as exporters write it: shapes taken apart and put together as int64."""
    w = Weights()
    w.add("w", 4, 3, 3, 3), w.add("fc", 144, 5)
    w["first"], w["minus"] = np.array(0, "int64"), np.array([-1], "int64")
    w["axis"] = np.array([0], "int64")
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Shape", ["r"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "minus"], ["to"], axis=0),
        node("Reshape", ["r", "to"], ["flat"]),
        node("MatMul", ["flat", "fc"], ["y"]),
    ]
    return model(nodes, [("x", [batch, 3, 8, 8])], [("y", [batch, 5])], w)


def several_outputs():
    """Split into pieces, one of them twice an output, one input untouched, one unused."""
    w = Weights()
    w["sizes"] = np.array([2, 6], "int64")
    node = helper.make_node
    nodes = [
        node("Split", ["x", "sizes"], ["a", "b"], axis=1),
        node("Relu", ["b"], ["r"]),
        node("Identity", ["r"], ["again"]),
        node("Concat", ["a", "r", "a"], ["joined"], axis=1),
    ]
    inputs = [("x", [2, 8]), ("unused", [3])]
    outputs = [("r", [2, 6]), ("again", [2, 6]), ("joined", [2, 10])]
    return model(nodes, inputs, outputs, w)
