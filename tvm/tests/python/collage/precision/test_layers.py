# SPDX-License-Identifier: Apache-2.0
"""Layers of a quantised model: with none of them in 8 bits it is the float model, with all of them
the quantised one, and switches compute what the models do that they stand for."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_nets import model
from quantised_nets import both_forms, quantised
from tvm.relay.collage.precision.layers import INT8, Quantised, is_quantised


def run(made, x=None, **more):
    if x is None:
        x = np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype("float32")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    return session.run(None, {"x": x, **more})[0]


@pytest.fixture(scope="module")
def forms():
    plain, in_bytes = both_forms()
    return plain, in_bytes, Quantised(plain, in_bytes)


def test_layers_are_convolutions_and_products_in_order(forms):
    assert [(each.name, each.op) for each in forms[2].layers] == [
        *(("c1", "Conv"), ("c2", "Conv"), ("c3", "Conv"), ("y", "Gemm"))
    ]


def test_no_layer_in_8_bits_is_the_float_model_with_its_own_bias(forms):
    plain, _, both = forms
    made = both.model_with([])
    onnx.checker.check_model(made)
    assert not is_quantised(made)
    np.testing.assert_array_equal(run(made), run(plain))


def test_all_layers_in_8_bits_are_the_quantised_model(forms):
    _, in_bytes, both = forms
    made = both.model_with([layer.name for layer in both.layers])
    np.testing.assert_array_equal(run(made), run(in_bytes))
    assert not np.array_equal(run(made), run(forms[0]))


def kinds(made):
    return [node.op_type for node in made.graph.node]


def test_a_value_is_quantised_for_an_addition_only_beside_a_layer(forms):
    both = forms[2]
    # c2 and c3 read the pool's numbers, which r1's pair has quantised; the addition reads them too.
    made = both.model_with(["c2"])
    assert kinds(made).count("QuantizeLinear") == 1 and kinds(made).count("DequantizeLinear") == 2
    names = {node.output[0]: list(node.input) for node in made.graph.node}
    assert names["c2"] == ["p1", "w2_dq"] and names["c3"] == ["p1", "w3"]
    assert names["p1"] == ["r1_dq"] and names["s2"] == ["s1", "c3"]
    assert {tensor.name for tensor in made.graph.initializer} == {
        *("w1", "w2_q", "w2_scale", "w3", "fc", "collage_float_b1", "scale", "zero", "zero_u")
    }


def test_the_layer_with_the_corrected_bias_has_that(forms):
    made = forms[2].model_with(["c1"])
    (first,) = (node for node in made.graph.node if node.output[0] == "c1")
    assert list(first.input) == ["x_dq", "w1_dq", "b1"]


@pytest.mark.parametrize("short", ["", "bfloat16"])
def test_switches_compute_what_the_models_do(forms, short):
    both = forms[2]
    made, names = both.switched(short)
    onnx.checker.check_model(made)
    layers = [layer.name for layer in both.layers]
    for count in range(len(layers) + 1):
        for chosen in itertools.combinations(layers, count):
            states = both.states(dict.fromkeys(chosen, INT8), short)
            flags = {n: np.array(s) for n, s in zip(names, states, strict=True)}
            wanted = run(both.model_with(chosen))
            # Sums may be in another order.
            np.testing.assert_allclose(run(made, **flags), wanted, 1e-4, 1e-5, err_msg=str(chosen))


def test_a_switch_rounds_operands_to_short_floats(forms):
    plain, _, both = forms
    made, names = both.switched("bfloat16")

    def with_short(*layers):
        states = both.states(dict.fromkeys(layers, "bfloat16"), "bfloat16")
        return run(made, **{n: np.array(s) for n, s in zip(names, states, strict=True)})

    exact = run(plain)
    last, all_of_them = with_short("y"), with_short("c1", "c2", "c3", "y")
    # A bfloat16 has 8 bits of a number.
    assert 0 < np.abs(last - exact).max() < np.abs(exact).max() / 100
    assert not np.array_equal(last, all_of_them)


def test_a_name_of_no_layer_is_refused(forms):
    with pytest.raises(ValueError, match="no layer is called 's1'"):
        forms[2].model_with(["s1"])


def test_nodes_that_a_branch_reads_stay(forms):
    """Graphs inside a node read values of the outer one."""
    node = helper.make_node
    then = helper.make_graph(
        [node("Relu", ["a"], ["t"])], "then", [], [helper.make_tensor_value_info("t", 1, [2])]
    )
    other = helper.make_graph(
        [node("Neg", ["a"], ["e"])], "else", [], [helper.make_tensor_value_info("e", 1, [2])]
    )
    nodes = [
        node("Abs", ["x"], ["a"]),
        node("Abs", ["x"], ["unused"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    plain = model(nodes, [("x", [2]), ("c", [], onnx.TensorProto.BOOL)], [("y", [2])])
    made = Quantised(plain, plain).model_with([])
    assert [each.output[0] for each in made.graph.node] == ["a", "y"]


def test_nodes_whose_first_result_is_left_out_are_told_apart():
    """Two recurrent layers that give their last state alone."""
    node, rng = helper.make_node, np.random.default_rng(0)
    weights = {
        name: rng.standard_normal(shape).astype("float32") * 0.3
        for name, shape in (("w", (1, 16, 4)), ("r", (1, 16, 4)), ("v", (1, 16, 4)), ("m", (4, 3)))
    }
    nodes = [
        node("LSTM", ["x", "w", "r"], ["", "h0"], hidden_size=4),
        node("LSTM", ["h0", "v", "r"], ["", "h1"], hidden_size=4),
        node("MatMul", ["h1", "m"], ["y"]),
    ]
    plain = model(nodes, [("x", [2, 1, 4])], [("y", [1, 1, 3])], weights)
    both = Quantised(plain, quantised(plain, {"h1"}, {"y"}))
    assert [layer.name for layer in both.layers] == ["y"]
    made = both.model_with([])
    onnx.checker.check_model(made)
    assert [list(each.input) for each in made.graph.node[:2]] == [
        ["x", "w", "r"],
        ["h0", "v", "r"],
    ]


@pytest.mark.parametrize("op", ["DynamicQuantizeLinear", "MatMulInteger", "QGemm", "MatMulNBits"])
def test_operators_on_fewer_bits_are_known_also_in_branches(op):
    inner = helper.make_graph([helper.make_node(op, ["a"], ["b"])], "then", [], [])
    outer = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    made = helper.make_model(helper.make_graph([outer], "net", [], []))
    assert is_quantised(made)


def test_who_is_quantised(forms):
    assert is_quantised(forms[1]) and not is_quantised(forms[0])


def random_net(seed):
    """Convolutions, additions, pools and joined channels over values of 4 channels, at random, and
    both of its forms: values and layers are quantised at random, too."""
    rng = np.random.default_rng(seed)
    weights, nodes, values = {}, [], ["x"]
    for k in range(12):
        name, operand = f"v{k}", str(rng.choice(values))
        kind = str(rng.choice(["Conv", "Conv", "Relu", "Add", "MaxPool", "Concat"]))
        inputs, more = [operand], {}
        if kind == "Conv":
            weights[f"w{k}"] = rng.standard_normal((4, 4, 3, 3)).astype("float32") * 0.2
            weights[f"b{k}"] = rng.standard_normal(4).astype("float32") * 0.1
            inputs, more = [operand, f"w{k}", f"b{k}"], {"pads": [1] * 4}
        elif kind == "Add":
            inputs = [operand, str(rng.choice(values))]
        elif kind == "MaxPool":
            more = {"kernel_shape": [3, 3], "pads": [1] * 4}
        elif kind == "Concat":
            # Channels come back to 4 by a layer.
            weights[f"w{k}"] = rng.standard_normal((4, 8, 1, 1)).astype("float32") * 0.3
            joined = [operand, str(rng.choice(values))]
            nodes.append(helper.make_node("Concat", joined, [f"j{k}"], axis=1))
            kind, inputs = "Conv", [f"j{k}", f"w{k}"]
        nodes.append(helper.make_node(kind, inputs, [name], **more))
        values.append(name)
    plain = model(nodes, [("x", [1, 4, 6, 6])], [(values[-1], [1, 4, 6, 6])], weights)
    layers = {n.output[0] for n in nodes if n.op_type == "Conv"}
    chosen = {name for name in sorted(layers) if rng.random() < 0.8}
    some = {name for name in values[:-1] if rng.random() < 0.6}
    changed = [name for name in weights if name.startswith("b") and rng.random() < 0.3]
    return plain, quantised(plain, some, chosen, corrected=changed), rng


@pytest.mark.parametrize("seed", range(24))
def test_random_nets_and_choices(seed):
    plain, in_bytes, rng = random_net(seed)
    both = Quantised(plain, in_bytes)
    x = rng.standard_normal((1, 4, 6, 6)).astype("float32")

    np.testing.assert_array_equal(run(both.model_with([]), x), run(plain, x))
    switched, names = both.switched("bfloat16")
    layers = [layer.name for layer in both.layers]
    choices = [[name for name in layers if rng.random() < 0.5] for _ in range(3)]
    for chosen in ([], layers, *choices):
        made = both.model_with(chosen)
        onnx.checker.check_model(made)
        states = both.states(dict.fromkeys(chosen, INT8), "bfloat16")
        flags = {n: np.array(s) for n, s in zip(names, states, strict=True)}
        own, right = run(switched, x, **flags), run(made, x)
        # A value between two steps may be rounded to either where sums are in another order.
        assert np.mean(np.abs(own - right) > 1e-4 * np.abs(right).max()) < 0.05, chosen


def test_all_layers_of_random_nets_are_the_quantised_model():
    for seed in range(12):
        plain, in_bytes, _ = random_net(seed)
        both = Quantised(plain, in_bytes)
        made = both.model_with([layer.name for layer in both.layers])
        pairs = {node.output[0] for node in made.graph.node if node.op_type == "QuantizeLinear"}
        wanted = {
            node.output[0] for node in in_bytes.graph.node if node.op_type == "QuantizeLinear"
        }
        read = {name for node in in_bytes.graph.node for name in node.input}
        assert pairs <= wanted and {n for n in wanted if f"{n[:-2]}_dq" in read} >= pairs
