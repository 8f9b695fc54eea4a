# SPDX-License-Identifier: Apache-2.0
"""Relay -> ONNX, op by op: onnxruntime's results, and those of parts, against TVM's; and what is
refused."""

import itertools

import numpy as np
import onnx
import pytest
import tvm
from onnx_cases import (
    CASES,
    arrays,
    cases_together,
    f,
    halved,
    i,
    nn,
    results_of_tvm,
    run_part,
    typed,
    variables,
)
from onnx_one_node import by_onnxruntime
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError, get_backend
from tvm.relay.collage.backends.onnx_model import EXPORTED_OPS, export_function, why_not_exported
from tvm.relay.collage.backends.onnx_model.builder import GraphBuilder
from tvm.relay.collage.backends.onnx_model.ops_opaque import OPAQUE
from tvm.relay.collage.backends.onnx_model.ops_quantised import QUANTISED
from tvm.relay.collage.relay_util.walk import nodes_of

pytest.importorskip("onnxruntime")


# Name -> (types, function, what the refusal names).
REFUSED = {
    "unknown op": ([f(2, 3)], relay.round, "round: the op is not in its table"),
    "dtype": ([("float64", (2, 3))], relay.exp, "dtype=float64"),
    "bytes": ([("int8", (2, 3)), ("int8", (4, 3))], nn.dense, "dtype=int8"),
    "to bytes": ([f(2, 3)], lambda x: relay.cast(x, "int8"), "dtype=int8"),
    "blocked": (
        [f(1, 1, 4, 4, 8), f(1, 1, 1, 1, 8, 8)],
        lambda x, w: nn.conv2d(
            *(x, w), data_layout="NCHW8c", kernel_layout="OIHW8i8o", channels=8,
            kernel_size=(1, 1),
        ),
        "data_layout=NCHW8c",
    ),
    "avg_pool ceil": (
        [f(1, 1, 5, 5)],
        lambda x: nn.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=True),
        "ceil_mode=1",
    ),
    "depth_to_space of channels that are cut": (
        [f(1, 6, 4, 4)], lambda x: relay.nn.depth_to_space(x, 2), "block_size=2",
    ),
    "space_to_depth of rows that are cut": (
        [f(1, 3, 5, 6)], lambda x: relay.nn.space_to_depth(x, 2), "block_size=2",
    ),
    "a layout in blocks": (
        [f(1, 1, 4, 4, 4)],
        lambda x: relay.image.resize2d(x, (8, 8), layout="NCHW4c"),
        "layout=NCHW4c",
    ),
    "uneven": (
        [f(1, 1, 5, 5)], lambda x: nn.adaptive_avg_pool2d(x, (2, 2)), "output_size=[2, 2]",
    ),
    "take mode": (
        [f(4), i("int32", 4, 2)], lambda x, j: relay.take(x, j, mode="wrap"), "mode=wrap",
    ),
    "cubic": (
        [f(1, 1, 4, 4)], lambda x: relay.image.resize2d(x, (8, 8), method="cubic"), "method=cubic",
    ),
    "halfway": (
        [f(1, 1, 6, 6)],
        lambda x: relay.image.resize2d(
            *(x, (9, 9)), method="nearest_neighbor", rounding_method="round",
            coordinate_transformation_mode="half_pixel",
        ),
        "rounding_method='round' of [6, 6] to [9, 9]",
    ),
    "one corner": (
        [f(1, 1, 4, 4)],
        lambda x: relay.image.resize2d(x, (1, 4), coordinate_transformation_mode="align_corners"),
        "size=[1, 4]",
    ),
    "a pool's last window": (
        [f(1, 1, 5, 5)],
        lambda x: nn.max_pool2d(x, 2, 3, padding=1, ceil_mode=True),
        "ceil_mode=1",
    ),
    "letters that TVM does not read": (
        [f(1, 4, 5, 5), f(4, 4, 3, 3)],
        lambda x, w: nn.conv2d_transpose(
            x, w, channels=4, kernel_size=(3, 3), kernel_layout="OIHW"
        ),
        "kernel_layout=OIHW",
    ),
    "ends left out": (
        [f(5, 6)], lambda x: relay.strided_slice(x, [1, 2], [4]), "numbers of begin and end=1",
    ),
    "strides left out": (
        [f(5, 6)], lambda x: relay.strided_slice(x, [1, 2], [4, 6], [2]), "number of strides=1",
    ),
    "where of bools": (
        [("bool", (2,)), ("bool", (2,)), ("bool", (2,))], relay.where, "dtype=bool",
    ),
    "empty": ([f(0, 3)], relay.exp, "is empty"),
    "logical of ints": (
        [i("int32", 3, 2)], lambda x: relay.power(x, x), "dtype=int32",
    ),
}  # fmt: skip


def test_the_model_of_every_op_is_one_of_onnx():
    function, _ = cases_together({name: types for name, (types, _) in CASES.items()})
    onnx.checker.check_model(export_function(function), full_check=True)


# Cases that an operator of float32 inside makes float32's alone.
OF_FLOAT32 = {
    *("gru", "gru linear_before_reset", "lstm", "lstm's cell", "rnn"),
    *("cast", "cast bool", "full", "zeros and ones"),
}
# OpenVINO's quotients of integers are not TVM's, nor are its means.
OF_TVM = {"onnxruntime": set(), "openvino": {"divide int", "mean int"}}


def _is_taken(backend, name, types):
    """Whether the predicates take the case; all of it or nothing is TVM's."""
    try:
        function = typed(types, CASES[name][1])
    except tvm.TVMError:
        return False  # it holds float32 by itself
    predicates = get_backend(backend).op_predicates
    calls = nodes_of(function.body, relay.Call)
    return all(predicates[call.op.name].with_reason(call) is True for call in calls)


@pytest.mark.parametrize(
    "types_of, others, rtol, atol",
    [(lambda name: CASES[name][0], set(), 1e-4, 1e-5), (halved, OF_FLOAT32, 2e-2, 2e-2)],
    ids=["float32", "float16"],
)
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_every_op_gives_what_it_gives_in_tvm(backend, types_of, others, rtol, atol):
    if reason := get_backend(backend).available():
        pytest.skip(reason)
    taken = {n: types_of(n) for n in CASES if _is_taken(backend, n, types_of(n))}
    assert set(CASES) - set(taken) == OF_TVM[backend] | others
    function, inputs = cases_together(taken)
    results = run_part(backend, function, inputs.values())
    for name, result in zip(taken, results, strict=True):
        expected = results_of_tvm()[name].astype(result.dtype)
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol, err_msg=name)


REDUCTIONS = ["sum", "mean", "max", "min", "prod", "variance"]


@pytest.mark.parametrize(
    "name, keep", [*itertools.product(REDUCTIONS, (False, True)), ("argmax", False)]
)
def test_an_empty_list_of_axes_is_all_axes(name, keep):
    """So says Relay's type; TVM's own kernel reduces none then, and fails when it runs."""
    types = [f(2, 3)]
    model = export_function(typed(types, lambda x: getattr(relay, name)(x, [], keep)))
    (data,) = arrays(types)
    (result,) = by_onnxruntime(model, [data])
    wanted = getattr(np, name.replace("variance", "var"))(data, keepdims=keep)
    assert result.shape == np.shape(wanted)
    np.testing.assert_allclose(result, wanted, rtol=1e-5)


def test_every_op_of_the_table_has_a_case():
    built = [build(*variables(types)) for types, build in CASES.values()]
    seen = {op.name for body in built for op in nodes_of(body, tvm.ir.Op)}
    alike = {"conv1d", "conv3d", "pool1d", "pool3d"}  # one function for 1, 2 and 3 axes
    elsewhere = {*QUANTISED, *OPAQUE}  # test_ops_quantised.py, test_ops_opaque.py
    missing = {
        op for op in EXPORTED_OPS - seen - elsewhere if not any(part in op for part in alike)
    }
    assert missing == set()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_exported_is_named(name):
    types, build, text = REFUSED[name]
    function = typed(types, build)
    with pytest.raises(UnsupportedOpError, match="mylib cannot run") as error:
        export_function(function, "mylib")
    assert text in str(error.value)
    assert text in why_not_exported(function.body, "mylib")


def test_a_dynamic_shape_is_refused():
    with pytest.raises(UnsupportedOpError, match="dynamic"):
        export_function(typed([f(relay.Any(), 3)], relay.exp))


def test_composites_tuples_and_constants():
    """A composite is seen through, equal nodes are one, results of a tuple keep their order."""
    inner = relay.var("inner", shape=(2, 3))
    composite = relay.Function([inner], nn.relu(inner + relay.const(1.0)))
    composite = composite.with_attr("Composite", "any.add_relu")

    def body(x):
        pair = relay.Tuple([relay.Call(composite, [x]), relay.exp(x), relay.exp(x)])
        return relay.Tuple(
            [relay.TupleGetItem(pair, 1), relay.TupleGetItem(pair, 0), pair.fields[2]]
        )

    function = typed([f(2, 3)], body)
    model = export_function(function)
    assert sorted(node.op_type for node in model.graph.node) == [
        "Add", "Exp", "Identity", "Identity", "Identity", "Relu",
    ]  # fmt: skip
    (data,) = arrays([f(2, 3)])
    first, second, third = by_onnxruntime(model, [data])
    np.testing.assert_allclose(first, np.exp(data), rtol=1e-5)
    np.testing.assert_allclose(second, np.maximum(data + 1, 0), rtol=1e-6)
    np.testing.assert_array_equal(first, third)


def test_a_deep_function_needs_no_recursion():
    def deep(x):
        for _ in range(1500):
            x = relay.exp(relay.negative(x))
        return x

    assert len(export_function(typed([f(2)], deep)).graph.node) == 3001


def test_weights_are_in_the_model():
    weight = np.arange(12, dtype="float32").reshape(3, 4)
    function = typed([f(2, 4)], lambda x: nn.dense(x, relay.const(weight)))
    model = export_function(function)
    (kept,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(kept), weight)
    assert [value.name for value in model.graph.input] == ["input_0"]


def test_equal_weights_are_in_the_model_once():
    """A recurrence's steps have the same weights, which each transposes by itself."""
    weight = np.arange(16, dtype="float32").reshape(4, 4)

    def steps(x):
        for _ in range(3):
            x = nn.relu(nn.dense(x, relay.const(weight)))
        return nn.dense(x, relay.const(weight + 1))

    function = typed([f(2, 4)], steps)
    kept = [
        onnx.numpy_helper.to_array(item) for item in export_function(function).graph.initializer
    ]
    assert sorted(item[0, 0] for item in kept) == [0, 1]


def test_constants_that_differ_in_type_shape_or_bits_stay_apart():
    graph = GraphBuilder()
    zero = np.zeros(4, "float32")
    arrays = [zero, zero.astype("int32"), zero.reshape(2, 2), np.negative(zero), np.array(0.0)]
    arrays += [np.broadcast_to(np.float32(value), (1000, 1000)) for value in (0, 1)]
    names = [graph.constant(array).name for array in arrays]
    assert len(set(names)) == len(names)
    assert [graph.constant(array.copy()).name for array in arrays[:5]] == names[:5]
