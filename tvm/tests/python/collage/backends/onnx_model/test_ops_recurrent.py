# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers are written as ONNX's own nodes, their inputs' products within."""

import numpy as np
import onnx
import pytest
from onnx_cases import arrays, f, layer, typed
from onnx_one_node import by_onnxruntime
from tvm import relay
from tvm.relay.collage.backends.onnx_model import export_function
from tvm.relay.collage.ops import KINDS

pytest.importorskip("onnxruntime")

# Steps, batch and units as onnx_cases.layer has them; the width of the inputs is another one.
STEPS, BATCH, UNITS, WIDTH = 4, 2, 3, 5


def const(*shape, seed=1):
    return relay.const(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def layer_of(kind, projected, direction="forward", lengths=STEPS, **settings):
    """A layer with constants for all but the projected inputs."""
    types, build = layer(kind, direction, **settings)
    shapes = [shape for _, shape in types]
    zeros = [relay.const(np.zeros(shape, "float32")) for shape in shapes[4:]]
    steps = relay.const(np.full(BATCH, lengths, "int32"))
    rows = relay.reshape(projected, shapes[0])
    return build(rows, const(*shapes[1], seed=2), const(*shapes[2], seed=3), steps, *zeros)


def constant_layer(kind, project, direction="forward", lengths=STEPS, **settings):
    """A function of x (STEPS, BATCH, WIDTH): the layer of what `project` makes of its rows."""
    _, _, directions, width = layer(kind, direction, **settings)[0][0][1]

    def function(x):
        rows = project(relay.reshape(x, (STEPS * BATCH, WIDTH)), directions * width)
        return layer_of(kind, rows, direction, lengths, **settings)

    return typed([f(STEPS, BATCH, WIDTH)], function)


def dense(rows, columns):
    return relay.nn.dense(rows, const(columns, WIDTH))


def biased(rows, columns):
    return relay.nn.bias_add(dense(rows, columns), const(columns, seed=4))


def exported(function):
    """The nodes that are written; they give what the function written call by call gives."""
    model = export_function(function)
    onnx.checker.check_model(model)
    return model, [node for node in model.graph.node if node.op_type != "Identity"]


@pytest.mark.parametrize("project", [dense, biased])
@pytest.mark.parametrize(
    "kind, direction, settings",
    [
        ("LSTM", "bidirectional", {}),
        ("GRU", "reverse", {"linear_before_reset": True}),
        ("RNN", "forward", {"activations": ("Relu",)}),
    ],
)
def test_a_layer_and_its_projection_are_one_node(kind, direction, settings, project):
    model, nodes = exported(constant_layer(kind, project, direction, **settings))
    assert [node.op_type for node in nodes] == [kind]
    assert len(nodes[0].input) == 4  # states at the start that are 0 are left out
    (x,) = arrays([f(STEPS, BATCH, WIDTH)])
    # In two pieces, with the identity as the weights of the layer's inputs.
    shape = layer(kind, direction, **settings)[0][0][1]
    front = typed([f(*shape)], lambda p: layer_of(kind, p, direction, **settings))
    by_hand, nodes_by_hand = exported(front)
    assert nodes_by_hand[-1].op_type == kind
    columns = shape[2] * shape[3]
    rows = x.reshape(-1, WIDTH) @ const(columns, WIDTH).data.numpy().T
    if project is biased:
        rows = rows + const(columns, seed=4).data.numpy()
    (found, *_), (wanted, *_) = (
        by_onnxruntime(model, [x]), by_onnxruntime(by_hand, [rows.reshape(shape)]),
    )  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_projection_that_others_use_stays():
    def function(x):
        rows = biased(relay.reshape(x, (STEPS * BATCH, WIDTH)), UNITS)
        return relay.Tuple([layer_of("RNN", rows), rows])

    _, nodes = exported(typed([f(STEPS, BATCH, WIDTH)], function))
    assert sorted(n.op_type for n in nodes if n.op_type != "Reshape") == ["Gemm", "RNN"]


def test_a_factor_between_stays_in_front():
    def scaled(rows, columns):
        return dense(rows, columns) * const(STEPS * BATCH, 1)

    _, nodes = exported(constant_layer("GRU", scaled))
    assert [n.op_type for n in nodes if n.op_type != "Reshape"] == ["Gemm", "Mul", "GRU"]


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_written_where_they_are_not_all_steps(kind):
    _, nodes = exported(constant_layer(kind, dense, lengths=STEPS - 1))
    assert nodes[-1].input[4]
