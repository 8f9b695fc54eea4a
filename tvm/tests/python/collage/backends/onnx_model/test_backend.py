# SPDX-License-Identifier: Apache-2.0
"""onnxruntime and openvino as backends: inputs and outputs, and what goes wrong.

A library that is not installed is skipped, with the reason that `available()` gives.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_nets
import pytest
import tvm
import tvm_forks
from onednn_nets import assert_close, build, constant, function_of, random_inputs, reference, run
from onnx import helper
from onnx_cases import f, run_part, typed
from relay_text import partition
from tvm import relay
from tvm.relay.collage.backends import (
    UnsupportedOpError,
    get_backend,
    greedy_partition,
)
from tvm.relay.collage.exec.arrays import PLAIN_DTYPES
from tvm.relay.collage.exec.forks import run_in_forks
from tvm.relay.collage.measure import deployable_module
from tvm.relay.collage.relay_util.external import mark_lone_part, on_one_thread

NAMES = ("onnxruntime", "openvino")


@pytest.fixture(params=NAMES)
def backend(request):
    reason = get_backend(request.param).available()
    if reason:
        pytest.skip(reason)
    return request.param


@pytest.fixture(scope="module")
def net():
    def body(x):
        out = relay.nn.conv2d(x, constant(1, 8, 3, 3, 3), (1, 1), (1, 1))
        out = relay.nn.relu(relay.nn.bias_add(out, constant(2, 8)))
        out = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(out))
        return relay.nn.softmax(relay.nn.dense(out, constant(3, 5, 8)))

    function = typed([f(1, 3, 16, 16)], body)
    inputs = random_inputs(function)
    return function, inputs, reference(function, inputs)


def partitioned(function, backend):
    mod = greedy_partition(tvm.IRModule.from_expr(function), backend)
    names = [var.name_hint for var in mod.get_global_vars()]
    assert len(names) == 2, "one region takes it all"
    return mod


BIG = np.array([777777777, 16777217, -16777219, -777777777])
COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
REDUCTIONS = ("max", "mean", "min", "sum")
# Op -> (its call, its operands); of integers OpenVINO computes these in float32, ...
IN_FLOAT32 = {
    "divide": (relay.divide, (BIG, np.array([11, 3, 7, -2]))),
    "nn.pad": (lambda x, y: relay.nn.pad(x, ((1, 1),), y), (BIG, np.array(777777777))),
    **{name: (getattr(relay, name), (BIG, BIG - np.array([1, 0, -1, 1]))) for name in COMPARISONS},
    **{name: (getattr(relay, name), (BIG // 8,)) for name in REDUCTIONS},
}
# ... and these not.
IN_INTEGERS = {
    "argmax": (relay.argmax, (np.array([16777216, 16777217]),)),
    "prod": (relay.prod, (np.array([16777217, 3, 5]),)),
    **{
        name: (getattr(relay, name), (BIG, np.array([1, 2, -1, 2])))
        for name in ("add", "subtract", "multiply", "maximum", "minimum")
    },
}


@functools.cache
def large_integers(dtype, is_folded):
    """A function of all these ops, its inputs, and what TVM gives."""
    bodies, inputs = [], {}
    for name, (op, operands) in {**IN_FLOAT32, **IN_INTEGERS}.items():
        arguments = []
        for i, operand in enumerate(operands):
            array = operand.astype(dtype)
            if is_folded or array.ndim == 0:
                arguments.append(relay.const(array, dtype))
            else:
                inputs[f"{name}_{i}"] = array
                arguments.append(relay.var(f"{name}_{i}", shape=array.shape, dtype=dtype))
        bodies.append(op(*arguments))
    function = function_of(relay.Tuple(bodies))
    return function, inputs, reference(function, inputs)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("is_folded", [False, True])
def test_integers_beyond_float32_are_right_or_refused(backend, dtype, is_folded):
    """Operands from outside, and constants, which the libraries fold in other ways."""
    function, inputs, wanted = large_integers(dtype, is_folded)
    placed = greedy_partition(tvm.IRModule.from_expr(function), backend)
    with_tvm = set(re.findall(r" ([a-z_.]+)\(", placed["main"].astext(show_meta_data=False)))
    refused = set(IN_FLOAT32) if backend == "openvino" else set()
    assert with_tvm - {"fn"} == refused
    for name, got, right in zip([*IN_FLOAT32, *IN_INTEGERS], run(build(placed), inputs), wanted):
        np.testing.assert_array_equal(got, right, err_msg=name)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_are_compared_with_small_constants(backend, dtype):
    limit = 2**24 - 1
    small = np.array([limit, 0, -limit, -7])
    beside = np.concatenate([BIG, small, small + np.array([1, 1, -1, 1])]).astype(dtype)
    x = relay.var("x", shape=beside.shape, dtype=dtype)
    constant = relay.const(np.tile(small, 3), dtype)
    function = function_of(relay.Tuple([getattr(relay, name)(x, constant) for name in COMPARISONS]))
    inputs = {"x": beside}
    placed = greedy_partition(tvm.IRModule.from_expr(function), backend)
    assert len(placed.functions) == 1 + len(COMPARISONS), "each is its part"
    found = run(build(placed), inputs)
    for name, got, right in zip(COMPARISONS, found, reference(function, inputs), strict=True):
        np.testing.assert_array_equal(got, right, err_msg=name)


def beside(constant, op=relay.less, dtype="int64"):
    """A call with a constant."""
    x = (dtype, np.shape(constant) or (4,))
    return typed([x], lambda x: op(x, relay.const(np.array(constant), dtype)))


@pytest.mark.parametrize("name", ["openvino", "openvino_bf16", "openvino_w8"])
@pytest.mark.parametrize(
    "function",
    [*map(beside, (2**24, -(2**24), [0] * 17)), beside(2, relay.divide, "int32")],
    ids=["large", "small", "many", "divide"],
)
def test_why_openvino_computes_no_integers(name, function):
    op, dtype = function.body.op.name, function.params[0].checked_type.dtype
    why = f"{name} cannot run {op}: dtype={dtype}: it computes them in float32"
    assert why in get_backend(name).op_predicates[op].with_reason(function.body)
    with pytest.raises(UnsupportedOpError, match=why):
        get_backend(name).compile(function.with_attr("global_symbol", "part"))


def test_quotients_of_integers_are_truncated_or_refused(backend):
    signs = np.array([7, -7, 7, -7], "int32"), np.array([2, 2, -2, -2], "int32")
    body = relay.divide(*(relay.const(array) for array in signs))
    placed = greedy_partition(tvm.IRModule.from_expr(relay.Function([], body)), backend)
    assert run(build(placed), {})[0].tolist() == [3, -3, -3, 3]


COUNT_THREADS = """
import os, sys, time
import tvm
from tvm.relay.collage.backends import get_backend
shape = (256, 2048)  # enough to be divided among threads

def function(length):
    out = tvm.relay.var("x", shape=shape)
    for _ in range(length):
        out = tvm.relay.tanh(out)
    mod = tvm.relay.transform.InferType()(tvm.IRModule.from_expr(out))
    return mod["main"].with_attr("global_symbol", "part")

counts, kept = [], []
for threads, length in ((2, 1), (2, 7), (2, 8), (3, 1), (5, 1), (1, 1)):
    tvm.get_global_func("runtime.config_threadpool")(1, threads)
    kept.append(get_backend("onnxruntime").compile(function(length)))
    kept[-1]["part"](tvm.nd.empty(shape), tvm.nd.empty(shape))
    started = time.process_time()
    time.sleep(0.05)
    counts.append((len(os.listdir("/proc/self/task")), time.process_time() - started))
print([[after[0] - before[0] for before, after in zip(counts, counts[1:])], [c[1] for c in counts]])
"""


def test_onnxruntime_obeys_a_number_of_threads_set_later_and_none_spins_between_calls():
    """Models of few operators share the threads of the first; others, and those that another number
    of threads was asked for, have their own, of which one is the caller."""
    reason = get_backend("onnxruntime").available()
    if reason:
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, "-c", COUNT_THREADS],
        env={**os.environ, "TVM_NUM_THREADS": "5"},  # the most that can be asked for
        capture_output=True,
        text=True,
        check=True,
    )
    more_threads, busy_seconds = json.loads(done.stdout.splitlines()[-1])
    assert more_threads == [0, 1, 2, 4, 0]
    assert max(busy_seconds) < 0.01


def _inputs_and_outputs():
    """Name -> (parameters, body, inputs, results)."""
    x, y = (relay.var(name, shape=(2, 3)) for name in "xy")
    field = relay.TensorType((2, 3))
    pair = relay.var("pair", type_annotation=relay.TupleType([field, field]))
    inner = relay.var("inner", shape=(2, 3))
    both = relay.Function([inner], relay.Tuple([relay.exp(inner), inner]))
    both = both.with_attr("Composite", "any.both")
    one, exp = relay.const(np.ones((2, 3), "float32")), relay.exp(x)
    first, second = relay.Call(both, [x]), relay.Call(both, [y])
    a = np.arange(6, dtype="float32").reshape(2, 3)
    b = a * 0.5
    return {
        "no input": ([], relay.exp(one), [], [np.exp(np.ones((2, 3)))]),
        "a constant as a result": (
            [x], relay.Tuple([one, exp]), [a], [np.ones((2, 3)), np.exp(a)],
        ),
        "an input as a result": ([x, y], relay.Tuple([y, exp, y]), [a, b], [b, np.exp(a), b]),
        "one result twice": ([x], relay.Tuple([exp, exp]), [a], [np.exp(a), np.exp(a)]),
        "an input of no use": ([y, x], exp, [b, a], [np.exp(a)]),
        "a tuple": ([pair, x], relay.TupleGetItem(pair, 1) + x, [a, b, a], [a + b]),
        "a composite twice": (
            [x, y], relay.TupleGetItem(first, 0) + relay.TupleGetItem(second, 1), [a, b],
            [np.exp(a) + b],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", _inputs_and_outputs())
def test_inputs_and_outputs(backend, case):
    params, body, inputs, wanted = _inputs_and_outputs()[case]
    mod = tvm.IRModule.from_expr(relay.Function(params, body))
    function = relay.transform.InferType()(mod)["main"]
    assert_close(run_part(backend, function, inputs), wanted)


def _model_of(node, dtype, shape):
    """Its bytes: one operator of input_0, whose result has the same type and shape."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [[(name, shape, kind)] for name in ("input_0", "output_0")]
    return bytearray(onnx_nets.model([node], *ends, opset=17).SerializeToString())


DTYPES = [
    *("bool", "float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]


def test_the_plain_types_are_these():
    assert sorted(DTYPES) == sorted(PLAIN_DTYPES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3, 2)])
def test_models_have_inputs_and_outputs_of_all_plain_types(backend, dtype, shape):
    attrs = {"perm": range(len(shape))} if shape else {}
    node = helper.make_node("Transpose", ["input_0"], ["output_0"], **attrs)
    spec = " ".join(map(str, (dtype, *shape)))
    create = tvm.get_global_func("collage.onnx_model.create")
    module = create(backend, "part", _model_of(node, dtype, shape), [spec], [spec], 0)
    array = np.array([[0, 1], [1, 5], [0, 7]] if shape else 7).astype(dtype)
    result = tvm.nd.empty(shape, dtype)
    module["part"](tvm.nd.array(array), result)
    np.testing.assert_array_equal(result.numpy(), array)


@pytest.mark.parametrize("spec", ["float8 2", "float32 2 x", "float32 0", "float", ""])
def test_a_spec_that_is_none_is_refused(backend, spec):
    create = tvm.get_global_func("collage.onnx_model.create")
    with pytest.raises(ValueError, match="is an element type, as float32, and its extents, not"):
        create(backend, "part", bytearray(b""), [spec], [], 0)


def test_each_call_has_the_arrays_that_it_is_given(backend):
    """Of the call before, none is taken for one of this call, and what an array holds is read."""
    function = typed([f(2, 3), f(2, 3)], relay.subtract).with_attr("global_symbol", "part")
    run_part = get_backend(backend).compile(function)["part"]
    given = [tvm.nd.empty((2, 3)) for _ in range(3)]
    results = [tvm.nd.empty((2, 3)) for _ in range(2)]
    draw = np.random.default_rng(0)
    for first, second, result in ((0, 1, 0), (0, 1, 0), (0, 1, 1), (1, 0, 0), (0, 0, 0), (2, 1, 0)):
        arrays = [draw.standard_normal((2, 3)).astype("float32") for _ in given]
        for place, array in zip(given, arrays, strict=True):
            place.copyfrom(array)
        other = results[1 - result].numpy()
        run_part(given[first], given[second], results[result])
        np.testing.assert_array_equal(results[result].numpy(), arrays[first] - arrays[second])
        np.testing.assert_array_equal(results[1 - result].numpy(), other)


def test_the_source_of_the_module_is_the_model(backend, net):
    """So that a user can look at what runs, e.g. in Netron."""
    function, _, _ = net
    mod = partitioned(function, backend)
    (symbol,) = (v for v in mod.get_global_vars() if v.name_hint != "main")
    module = get_backend(backend).compile(mod[symbol])
    assert f"{backend}: ONNX model of" in module.get_source()
    model = onnx.load_model_from_string(bytes(module["get_onnx"]()))
    assert [node.op_type for node in model.graph.node][:2] == ["Conv", "Relu"]
    assert list(module["get_const_vars"]()) == []


@pytest.fixture(scope="module")
def library(net, tmp_path_factory):
    """What makes the path of a library in a file from a backend and marks of the module, once."""

    @functools.cache
    def make(backend, *marks):
        mod = partitioned(net[0], backend)
        for mark in marks:
            mod = mark(mod)
        built = build(mod)
        assert not built.get_params(), "weights live in the partition"
        run(built, net[1])
        path = str(tmp_path_factory.mktemp("library") / "net.so")
        built.export_library(path)  # what was built here keeps the model, also when it has run
        return path

    return make


def test_a_fork_lets_go_of_a_model_that_has_run_before_it(backend, net, library):
    """A session's end waits for its threads, which are not in the fork."""
    _, inputs, wanted = net
    held = [tvm.runtime.load_module(library(backend, mark_lone_part))]
    assert_close(run(held[0], inputs), wanted)
    time.sleep(0.5)  # until its threads sleep
    reply = run_in_forks({"drop": lambda: held.clear() or True}, lambda _: 20.0)["drop"]
    assert (reply.outcome, reply.value) == ("ok", True)
    assert_close(run(held[0], inputs), wanted)


def test_a_loaded_model_is_in_memory_once(backend, net, library):
    """It can be looked at until it runs; then the library that runs it has the weights."""
    _, inputs, wanted = net
    loaded = tvm.runtime.load_module(library(backend))
    part = _module_of_kind(loaded, "collage.onnx_model")
    assert onnx.load_model_from_string(bytes(part["get_onnx"]())).graph.node
    for _ in range(2):
        assert_close(run(loaded, inputs), wanted)
    source = part.get_source()
    assert f"{backend}: ONNX model of" in source
    assert "computes alone" not in source and "on one thread" not in source
    with pytest.raises(ValueError, match="loaded from a library and has run.*load the library ag"):
        part["get_onnx"]()


@pytest.mark.parametrize(
    "marks, says",
    [
        ([mark_lone_part], "which computes alone"),
        ([mark_lone_part, on_one_thread], "on one thread"),
    ],
)
def test_a_mark_of_a_whole_plan_counts_after_loading_too(backend, net, library, marks, says):
    """Its library's threads may wait for the next call awake, as they do by themselves, or only
    that of the caller computes."""
    _, inputs, wanted = net
    loaded = tvm.runtime.load_module(library(backend, *marks))
    assert says in _module_of_kind(loaded, "collage.onnx_model").get_source()
    for _ in range(3):
        assert_close(run(loaded, inputs), wanted)


# Found before the pool's own function, as it is preloaded.
LISTENER = """
#include <stdio.h>
void CollagePoolOthersWorked(int threads) { printf("told of %d\\n", threads), fflush(stdout); }
"""
RUN_TWICE = """
import sys, tvm
from tvm.contrib.graph_executor import GraphModule
module = GraphModule(tvm.runtime.load_module(sys.argv[1])["default"](tvm.cpu()))
for _ in range(2):
    module.run()
"""


@pytest.mark.parametrize("is_lone", [False, True], ids=["beside others", "alone"])
def test_the_pool_is_told_of_threads_that_may_turn_after_a_run(backend, is_lone, library, tmp_path):
    """Those of onnxruntime sleep, but where nothing else computes."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    listener, marks = tmp_path / "listener.so", [mark_lone_part] if is_lone else []
    subprocess.run(
        ["cc", "-x", "c", "-", "-shared", "-fPIC", "-o", listener],
        input=LISTENER, text=True, check=True,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", RUN_TWICE, library(backend, *marks)],
        env={**os.environ, "LD_PRELOAD": str(listener), "TVM_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told = backend == "openvino" or is_lone
    assert done.stdout.splitlines() == (["told of 1"] * 2 if told else [])


def test_a_part_of_few_operators_says_that_its_threads_are_shared(backend):
    def source(length):
        many = lambda x: functools.reduce(lambda y, _: relay.tanh(y), range(length), x)  # noqa: E731
        function = typed([f(4, 4)], many)
        part = function.with_attr("global_symbol", "part")
        return get_backend(backend).compile(part).get_source()

    assert "on shared threads" in source(7) and "on shared threads" not in source(8)


def _module_of_kind(module, kind):
    if module.type_key == kind:
        return module
    found = (_module_of_kind(each, kind) for each in module.imported_modules)
    return next((each for each in found if each), None)


# OpenVINO up to 2024 counted its element types from another one: each number was one more.
OLDER_OPENVINO = """
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
typedef struct { long rank; long* dims; } shape_t;
static void* real(const char* name) {
  return dlsym(dlopen(getenv("REAL_OPENVINO"), RTLD_NOW), name);
}
int ov_tensor_create_from_host_ptr(int type, shape_t shape, void* data, void** tensor) {
  int (*make)(int, shape_t, void*, void**) = real("ov_tensor_create_from_host_ptr");
  return make(type - 1, shape, data, tensor);
}
int ov_port_get_element_type(const void* port, int* type) {
  int (*get)(const void*, int*) = real("ov_port_get_element_type");
  int status = get(port, type);
  *type += 1;
  return status;
}
"""

EVERY_TYPE = """
import numpy as np, tvm
from tvm import relay
from tvm.relay.collage.backends import get_backend
types = ["float32", "int32", "int64", "bool"]
params = [relay.var(f"p{i}", shape=(2, 3), dtype=dtype) for i, dtype in enumerate(types)]
chosen = [relay.where(params[3], each, each + each) for each in params[:3]]
body = relay.Tuple([*chosen, relay.logical_not(params[3])])
function = relay.Function(params, body).with_attr("global_symbol", "part")
mod = relay.transform.InferType()(tvm.IRModule({"part": function}))
module = get_backend("openvino").compile(mod["part"])
inputs = [np.array([[0, 1, 7], [1, 0, 5]]).astype(dtype) for dtype in types]
outputs = [tvm.nd.empty((2, 3), dtype) for dtype in types]
module["part"](*map(tvm.nd.array, inputs), *outputs)
for i in range(3):
    wanted = np.where(inputs[3], inputs[i], 2 * inputs[i])
    np.testing.assert_array_equal(outputs[i].numpy(), wanted)
np.testing.assert_array_equal(outputs[3].numpy(), ~inputs[3])
print("right")
"""


def loaded_library(name):
    """The path of a library that this process has opened."""
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if name in line)


def test_openvino_is_asked_for_its_numbers_of_types(tmp_path):
    """Its versions number them in other ways, which a library of the older one's stands for."""
    if get_backend("openvino").available() is not None or not shutil.which("cc"):
        pytest.skip("no openvino, or no C compiler")
    real, older = loaded_library("libopenvino_c.so"), tmp_path / "libopenvino_c.so"
    # All but two functions are found in the real one, which it needs.
    command = ["cc", "-x", "c", "-", "-x", "none", "-Wl,--no-as-needed", real]
    subprocess.run(
        [*command, "-ldl", "-shared", "-fPIC", "-o", older],
        input=OLDER_OPENVINO, text=True, check=True,
    )  # fmt: skip
    env = {**os.environ, "REAL_OPENVINO": real, "COLLAGE_OPENVINO_LIBRARY": str(older)}
    path = [str(Path(real).parent), os.environ.get("LD_LIBRARY_PATH")]
    env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, path))
    done = subprocess.run(
        [sys.executable, "-c", EVERY_TYPE], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["right"]


def test_an_op_that_is_not_in_the_table_stays_with_tvm(backend):
    function = typed([f(2, 3)], lambda x: relay.exp(relay.round(relay.exp(x))))
    mod = greedy_partition(tvm.IRModule.from_expr(function), backend)
    assert "round" in mod["main"].astext()
    assert len(mod.get_global_vars()) == 3
    assert_close(run(build(mod), {"x0": np.ones((2, 3), "float32")}), [np.full((2, 3), np.exp(3))])
    with pytest.raises(UnsupportedOpError, match=f"{backend} cannot run round"):
        get_backend(backend).compile(function.with_attr("global_symbol", "part"))


def test_the_pass_places_a_whole_net(backend, net):
    """With a library that always wins, one region is the whole plan."""
    function, inputs, wanted = net
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    placed = partition(mod, [tvm.target.Target(backend)], {"llvm": 1000, backend: 1})
    names = [var.name_hint for var in placed.get_global_vars()]
    assert len(names) == 2 and any(backend in name for name in names)
    assert_close(run(build(deployable_module(placed)), inputs), wanted)


ASK = """
import json, tvm
from tvm.relay import collage
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.targets import parse_targets
reason = get_backend({name!r}).available()
try:
    parse_targets([collage.host_target(), tvm.target.Target({name!r})])
    error = ""
except collage.errors.BackendUnavailableError as e:
    error = str(e)
print(json.dumps([reason, error, get_backend({name!r}).version()]))
"""


def ask_without_library(name, library):
    variable = f"COLLAGE_{name.upper()}_LIBRARY"
    done = tvm_forks.run(ASK.format(name=name), env={**os.environ, variable: str(library)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_empty_variable_is_none_at_all(backend):
    reason, _, version = ask_without_library(backend, "")
    assert reason is None and version


@pytest.mark.parametrize("name", NAMES)
def test_a_library_that_is_another_is_named(name):
    other = tvm._ffi.libinfo.find_lib_path()[0]
    reason, _, _ = ask_without_library(name, other)
    assert {"onnxruntime": "OrtGetApiBase", "openvino": "ov_"}[name] in reason
