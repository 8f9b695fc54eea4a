# SPDX-License-Identifier: Apache-2.0
"""The backend of the demo of customization: its outputs are TVM's, also where labels repeat or a
number has none, and what it refuses."""

import custom_backend
import numpy as np
import pytest
import tvm
from relay_text import PLAIN, is_external, parse
from tvm import relay
from tvm.relay.collage import backends, candidates, host_target
from tvm.relay.collage.compile import build_library

NUMBERS = np.array([[0, 3, 1, 4, -1, 2, 7, 3]], "int32")


def look_up(labels, shape=(1, 8, 1), dtype="float32"):
    """A product with rows that are one-hot for labels by column."""
    labels = np.array(labels, "int32")
    x = relay.var("x", shape=(1, 8), dtype="int32")
    column = relay.reshape(x, shape)
    one_hot = relay.cast(relay.equal(column, relay.const(labels[None, None])), dtype)
    weight = np.random.default_rng(0).normal(size=(6, len(labels))).astype(dtype)
    rows = relay.reshape(one_hot, (-1, len(labels)))
    body = relay.nn.dense(rows, relay.const(weight))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))


GELU = """def @main(%x: Tensor[(3, 70), float32]) {
  %0 = multiply(0.044715f, %x);
  %1 = multiply(%x, multiply(%x, %0));
  %2 = multiply(0.797885f, add(%x, %1));
  multiply(%x, multiply(0.5f, add(1f, tanh(%2))))
}"""


def taken_and_not(mod):
    """The module as the backend alone takes it, and how many parts that are."""
    with tvm.transform.PassContext(config={"relay.collage.byoc_max_depth": 10}):
        taken = backends.greedy_partition(mod, "custom")
    return taken, sum(map(is_external, taken.functions.values()))


def outputs(mod, **inputs):
    module = tvm.contrib.graph_executor.GraphModule(build_library(mod, PLAIN)["default"](tvm.cpu()))
    module.run(**inputs)
    return module.get_output(0).numpy()


@pytest.mark.parametrize("labels", [range(5), [4, 3, 2, 1, 0], [0, 3, 3, 1, 9], [1, -1, 2, 2, 2]])
def test_a_product_with_one_hot_rows_is_a_look_up(labels):
    mod = look_up(list(labels))
    taken, count = taken_and_not(mod)
    assert count == 1
    expected = outputs(mod, x=NUMBERS)
    np.testing.assert_allclose(outputs(taken, x=NUMBERS), expected, rtol=1e-5, atol=1e-6)
    assert expected.any()


def test_a_chain_is_one_loop_without_a_pattern_of_its_own():
    mod = parse(GELU)
    taken, count = taken_and_not(mod)
    assert count == 1 and custom_backend.CHAIN in str(taken)
    x = np.linspace(-9, 9, 210, dtype="float32").reshape(3, 70)
    np.testing.assert_allclose(outputs(taken, x=x), outputs(mod, x=x), rtol=1e-4, atol=1e-6)


def test_a_constant_of_a_chain_may_have_a_number_for_each_element():
    x = relay.var("x", shape=(3, 70))
    whole = relay.const(np.linspace(1, 2, 210, dtype="float32").reshape(3, 70))
    y = relay.tanh(relay.multiply(x, whole) + relay.const(np.float32(0.5)))
    function = relay.Function([x], relay.multiply(y, whole))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    taken, count = taken_and_not(mod)
    assert count == 1
    value = np.linspace(-1, 1, 210, dtype="float32").reshape(3, 70)
    expected = outputs(mod, x=value)
    np.testing.assert_allclose(outputs(taken, x=value), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "mod",
    [
        look_up(range(5), dtype="float64"),
        look_up(range(8), shape=(1, 1, 8)),  # each number with its own label: no one-hot rows
        parse(GELU.replace("tanh", "sigmoid")),
        parse(GELU.replace("float32", "float64").replace("f,", "f64,")),
    ],
    ids=["other type", "no column", "no operator of it", "double"],
)
def test_what_it_does_not_take(mod):
    assert taken_and_not(mod)[1] == 0


def test_its_own_costs_are_those_that_it_says():
    """Two tensors of 210 numbers, by the speed that the backend says."""
    mod, target = parse(GELU), tvm.target.Target("custom -estimate=1")
    with tvm.transform.PassContext(config={"relay.collage.byoc_max_depth": 10}):
        found = [
            each for each in candidates(mod, [host_target(), target]) if each.backend == "custom"
        ]
    (whole,) = [each for each in found if len(each.sub_graph.inside) == 9]
    backend = custom_backend.Custom()
    assert backend.cost(whole.module()) is None
    seconds = backend.with_options({"estimate": True}).cost(whole.module())
    assert seconds == pytest.approx(2 * 210 * 4 / custom_backend.BYTES_A_SECOND)
