# SPDX-License-Identifier: Apache-2.0
"""Layer normalization: the spellings that become one primitive, and look-alikes that do not."""

import numpy as np
import pytest
import tvm
from onednn_nets import check_all, constant, function_of, hand_placed, table_composites, var
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError, greedy_partition
from tvm.relay.collage.backends.dnnl.codegen import lower_function

nn = relay.nn
ROWS, COLUMNS = (2, 5), 12
EPSILON = relay.const(1e-5)
X = var("x", *ROWS, COLUMNS)


def mean_of(x, axis=-1):
    return relay.mean(x, axis=[axis], keepdims=True)


def centred(x, axis=-1):
    return x - mean_of(x, axis)


def variance_op(x, axis=-1, **attrs):
    return relay.variance(x, axis=[axis], keepdims=True, **attrs)


def normalised(x, axis=-1):
    return centred(x, axis) / relay.sqrt(variance_op(x, axis) + EPSILON)


def nn_layer_norm(x):
    """As SimplifyInference writes nn.layer_norm, but for scale and shift."""
    mean = mean_of(x)
    variance = relay.variance(x, axis=[-1], keepdims=True, with_mean=mean)
    return (x - mean) / relay.sqrt(variance + EPSILON)


def over_the_root(x):
    """As TVM imports ONNX's LayerNormalization."""
    return relay.const(1.0) / relay.sqrt(variance_op(x) + EPSILON) * centred(x)


def by_squares(square):
    difference = centred(X)
    return difference / relay.sqrt(EPSILON + mean_of(square(difference)))


def scaled(value, columns=COLUMNS):
    return value * constant(1, columns) + constant(2, columns)


FOUND = {
    "as_tvm_writes_it": scaled(normalised(X)),
    "without_scale_and_shift": normalised(X),
    "scale_alone": constant(1, COLUMNS) * normalised(X),
    "shift_alone": normalised(X) + constant(2, 1, 1, COLUMNS),
    "mean_of_squares": scaled(by_squares(lambda d: d * d)),
    "power_of_two": scaled(by_squares(lambda d: relay.power(d, relay.const(2.0)))),
    "reciprocal_root": scaled(centred(X) * relay.rsqrt(variance_op(X) + EPSILON)),
    "one_over_the_root": scaled(over_the_root(X)),
    "scale_of_the_caller": normalised(X) * var("s", COLUMNS) + var("b", COLUMNS),
}
Y = var("y", *ROWS, COLUMNS)
NOT_FOUND = {
    "another_axis": normalised(X, axis=1),
    "variance_of_another": centred(X) / relay.sqrt(variance_op(Y) + EPSILON),
    "mean_of_another": (X - mean_of(Y)) / relay.sqrt(variance_op(X) + EPSILON),
    "cubes": by_squares(lambda d: relay.power(d, relay.const(3.0)) + relay.const(50.0)),
    "two_over_the_root": relay.const(2.0) / relay.sqrt(variance_op(X) + EPSILON) * centred(X),
    "second_moment": X / relay.sqrt(mean_of(X * X) + EPSILON),
}


def lowered(body):
    return [n.op for n in lower_function(hand_placed(function_of(body))["dnnl_part"]).nodes]


READ_ELSEWHERE = normalised(X)
LARGE = np.random.default_rng(0).standard_normal((*ROWS, COLUMNS)).astype("float32") + 1e3
# Of which a part is a norm: its primitives.
AROUND = {
    "what is read elsewhere is kept": (relay.exp(READ_ELSEWHERE) + scaled(READ_ELSEWHERE), None),
    "a shift before the scale": (
        (normalised(X) + constant(2, COLUMNS)) * constant(1, COLUMNS), ["layer_norm", "binary"],
    ),
    "a shift of rows": (normalised(X) + constant(2, ROWS[1], 1), ["layer_norm", "binary"]),
    "one number": (normalised(X) * relay.const(2.0), ["layer_norm", "eltwise"]),
    # The variance is that of the differences, not a difference of squares.
    "large values": (scaled(normalised(nn.relu(X + relay.const(LARGE)))), None),
    "of two results": (relay.Tuple([scaled(normalised(X)), mean_of(X)]), None),
}  # fmt: skip
SINGLE = NOT_FOUND | {
    "variance": variance_op(X, 1),
    "variance of two axes": relay.variance(X, axis=[0, 2]),
    # Numbers of axes that the primitive lacks.
    "one axis": normalised(var("x", 6)),
    "six axes": normalised(var("x", 1, 2, 1, 2, 1, 6)),
}


def test_spellings_become_one_primitive():
    for name, plan in check_all(FOUND).items():
        assert lowered(FOUND[name]) == ["layer_norm"]
        assert "layer_norm" in plan and "ref:" not in plan and "binary" not in plan, name


def test_look_alikes_stay_single_ops():
    assert all("layer_norm" not in lowered(body) for body in SINGLE.values())
    check_all(SINGLE)


def test_what_surrounds_a_norm_is_none_of_it():
    for body, ops in AROUND.values():
        assert lowered(body).count("layer_norm") == 1 and ops in (None, lowered(body))
    check_all({name: body for name, (body, _) in AROUND.items()})


def test_a_column_of_more_axes_than_the_rows_is_not_the_norms():
    """The result has an axis more, which the primitive's has not."""
    rows = normalised(var("x", ROWS[1], COLUMNS))
    assert lowered(rows * constant(1, 1, COLUMNS)) == ["layer_norm"]
    with pytest.raises(UnsupportedOpError, match="multiply: shape of the first operand"):
        lowered(rows * constant(1, 1, 1, COLUMNS))


def test_unbiased_variance_stays_on_tvm():
    mod = tvm.IRModule.from_expr(function_of(variance_op(X, unbiased=True)))
    assert "variance" in greedy_partition(relay.transform.InferType()(mod), "dnnl")["main"].astext()


def test_the_pattern_table_has_it_as_one_composite():
    assert table_composites(scaled(normalised(X))) == ["dnnl.layer_norm"]
    assert table_composites(scaled(nn_layer_norm(X))) == ["dnnl.layer_norm"]
    assert table_composites(scaled(over_the_root(X))) == ["dnnl.layer_norm"]
    assert "dnnl.layer_norm" not in table_composites(scaled(NOT_FOUND["another_axis"]))
    assert "dnnl.layer_norm" not in table_composites(scaled(NOT_FOUND["two_over_the_root"]))
    assert "dnnl.layer_norm" not in table_composites(scaled(NOT_FOUND["variance_of_another"]))
