# SPDX-License-Identifier: Apache-2.0
"""Hand-placed partitions: weights, parameters and outputs of every kind, several parts."""

import numpy as np
import tvm
from onednn_nets import (
    assert_close,
    build,
    check_all,
    constant,
    function_of,
    hand_placed,
    plan_of,
    random_inputs,
    reference,
    run,
)
from tvm import relay


def test_weights_live_in_the_partition_packed_once():
    x = relay.nn.relu(relay.var("x", shape=(1, 8, 14, 14)))
    out = relay.nn.conv2d(x, constant(1, 16, 8, 3, 3), padding=1, channels=16, kernel_size=(3, 3))
    function = function_of(relay.nn.relu(relay.nn.bias_add(out, constant(2, 16))))
    library = build(hand_placed(function))
    inputs = random_inputs(function)
    assert_close(run(library, inputs), reference(function, inputs))
    assert not library.get_params()
    assert "conv 1x8x14x14, 16x8x3x3, 16 -> 1x16x14x14 + relu" in plan_of(library)


def test_outputs_of_every_kind_and_scalars():
    x = relay.var("x", shape=(1, 8, 10, 10))
    first = relay.nn.conv2d(x, constant(1, 16, 8, 1, 1), channels=16, kernel_size=(1, 1))
    second = relay.nn.relu(relay.add(first, constant(2, 16, 1, 1)))
    scalar = relay.add(relay.var("y", shape=(2, 3)), relay.nn.relu(relay.var("x", shape=())))
    check_all({"several": relay.Tuple([first, second, first, x]), "a scalar": scalar})


def test_two_partitions_of_equal_shape():
    x = relay.var("x", shape=(4, 8))
    mod = tvm.IRModule()
    value = x
    for i in range(2):
        part = hand_placed(
            function_of(relay.nn.dense(relay.var("p", shape=(4, 8)), constant(i, 8, 8))), f"part{i}"
        )
        variable = part.get_global_var(f"part{i}")
        mod[variable] = part[variable]
        value = variable(value)
    mod["main"] = relay.Function([x], value)
    mod = relay.transform.InferType()(mod)
    wanted = relay.nn.dense(relay.nn.dense(x, constant(0, 8, 8)), constant(1, 8, 8))
    inputs = random_inputs(relay.Function([x], value))
    assert_close(run(build(mod), inputs), reference(function_of(wanted), inputs))


def test_tuple_as_parameter():
    pair = relay.var("pair", type_annotation=relay.TupleType([relay.TensorType((2, 3))] * 2))
    mod = hand_placed(relay.Function([pair], relay.op._make.concatenate(pair, 1)))
    part = mod.get_global_var("dnnl_part")
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    mod["main"] = relay.Function([x, y], part(relay.Tuple([x, y])))
    inputs = random_inputs(mod["main"])
    wanted = np.concatenate([inputs["x"], inputs["y"]], axis=1)
    assert_close(run(build(relay.transform.InferType()(mod)), inputs), [wanted])
