# SPDX-License-Identifier: Apache-2.0
"""What parts tell of their steps names the operators that are in them.

No time is asserted: what is looked at is whom it is of.
"""

import json

import numpy as np
import profile_nets
import pytest
import tvm
from onednn_nets import constant, hand_placed, typed, var
from tvm import relay
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.measure.profiler.operator_times import kernel_times
from tvm.relay.collage.relay_util.node_spans import stamp_nodes
from tvm.relay.collage.relay_util.walk import operator_calls

NAMES = ("dnnl", "onnxruntime", "openvino", "xnnpack")
KEEP_PLANS = ("dnnl", "xnnpack")  # and no ONNX model
# Those that run a kernel of their own, in any library.
ANCHORS = ("nn.conv2d", "nn.dense", "nn.batch_matmul")
RUNS = 3


@pytest.fixture(params=NAMES)
def backend(request):
    backend = get_backend(request.param)
    if reason := backend.available():
        pytest.skip(reason)
    return backend


def arrays_of(function):
    """Random inputs and memory for the outputs of a part, in the order in which it takes them."""
    rng = np.random.default_rng(0)
    result = function.checked_type.ret_type
    results = result.fields if isinstance(result, tvm.ir.TupleType) else [result]
    shapes = [[int(n) for n in p.checked_type.shape] for p in function.params]
    outputs = [tvm.nd.empty([int(n) for n in kind.shape], kind.dtype) for kind in results]
    return [*(tvm.nd.array(rng.random(shape, "float32")) for shape in shapes), *outputs]


@pytest.mark.parametrize("net", profile_nets.NETS)
def test_each_product_is_in_a_step_of_its_own(net, backend):
    function = profile_nets.part_of(profile_nets.plan_of(profile_nets.NETS[net](), backend.name))
    text = backend.compile(function)["profile"](RUNS, *arrays_of(function))
    steps = backend.profiled_steps(str(text))
    assert steps and all(seconds >= 0 for _, seconds in steps)
    calls = operator_calls(function)
    # A place stands for a node here: who is named by what.
    times = kernel_times(steps, list(range(len(calls))))
    named = {place for time in times for place in time.nodes}
    assert named <= set(range(len(calls)))
    assert len(times) >= sum(call.op.name in ANCHORS for call in calls)
    # What runs behind the last one that names a call, as a change of layout, is nobody's.
    assert 0 < sum(time.seconds for time in times) <= 1.001 * sum(s for _, s in steps)


def test_a_step_on_the_way_to_a_result_is_of_the_call_of_that():
    """A mean that loses its axis is a reduction, and a view of that."""
    x = var("x", 2, 8, 4)
    mean = relay.mean(x, axis=-1)
    function = hand_placed(typed(relay.exp(mean))["main"])["dnnl_part"]
    module = get_backend("dnnl").compile(function)
    names = [call.op.name for call in operator_calls(function)]
    nodes = json.loads(module.get_source())["nodes"]
    assert [(node["kind"], names[node["call"]]) for node in nodes] == [
        ("reduce", "mean"),
        ("reshape", "mean"),
        ("eltwise", "exp"),
    ]


def test_equal_parts_are_equal_whatever_their_nodes_are():
    """Places among a part's own calls are told, so that parts of one text are compiled once."""
    x = var("x", 4, 8)
    mod = typed(relay.nn.relu(relay.nn.dense(x, constant(1, 8, 8))))
    one, other = (
        get_backend("dnnl").compile(hand_placed(main)["dnnl_part"]).get_source()
        for main in (mod["main"], stamp_nodes(mod)["main"])
    )
    assert one == other and '"call":' in one


def test_a_model_that_was_loaded_and_has_run_is_not_profiled(backend, tmp_path):
    args = profile_nets.built(profile_nets.conv_net(), tmp_path / "net.so", backend.name)
    factory = tvm.runtime.load_module(args["library"])
    executor = tvm.contrib.graph_executor.GraphModule(factory["default"](tvm.cpu()))
    executor.run()
    symbol = args["plan"]["kernels"][0]["symbol"]
    part = next(m for m in modules_below(factory) if symbol_of(m) == symbol)
    function = profile_nets.part_of(profile_nets.plan_of(profile_nets.conv_net(), backend.name))
    arrays = arrays_of(function)
    if backend.name in KEEP_PLANS:  # which have theirs, whatever it was made of
        assert json.loads(part["profile"](RUNS, *arrays))
        return
    with pytest.raises(ValueError, match="keeps no ONNX model: load the library again"):
        part["profile"](RUNS, *arrays)


def test_a_model_that_was_told_to_stay_is_profiled_after_it_has_run(backend, tmp_path):
    args = profile_nets.built(profile_nets.conv_net(), tmp_path / "net.so", backend.name)
    factory = tvm.runtime.load_module(args["library"])
    symbol = args["plan"]["kernels"][0]["symbol"]
    part = next(m for m in modules_below(factory) if symbol_of(m) == symbol)
    if backend.name in KEEP_PLANS:
        assert not part.implements_function("keep_model"), "it needs none"
        return
    part["keep_model"]()
    tvm.contrib.graph_executor.GraphModule(factory["default"](tvm.cpu())).run()
    function = profile_nets.part_of(profile_nets.plan_of(profile_nets.conv_net(), backend.name))
    assert json.loads(part["profile"](RUNS, *arrays_of(function)))


def test_wrong_arguments_are_told(backend):
    function = profile_nets.part_of(profile_nets.plan_of(profile_nets.conv_net(), backend.name))
    profile = backend.compile(function)["profile"]
    with pytest.raises(tvm.TVMError, match="takes 1 inputs and 1 outputs"):
        profile(RUNS)
    with pytest.raises(tvm.TVMError, match="at least one run"):
        profile(0, *arrays_of(function))


def modules_below(module):
    for other in module.imported_modules:
        yield other
        yield from modules_below(other)


def symbol_of(module):
    return str(module["get_symbol"]()) if module.implements_function("get_symbol") else ""
