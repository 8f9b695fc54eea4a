# SPDX-License-Identifier: Apache-2.0
"""lib.collage.runner(), load_runner: one call a run; what it takes, gives, refuses; its threads."""

import os
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import own_code_backends
import pytest
import tvm
from own_code_backends import IN_PYTHON
from own_code_backends import net as minus_net
from relay_text import PLAIN, parse
from tvm import relay
from tvm.driver import tvmc
from tvm.relay import collage
from tvm.relay.backend import Executor, Runtime
from tvm.relay.collage import CollageOptions, backends, optimize
from tvm.relay.collage.compile import build_library, build_vm
from tvm.relay.collage.compile.built import Built
from tvm.relay.collage.errors import ExecutorError, ModuleError

NAMES = ["a", "b c/0", "self", "inputs"]
SHAPE = (2, 3)


def several():
    """Four inputs whose names are no arguments of Python, two outputs."""
    a, b, c, d = (relay.var(name, shape=SHAPE) for name in NAMES)
    outputs = relay.Tuple([a * b - c, relay.nn.relu(d)])
    return tvm.IRModule.from_expr(relay.Function([a, b, c, d], outputs))


def values(seed=0):
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(SHAPE).astype("float32") for name in NAMES}


def check(outputs, given):
    a, b, c, d = (given[name] for name in NAMES)
    product, relu = outputs
    np.testing.assert_allclose(product, a * b - c, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(relu, np.maximum(d, 0))


def built(mod, **options):
    return Built.of_library(build_library(mod, PLAIN, **options), mod)


@pytest.fixture(scope="module")
def library():
    return build_library(several(), PLAIN)


@pytest.fixture
def runner(library):
    return Built.of_library(library, several()).runner()


def aligned(runner, given):
    arrays = {name: runner.empty_input(name) for name in given}
    for name, array in arrays.items():
        array[...] = given[name]
    return arrays


def misaligned(given):
    arrays = {}
    for name, value in given.items():
        memory = np.empty(value.nbytes + 68, "uint8")
        start = 4 - memory.ctypes.data % 64 + 64 * (memory.ctypes.data % 64 > 4)
        arrays[name] = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
        arrays[name][...] = value
    return arrays


def test_arrays_by_keyword_and_by_mapping_in_one_call_a_run(runner, monkeypatch):
    given, calls, run = values(), [], runner.run_library
    monkeypatch.setattr(
        runner, "run_library", lambda *arguments: calls.append(1) or run(*arguments)
    )
    # TVM's functions, by which tensors are set and read otherwise, cannot be called.
    monkeypatch.setattr(tvm._ffi._ctypes.packed_func, "_LIB", None)
    with pytest.raises(AttributeError):
        runner._module["handle"]()
    check(runner(**given), given)
    check(runner(given), given)
    check(
        runner(
            {"b c/0": given["b c/0"], "a": 0 * given["a"]},
            **{name: given[name] for name in ("a", "self", "inputs")},
        ),
        given,
    )
    assert len(calls) == 3


def test_it_says_what_it_takes_and_gives(runner):
    assert [item.name for item in runner.inputs] == NAMES
    assert {(item.shape, item.dtype) for item in runner.inputs} == {(SHAPE, np.dtype("float32"))}
    assert [item.name for item in runner.outputs] == ["output_0", "output_1"]
    assert repr(runner) == (
        "Runner('a': float32[2, 3], 'b c/0': float32[2, 3], 'self': float32[2, 3], "
        "'inputs': float32[2, 3] -> 'output_0': float32[2, 3], 'output_1': float32[2, 3])"
    )


def test_outputs_are_the_callers_and_no_run_changes_older_ones(runner):
    first = runner(values(1))
    for seed in range(2, 6):
        runner(values(seed))
    check(first, values(1))
    first[0][...] = 0  # writable


def test_aligned_and_other_arrays_in_turns(runner):
    """What was read in place is not written to when the next one is copied."""
    in_place = aligned(runner, values(1))
    for seed in range(2, 5):
        check(runner(in_place), values(1))
        check(runner(misaligned(values(seed))), values(seed))
        check(runner({**in_place, "a": values(seed)["a"]}), {**values(1), "a": values(seed)["a"]})
    for name, array in in_place.items():
        np.testing.assert_array_equal(array, values(1)[name])


@pytest.fixture(scope="module")
def minus_library():
    return built(backends.greedy_partition(minus_net(np.ones((3, 4), "float32")), IN_PYTHON.name))


@pytest.fixture
def minus(minus_library):
    """Puts another function in place of the model's part, and gives the model's library."""

    def put(function):
        name = "own_code_backends.minus"
        tvm.register_func(name, lambda x, c, out: out.copyfrom(function(x, c)), override=True)
        return minus_library

    yield put
    tvm.register_func("own_code_backends.minus", own_code_backends.minus, override=True)


def test_aligned_arrays_are_read_where_they_lie(minus):
    seen = []

    def note(x, c):
        seen.append(x.handle.contents.data)
        return x.numpy() - c.numpy()

    runner = minus(note).runner()
    array, other = runner.empty_input("x"), runner.empty_input("x")
    array[...], other[...] = 2, 3
    one, two = misaligned({"x": array})["x"], array[:, ::-1]
    found = [runner(x=given)[0][0, 0] for given in (array, other, one, array, two)]
    np.testing.assert_allclose(found, np.tanh([1, 2, 1, 1, 1]), rtol=1e-5)
    assert seen[:2] == [array.ctypes.data, other.ctypes.data] and seen[3] == array.ctypes.data
    assert seen[2] not in (array.ctypes.data, other.ctypes.data, one.ctypes.data)
    frozen = np.broadcast_to(np.float32(5), (3, 4))  # read-only, all elements at one address
    np.testing.assert_allclose(runner(x=frozen)[0], np.tanh(frozen - 1), rtol=1e-5)


def test_an_error_in_the_model_is_the_callers_and_the_next_run_is_right(minus):
    fail = []

    def raising(x, c):
        if fail:
            raise KeyError("from inside")
        return x.numpy() - c.numpy()

    runner, x = minus(raising).runner(), np.full((3, 4), 2, "float32")
    fail.append(1)
    with pytest.raises(KeyError, match="from inside"):
        runner(x=x)
    fail.clear()
    np.testing.assert_allclose(runner(x=x)[0], np.tanh(x - 1), rtol=1e-5)


def test_a_runner_that_its_own_model_calls_does_not_hang(minus):
    x, inner = np.full((3, 4), 2, "float32"), []

    def calling(x, c):
        if inner:
            inner.pop()(x=x.numpy())
        return x.numpy() - c.numpy()

    library = minus(calling)
    runner = library.runner()
    inner.append(runner)
    with pytest.raises(ValueError, match="has called the runner itself"):
        runner(x=x)
    inner.append(library.runner())  # another one may be
    for _ in range(2):
        np.testing.assert_allclose(runner(x=x)[0], np.tanh(x - 1), rtol=1e-5)


@pytest.mark.parametrize("make", [aligned, lambda runner, given: misaligned(given)])
def test_inputs_that_are_outputs_or_nothing_reads(make):
    """The graph executor does not follow an address for an input that no operator reads."""
    text = """def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(2, 3), float32],
                        %z: Tensor[(2, 3), float32]) {
      (%x, reshape(%x, newshape=[3, 2]), nn.relu(reshape(%x, newshape=[6])), %y, %x)
    }"""
    runner = built(parse(text)).runner()
    for seed in range(3):
        x, y, z = list(values(seed).values())[:3]
        outputs = runner(make(runner, {"x": x, "y": y, "z": z}))
        for found, right in zip(
            outputs, [x, x.reshape(3, 2), np.maximum(x, 0).reshape(6), y, x], strict=True
        ):
            np.testing.assert_array_equal(found, right)


TYPES = ["float32", "float16", "float64", "int8", "uint8", "int32", "int64", "bool"]


def test_types_and_ranks():
    """Each turned over; also rank 0 and no element at all."""
    shapes = {"scalar": (), "empty": (0, 3), "one": (1,)}
    variables = [relay.var(f"of {t}", shape=(3, 2), dtype=t) for t in TYPES]
    variables += [relay.var(name, shape=shape) for name, shape in shapes.items()]
    copies = [relay.transpose(v) for v in variables]
    mod = tvm.IRModule.from_expr(relay.Function(variables, relay.Tuple(copies)))
    runner = built(mod).runner()
    numbers = np.array([[0, 1], [1, 0], [1, 1]])
    given = {f"of {t}": numbers.astype(t) for t in TYPES}
    given.update(scalar=np.float32(3), empty=np.empty((0, 3), "float32"), one=np.ones(1, "float32"))
    outputs = runner(given)
    for item, value, found in zip(runner.outputs, given.values(), outputs, strict=True):
        assert found.dtype == np.asarray(value).dtype == item.dtype
        np.testing.assert_array_equal(found, np.transpose(value))
    assert runner({**given, "scalar": np.array(4, "float32")})[len(TYPES)] == 4


class Lent:
    """An array that only DLPack shows."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize(
    "form",
    [
        tvm.nd.array,
        Lent,
        np.asfortranarray,
        lambda array: np.repeat(array, 2, axis=1)[:, ::2],
        lambda array: array[::-1].copy()[::-1],
        lambda array: np.lib.stride_tricks.as_strided(array, writeable=False),
        lambda array: array.view(np.matrix),
    ],
    ids=["tvm", "dlpack", "fortran", "strided", "negative", "read-only", "subclass"],
)
def test_arrays_of_any_form(form, runner):
    given = values()
    check(runner({name: form(value) for name, value in given.items()}), given)


F32 = np.float32(np.zeros(SHAPE))
TAKES = ", ".join(f"{name!r}: float32[2, 3]" for name in NAMES)


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"a": None}, TypeError, "input 'a' takes a numpy array or DLPack tensor of float32[2, 3], "
         "got NoneType ('NoneType' object has no attribute '__dlpack__')"),
        ({"a": [[1.0]]}, TypeError, "got list ("),
        ({"a": F32.astype("float64")}, ValueError,
         "input 'a' takes float32[2, 3], got float64[2, 3]"),
        ({"a": F32.astype(">f4")}, ValueError, "input 'a' takes float32[2, 3], got >f4[2, 3]"),
        ({"b c/0": F32.T}, ValueError, "input 'b c/0' takes float32[2, 3], got float32[3, 2]"),
        ({"self": np.float32(1)}, ValueError, "input 'self' takes float32[2, 3], got float32[]"),
        ({"x": F32}, ValueError, f"no input: 'x'; the model's inputs are {TAKES}"),
        ({"a": ..., "x": F32}, ValueError,
         f"missing: 'a'; no input: 'x'; the model's inputs are {TAKES}"),
        ({"a": ..., "self": ...}, ValueError, "missing: 'a', 'self'; the model's inputs are"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name_in_one_line(change, error, text, runner):
    given = {name: value for name, value in {**values(), **change}.items() if value is not ...}
    with pytest.raises(error) as caught:
        runner(given)
    assert text in str(caught.value) and "\n" not in str(caught.value)
    check(runner(values()), values())


def test_other_misuses(runner):
    with pytest.raises(TypeError, match=r"arrays by name, as in runner\(a=array\), got ndarray$"):
        runner(F32)
    with pytest.raises(ValueError, match="no input: 'x'"):
        runner.empty_input("x")


def test_threads_on_one_runner_and_on_their_own(library):
    """A runner's calls wait for each other; each caller gets the outputs of its own inputs."""
    one = Built.of_library(library, several()).runner()

    def call(thread, runner):
        for seed in range(100 * thread, 100 * thread + 100):
            check(runner(values(seed)), values(seed))

    with ThreadPoolExecutor(4) as threads:
        for job in [threads.submit(call, k, one) for k in range(4)]:
            job.result()
        own = [Built.of_library(library, several()).runner() for _ in range(4)]
        for job in [threads.submit(call, k, runner) for k, runner in enumerate(own)]:
            job.result()


def test_who_waits_for_a_runner_does_not_hold_pythons_lock(minus):
    inside, go_on = threading.Event(), threading.Event()

    def waiting(x, c):
        inside.set()
        assert go_on.wait(30)
        return x.numpy() - c.numpy()

    runner, x = minus(waiting).runner(), np.full((3, 4), 2, "float32")
    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(runner, x=x)]
        assert inside.wait(30)
        jobs.append(threads.submit(runner, x=x))
        for _ in range(20):  # the second one has long been waiting when this ends
            time.sleep(0.005)
        go_on.set()
        for job in jobs:
            np.testing.assert_allclose(job.result(30)[0], np.tanh(x - 1), rtol=1e-5)


def test_python_is_few_microseconds_of_a_call(runner, monkeypatch):
    """What a call does besides the run takes less than reading six arrays' addresses from numpy's
    dictionaries does, which is most of what it once took."""
    given, outputs = values(), runner(values())
    monkeypatch.setattr(runner, "run_library", lambda *_: 0)

    def addresses():
        for array in (*given.values(), *outputs):
            array.__array_interface__["data"][0]

    def seconds(function):
        start = time.thread_time()
        for _ in range(500):
            function()
        return time.thread_time() - start

    in_turns = [(seconds(lambda: runner(given)), seconds(addresses)) for _ in range(9)]
    called, read = (min(times) for times in zip(*in_turns, strict=True))
    assert called < read


def test_as_tvms_module_with_tensors(runner):
    """As C++ calls it: inputs, then outputs."""
    given = values()
    tensors = [tvm.nd.array(given[name]) for name in NAMES]
    outputs = [tvm.nd.empty(SHAPE) for _ in range(2)]
    run = runner._module["run"]
    run(*tensors, *outputs)
    check([each.numpy() for each in outputs], given)
    with pytest.raises(ValueError, match="run takes 4 inputs, then 2 outputs, got 5 tensors"):
        run(*tensors, outputs[0])
    with pytest.raises(ValueError, match=r"input 3 must be a compact float32 .* shape \(2, 3\)"):
        run(*tensors[:3], tvm.nd.empty((3, 2)), *outputs)


def test_aot_by_the_names_of_the_model():
    runner = built(several(), executor=Executor("aot"), mod_name="my_net").runner()
    for seed in range(3):
        check(runner(aligned(runner, values(seed))), values(seed))
        check(runner(misaligned(values(seed))), values(seed))


def of_vm(mod):
    return Built(build_vm(mod, PLAIN).mod, mod)


def test_vm_with_control_flow_and_a_tuple():
    text = """def @main(%c: bool, %x: Tensor[(2, 3), float32]) {
      (if (%c) { nn.relu(%x) } else { tanh(%x) }, %x)
    }"""
    runner = of_vm(parse(text)).runner()
    for seed in range(3):
        x = values(seed)["a"]
        for given in (x, aligned(runner, {"x": x})["x"]):
            for choice, right in ((True, np.maximum(x, 0)), (False, np.tanh(x))):
                found, same = runner(c=np.bool_(choice), x=given)
                np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("def @main(%x: Tensor[(?, 3), float32]) { nn.relu(%x) }", "input 'x' has no fixed shape"),
        (
            "def @main(%x: float32) { fn () { %x } }",
            "output 'output_0' is a FuncType and no tensor",
        ),
        ("def @main(%p: (float32, float32)) { %p.0 }", "input 'p' is a TupleType and no tensor"),
    ],
)
def test_a_vms_function_without_fixed_shapes_is_refused(text, reason):
    with pytest.raises(ModuleError, match=f"{reason}: run the executable by .*VirtualMachine"):
        Built(of_vm(parse("def @main(%x: float32) { %x }")).module, parse(text)).runner()


def test_sizes_that_only_a_run_tells():
    text = "def @main(%x: Tensor[(4), bool], %y: float32) { (argwhere(%x), nn.relu(%y)) }"
    runner = of_vm(parse(text)).runner()
    assert runner.Summary() == (
        "'x': bool[4], 'y': float32[] -> 'output_0': int32[-1, 1], 'output_1': float32[]"
    )
    for x in ([True, False, True, True], [False] * 4):
        found, other = runner(x=np.array(x), y=np.float32(2))
        np.testing.assert_array_equal(found, np.argwhere(x))
        assert other == 2
    with pytest.raises(ValueError, match="missing: 'y'; the model's inputs are 'x'"):
        runner(x=np.zeros(4, bool))
    with pytest.raises(ValueError, match=r"'x' takes bool\[4\], got bool\[3\]"):
        runner(x=np.zeros(3, bool), y=np.float32(2))
    with pytest.raises(ValueError, match="no input: 'z'"):
        runner({"x": np.zeros(4, bool), "y": np.float32(2), "z": 1})


def collage_context(**options):
    config = CollageOptions(enable_collage=True, progress="quiet", **options).to_config()
    return tvm.transform.PassContext(opt_level=3, config=config)


def test_what_collage_builds_carries_it():
    with collage_context():
        library = relay.build(several(), target="llvm", mod_name="my_net")
        executable = relay.vm.compile(several(), target="llvm")
        for_c = relay.build(several(), target="llvm", runtime=Runtime("crt", {"system-lib": True}))
    for carrier in (library, executable):
        check(carrier.collage.runner()(values()), values())
    with pytest.raises(ExecutorError, match="another runtime than cpp has no runner"):
        for_c.collage.runner()


def test_a_decision_alone_is_built_once_for_it():
    decision = optimize(several(), targets="llvm")
    runners = [decision.runner() for _ in range(2)]
    check(runners[0](values()), values())
    assert runners[0]._handle != runners[1]._handle
    assert decision._built is decision._built


@pytest.fixture(scope="module")
def file(library, tmp_path_factory):
    file = tmp_path_factory.mktemp("runner") / "net.so"
    library.export_library(str(file))
    return file


def test_a_library_of_a_file(file, monkeypatch):
    check(collage.load_runner(file)(values()), values())
    with pytest.raises(ValueError) as caught:
        collage.load_runner(file, mod_name="other")
    assert str(caught.value) == (
        "the library holds no model named 'other': give the mod_name that it was built under"
    )


def test_a_package_of_tvmc(tmp_path):
    """Stock tvmc keeps weights beside the library."""
    mod = parse("def @main(%x: Tensor[(3), float32], %w: Tensor[(3), float32]) { %x + %w }")
    weight = np.array([1, 2, 3], "float32")
    package = str(tmp_path / "net.tar")
    model = tvmc.TVMCModel(mod, {"w": tvm.nd.array(weight)})
    tvmc.compile(model, "llvm", package_path=package, mod_name="net")
    runner = collage.load_runner(package)
    assert runner.inputs[0].name == "x"
    np.testing.assert_array_equal(runner(x=np.ones(3, "float32"))[0], weight + 1)


@pytest.fixture(scope="module")
def no_libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name in ("text.so", "net.onnx"):
        (folder / name).write_text("no library")
    for package, names in {
        "net": ["mod.so"],
        "broken": ["mod.so", "mod.json", "mod.params"],
    }.items():
        with tarfile.open(folder / f"{package}.tar", "w") as file:
            for name in names:
                file.add(folder / "text.so", name)
    vm = build_vm(parse("def @main(%x: float32) { %x }"), "llvm")
    vm.mod.export_library(str(folder / "vm.so"))
    return folder


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("missing.so", FileNotFoundError, "no file .*missing.so: a runner is loaded from an"),
        ("text.so", ValueError, "text.so is no library that can be loaded here: Failed "),
        ("net.onnx", ValueError, "net.onnx is no library: give the net.so that library.ex"),
        ("net.tar", ValueError, "net.tar is no package of `tvmc compile` .* mod.so, "),
        ("broken.tar", ValueError, "broken.tar is no library that can be loaded here"),
        ("vm.so", ValueError, "vm.so is for TVM's VM: collage.load.*VirtualMachine in any"),
    ],
)
def test_files_that_hold_no_library(no_libraries, name, error, text):
    with pytest.raises(error, match=text):
        collage.load_runner(no_libraries / name)


def test_it_runs_without_a_compiler(file):
    code = """
    import sys, numpy, tvm
    from tvm_collage.runner import load_runner
    assert tvm.get_global_func("relay._transform.InferType", allow_missing=True) is None
    runner = load_runner(sys.argv[1])
    ones = {item.name: numpy.ones(item.shape, item.dtype) for item in runner.inputs}
    print(runner(ones)[1].sum())
    """
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    command = [sys.executable, "-P", "-c", textwrap.dedent(code), str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr


def test_inputs_that_share_a_name_are_refused():
    one, other = (relay.var("x", shape=SHAPE) for _ in range(2))
    mod = tvm.IRModule.from_expr(relay.Function([one, other], one - other))
    with pytest.raises(ValueError, match="have the same name: rename the inputs and build again"):
        built(mod).runner()
