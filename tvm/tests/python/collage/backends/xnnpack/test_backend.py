# SPDX-License-Identifier: Apache-2.0
"""The backend as others see it: what it takes of a model, its version, its profile, its checks."""

import json
import math

import numpy as np
import pytest
import tvm
from onednn_nets import constant, function_of, hand_placed, typed, var
from relay_text import composites, is_external
from tvm import relay
from tvm.relay.collage.backends import get_backend, greedy_partition
from tvm.relay.collage.relay_util.walk import operator_calls

nn = relay.nn
BACKEND = get_backend("xnnpack")
pytestmark = pytest.mark.skipif(bool(BACKEND.available()), reason="XNNPACK is not installed")


def block():
    """Return a part of a network for phones, as its importer writes it."""
    x = var("x", 1, 8, 14, 14)
    y = nn.conv2d(x, constant(1, 16, 8, 1, 1), channels=16, kernel_size=(1, 1))
    y = relay.clip(nn.bias_add(y, constant(2, 16)), 0.0, 6.0)
    weights = constant(3, 16, 1, 3, 3)
    y = nn.conv2d(y, weights, channels=16, kernel_size=(3, 3), groups=16, padding=1)
    gate = relay.sigmoid(nn.global_avg_pool2d(y))
    return relay.multiply(y, gate)


def gelu(x):
    half = relay.const(0.5)
    return x * (relay.erf(x * relay.const(math.sqrt(0.5))) + relay.const(1.0)) * half


def test_a_block_is_one_part():
    mod = greedy_partition(typed(block()), "xnnpack")
    assert sum(map(is_external, mod.functions.values())) == 1
    body = mod["main"].body
    assert isinstance(body.op, relay.GlobalVar) and isinstance(body.args[0], relay.Var)


def test_gelu_is_a_composite_and_erf_alone_is_none():
    x = var("x", 4, 16)
    mod = greedy_partition(typed(gelu(nn.dense(x, constant(1, 8, 16)))), "xnnpack")
    assert composites(mod) == ["xnnpack.gelu"]
    mod = greedy_partition(typed(relay.erf(x)), "xnnpack")
    assert not any(map(is_external, mod.functions.values()))


def test_its_version_is_that_of_the_file():
    version = BACKEND.version()
    assert version.startswith("file ") and version == BACKEND.version()


def part_of(body):
    return BACKEND.compile(hand_placed(function_of(body), "part", "xnnpack")["part"])


def arrays(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [tvm.nd.array(rng.standard_normal(shape).astype("float32")) for shape in shapes]


def test_its_profile_names_the_call_of_each_operator():
    function = hand_placed(function_of(block()), "part", "xnnpack")["part"]
    calls = [call.op.name for call in operator_calls(function)]
    (x,) = arrays(0, (1, 8, 14, 14))
    steps = BACKEND.profiled_steps(
        str(BACKEND.compile(function)["profile"](3, x, tvm.nd.empty((1, 16, 14, 14))))
    )
    assert all(seconds >= 0 for _, seconds in steps)
    named = [calls[int(name.split("call_")[1])] for name, _ in steps if "call_" in name]
    # A clamp is part of its convolution, which then gives the clamp's result.
    wanted = ["clip", "nn.conv2d", "nn.global_avg_pool2d", "sigmoid", "multiply"]
    assert list(dict.fromkeys(named)) == wanted


def test_tensors_that_end_where_memory_may_end_are_copied():
    """XNNPACK reads a little behind its inputs: a page that is not there would end the process."""
    module = part_of(nn.relu(var("x", 1024)))
    given = np.random.default_rng(0).standard_normal(1024 + 1024).astype("float32")
    at = (-given.ctypes.data // 4) % 1024  # floats up to the next page
    whole = tvm.nd.array(given[at : at + 1024])
    out = tvm.nd.empty((1024,))
    module["part"](whole, out)
    np.testing.assert_array_equal(out.numpy(), np.maximum(whole.numpy(), 0))


def test_another_tensor_of_the_same_call_is_seen():
    """What a runtime was set up with is kept only as long as it is the same."""
    module = part_of(nn.relu(var("x", 3, 5)))
    for seed in range(3):
        (x,) = arrays(seed, (3, 5))
        out = tvm.nd.empty((3, 5))
        module["part"](x, out)
        np.testing.assert_array_equal(out.numpy(), np.maximum(x.numpy(), 0))


def described(body):
    function = hand_placed(function_of(body), "part", "xnnpack")["part"]
    module = BACKEND.compile(function)
    return json.loads(module.get_source()), list(module["get_constants"]())


def made(description, constants=()):
    create = tvm.get_global_func("collage.xnnpack.create")
    return create("part", json.dumps(description), list(constants))


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda d: d["nodes"][0].update(kind="dream"), "unknown kind of step 'dream'"),
        (lambda d: d["nodes"][1]["ints"].update(strides=[0, 1]), "strides: 0 is not from 1"),
        (lambda d: d["nodes"][1]["ints"].update(pads=[1, 1]), "pads: 2 numbers, not 4"),
        (lambda d: d["nodes"][1]["ints"].update(groups=[3]), "weights: they have other channels"),
        (lambda d: d["nodes"][0]["ints"].update(axes=[0, 1, 1, 3]), "no order of all axes"),
        (lambda d: d["nodes"][1]["strings"].update(kernel_layout="OIHH"), "kernel_layout"),
        (lambda d: d["dtypes"].__setitem__(0, "int8"), "tensor 0 is no float32"),
        (lambda d: d["shapes"].__setitem__(0, [1, 8, 0, 14]), "tensor 0 has a shape"),
        (lambda d: d["nodes"][1].update(post_ops=[{"kind": "relu"}]), "post_ops"),
    ],
)
def test_a_damaged_description_is_refused_in_one_line(change, reason):
    description, constants = described(block())
    made(description, constants)
    change(description)
    with pytest.raises(ValueError) as told:
        made(description, constants)
    assert reason in str(told.value)


def test_results_of_another_shape_than_described_are_refused_before_anything_runs():
    description, constants = described(nn.relu(var("x", 3, 5)))
    description["shapes"][description["outputs"][0]] = [3, 4]
    module = made(description, constants)
    (x,) = arrays(0, (3, 5))
    with pytest.raises(ValueError, match="has the shape 3x5, not 3x4"):
        module["part"](x, tvm.nd.empty((3, 4)))


def test_a_reshape_to_another_number_of_elements_is_refused():
    description, constants = described(relay.tanh(relay.reshape(var("x", 3, 4), (12,))))
    place = next(i for i, node in enumerate(description["nodes"]) if node["kind"] == "reshape")
    description["shapes"][description["nodes"][place]["output"]] = [13]
    with pytest.raises(ValueError, match="another number of elements"):
        made(description, constants)
