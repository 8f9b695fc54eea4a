# SPDX-License-Identifier: Apache-2.0
"""The backend as others see it: what it takes of a model, its version, its profile, its checks."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
import tvm_forks
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


def elu(x):
    """As TVM imports ONNX's Elu."""
    below = nn.relu(relay.subtract(relay.const(1.0), relay.exp(x)))
    return relay.add(relay.multiply(relay.const(-0.7), below), nn.relu(x))


@pytest.mark.parametrize("function, alone", [(gelu, relay.erf), (elu, relay.exp)])
def test_functions_are_composites_of_calls_that_are_none_alone(function, alone):
    x = var("x", 4, 16)
    mod = greedy_partition(typed(function(nn.dense(x, constant(1, 8, 16)))), "xnnpack")
    assert composites(mod) == [f"xnnpack.{function.__name__}"]
    assert sum(map(is_external, mod.functions.values())) == 1
    mod = greedy_partition(typed(alone(x)), "xnnpack")
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


MATRIX, PHOTO = var("x", 4, 6), var("x", 1, 8, 6, 6)
# By kind of node: an expression that becomes one of it.
KINDS = {
    "elu": relay.maximum(MATRIX, relay.const(0.0))
    + relay.exp(relay.minimum(MATRIX, relay.const(0.0)))
    - relay.const(1.0),
    "hardswish": MATRIX * relay.clip(MATRIX + relay.const(3.0), 0.0, 6.0) / relay.const(6.0),
    "gelu": gelu(MATRIX),
    "leaky_relu": nn.leaky_relu(MATRIX, 0.1),
    "clamp": relay.clip(MATRIX, 0.0, 1.0),
    "square": relay.multiply(MATRIX, MATRIX),
    **{op: getattr(relay, op)(MATRIX) for op in ("ceil", "floor", "sigmoid", "tanh")},
    "maximum": relay.maximum(MATRIX, constant(1, 6)),
    "minimum": relay.minimum(MATRIX, var("y", 4, 6)),
    "prelu": nn.prelu(MATRIX, constant(1, 6), axis=1),
    "matmul": nn.batch_matmul(var("x", 2, 4, 6), var("y", 2, 3, 6)),
    "deconv": nn.conv2d_transpose(PHOTO, constant(1, 8, 4, 3, 3), channels=4, kernel_size=(3, 3)),
    "pool": nn.max_pool2d(PHOTO, (2, 2), (2, 2)),
    "softmax": nn.softmax(MATRIX),
    "mean": relay.mean(MATRIX, axis=1),
    "pad": nn.pad(MATRIX, ((0, 0), (1, 1)), 0.0),
    "slice": relay.strided_slice(MATRIX, [0, 1], [4, 5]),
    "concat": relay.concatenate([MATRIX, var("y", 4, 6)], 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_profile_of_each_kind_names_its_call(kind):
    function = hand_placed(function_of(KINDS[kind]), "part", "xnnpack")["part"]
    source = json.loads(BACKEND.compile(function).get_source())
    assert kind in [node["kind"] for node in source["nodes"]]
    types = [p.checked_type for p in function.params] + [function.ret_type]
    tensors = arrays(0, *(each.concrete_shape for each in types))
    steps = BACKEND.profiled_steps(str(BACKEND.compile(function)["profile"](1, *tensors)))
    last = len(operator_calls(function)) - 1
    own = [name for name, _ in steps if not name.startswith("Transpose")]
    assert any(f"call_{last}" in name for name in own), steps


# Tensors that each end where a page follows that may not be touched.
FENCED = """
import ctypes, mmap, sys
import numpy as np, tvm
from tvm import relay
from tvm.relay.collage.backends import get_backend

def fenced(count):
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    whole = np.frombuffer(pages, "float32")
    libc = ctypes.CDLL(None, use_errno=True)
    fence = ctypes.c_void_p(whole.ctypes.data + mmap.PAGESIZE)
    assert libc.mprotect(fence, mmap.PAGESIZE, 0) == 0
    KEPT.append(pages)
    return whole[:count]

KEPT = []
count = mmap.PAGESIZE // 4
x = relay.var("x", shape=(count,))
y = relay.nn.relu(x)
body = {"input": y, "output": relay.Tuple([y, relay.tanh(y)])}[sys.argv[1]]
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
part = get_backend("xnnpack").compile(mod["main"].with_attr("global_symbol", "part"))
tensors = [fenced(count) for _ in range({"input": 2, "output": 3}[sys.argv[1]])]
tensors[0][:] = np.linspace(-1, 1, count)
part["part"](*(tvm.nd.from_dlpack(each.__dlpack__()) for each in tensors))
wanted = np.maximum(tensors[0], 0)
np.testing.assert_allclose(tensors[1], wanted, rtol=1e-5)
if len(tensors) > 2:
    np.testing.assert_allclose(tensors[2], np.tanh(wanted), rtol=1e-5)
"""


@pytest.mark.parametrize("tensor", ["input", "output"])
def test_nothing_is_read_behind_a_callers_tensor(tensor):
    done = tvm_forks.run(FENCED, tensor)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", [1, 0])
def test_callers_may_have_other_numbers_of_threads(first):
    """0: that of the machine. One that is larger later makes no difference, nor one call's own."""
    module = part_of(nn.dense(var("x", 64, 64), constant(1, 64, 64)))
    (x,) = arrays(0, (64, 64))
    configure = tvm.get_global_func("runtime.config_threadpool")

    def run(threads):
        configure(1, threads)
        out = tvm.nd.empty((64, 64))
        module["part"](x, out)
        return out.numpy()

    def run_each(_):
        return [run(threads) for threads in (first, 1 - first, first)]

    with ThreadPoolExecutor(3) as pool:
        results = [each for found in pool.map(run_each, range(3)) for each in found]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


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
        (lambda d: d["shapes"].__setitem__(d["outputs"][0], [1, 16, 14, 13]), "is wanted"),
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


def test_a_reshape_to_another_number_of_elements_is_refused():
    description, constants = described(relay.tanh(relay.reshape(var("x", 3, 4), (12,))))
    place = next(i for i, node in enumerate(description["nodes"]) if node["kind"] == "reshape")
    description["shapes"][description["nodes"][place]["output"]] = [13]
    with pytest.raises(ValueError, match="another number of elements"):
        made(description, constants)
