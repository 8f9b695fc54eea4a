# SPDX-License-Identifier: Apache-2.0
"""What a user can do wrong: the class of each error and its one line of text."""

import os
import re

import pytest
import tvm
import tvm_forks
from relay_text import parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import backends
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile.module_check import open_inputs

HOST = "llvm"


@pytest.fixture(scope="module")
def good():
    return parse("def @main(%x: $T) { nn.relu(%x) }")


@pytest.fixture(scope="module", autouse=True)
def missing_backend():
    """A backend that is registered and cannot run here."""

    class Missing(collage.Backend):
        name = "errors_test_missing"

        def available(self):
            return "libmissing.so is not installed"

    backend = collage.register_backend(Missing())
    yield backend
    backends.registry.REGISTERED.pop(backend.name)


def build(mod, target, **keywords):
    config = {"relay.collage.enable_collage": True, "relay.collage.progress": "quiet"}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return relay.build(mod, target=target, **keywords)


def compile_vm(mod, target):
    with tvm.transform.PassContext(config={"relay.collage.enable_collage": True}):
        return relay.vm.compile(mod, target=target)


def create_executor(mod, target, kind="graph"):
    with tvm.transform.PassContext(config={"relay.collage.enable_collage": True}):
        return relay.create_executor(kind, mod, tvm.cpu(), target)


def message(expected, function, *args, **keywords):
    """The text of the error, of exactly that class, that the call raises."""
    with pytest.raises(expected) as caught:
        function(*args, **keywords)
    assert type(caught.value) is expected
    assert "\n" not in str(caught.value)
    return str(caught.value)


ENTRIES = pytest.mark.parametrize("entry", [build, compile_vm, create_executor])


@ENTRIES
def test_unknown_backend(entry, good):
    text = message(collage.UnknownBackendError, entry, good, [HOST, "nope"])
    # Other tests of this process may have registered some of their own.
    known = [backend.name for backend in backends.list_backends()]
    assert {*backends.BUILTIN, "errors_test_missing"} <= set(known)
    assert text == (
        f"unknown backend or target kind 'nope': registered backends are {', '.join(known)}; "
        "register your own with collage.register_backend(...)"
    )


@ENTRIES
def test_backend_that_is_not_installed(entry, good):
    text = message(collage.BackendUnavailableError, entry, good, [HOST, "errors_test_missing"])
    assert text == (
        "backend 'errors_test_missing' is not available: libmissing.so is not installed; "
        "install what it names, or leave it out of the target list"
    )


def test_onednn_whose_library_is_gone():
    code = (
        "import tvm\n"
        "from tvm import relay\n"
        "x = relay.var('x', shape=(2, 4))\n"
        "mod = tvm.IRModule.from_expr(relay.nn.relu(x))\n"
        "config = {'relay.collage.enable_collage': True}\n"
        "with tvm.transform.PassContext(config=config):\n"
        "    relay.build(mod, target=['llvm', 'dnnl'])\n"
    )
    missing = {"COLLAGE_ONEDNN_LIBRARY": "/nonexistent/libdnnl.so.3"}
    done = tvm_forks.run(code, env={**os.environ, **missing})
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert "BackendUnavailableError: backend 'dnnl' is not available: " in last
    assert "/nonexistent/libdnnl.so.3" in last
    assert last.endswith("install what it names, or leave it out of the target list")


CPU = tvm.target.codegen.llvm_get_system_cpu()
# Targets without a host to compile for -> what is said, as a pattern.
HOST_ERRORS = {
    ("llvm", "llvm -mcpu=core-avx2", "dnnl"): (
        r"the target list has 2 host targets \('llvm .*-mcpu=core-avx2'\): give one.*other targets "
        "must be external backends"
    ),
    ("llvm -mcpu=znver44", "dnnl"): (
        r"the host target has -mcpu=znver44, which is no CPU of x86_64 for LLVM, did you mean "
        rf"'znver4'\? This machine's is -mcpu={CPU}, and collage.host_target\(\) names all of it"
    ),
    ("llvm -mcpu=native",): (
        rf".* no CPU of x86_64 for LLVM\. This machine's is -mcpu={CPU}, and .*"
    ),
    ("dnnl",): (
        r"the targets \(dnnl\) are all external backends: put a host target first, "
        r"e.g. \[collage.host_target\(\), ...\]"
    ),
}


@ENTRIES
@pytest.mark.parametrize("targets", HOST_ERRORS)
def test_targets_without_one_host_to_compile_for(entry, targets, good):
    text = message(collage.HostTargetError, entry, good, list(targets))
    assert re.fullmatch(HOST_ERRORS[targets], text), text


def test_a_cpu_of_another_architecture():
    """It is LLVM's to know, which for a name that is none ends the process when asked."""
    for triple in ("aarch64-linux-gnu", "none-at-all"):
        parse_targets(f"llvm -mtriple={triple} -mcpu=cortex-a72")
    with pytest.raises(collage.HostTargetError, match="cortex-a72, which is no CPU of x86_64"):
        parse_targets("llvm -mcpu=cortex-a72")


def test_no_target_at_all(good):
    text = message(collage.HostTargetError, build, good, [])
    assert text.startswith("the target list is empty: give a host target")
    assert "Target is not set" in message(ValueError, parse_targets, None)


def test_a_backend_named_twice_is_one():
    assert len(parse_targets([HOST, "dnnl", "dnnl"]).external) == 1


@ENTRIES
def test_module_without_main(entry, good):
    mod = tvm.IRModule({relay.GlobalVar("f"): good["main"]})
    assert message(collage.ModuleError, entry, mod, [HOST, "dnnl"]) == (
        "the module has no function 'main' (it has f): name the function to compile 'main'"
    )


@ENTRIES
@pytest.mark.parametrize("what, name", [(None, "NoneType"), ("text", "str")])
def test_what_is_no_module(entry, what, name):
    text = message(collage.ModuleError, entry, what, [HOST, "dnnl"])
    assert text.startswith(f"expected a tvm.IRModule, got {name}: ") and "from_onnx" in text


@ENTRIES
def test_ill_typed_module(entry, capfd):
    x, y = relay.var("x", shape=(1, 3, 8, 8)), relay.var("y", shape=(5, 7))
    mod = tvm.IRModule({relay.GlobalVar("main"): relay.Function([x, y], relay.add(x, y))})
    assert message(collage.ModuleError, entry, mod, [HOST, "dnnl"]) == (
        "the module is ill-typed: Incompatible broadcast type TensorType([1, 3, 8, 8], float32) "
        "and TensorType([5, 7], float32)"
    )
    assert capfd.readouterr().err == ""


CHECK = """
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.compile.module_check import check_module

x = relay.var("x", shape=(3,))
try:
    check_module(tvm.IRModule.from_expr(relay.reshape(x, SHAPE)))
except collage.ModuleError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "shape, said", [("(3, 1)", ""), ("(2, -1)", "reshaped shape(2,1) are not compatible")]
)
def test_a_process_in_which_a_module_was_checked_ends_as_usual(shape, said):
    """The thread's own PassContext outlives Python, and holds no renderer of ours; TVM leaves the
    diagnostics of a pass that failed to it."""
    done = tvm_forks.run(CHECK.replace("SHAPE", shape))
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout and bool(done.stdout) == bool(said)


def test_a_users_own_renderer_of_diagnostics_comes_back(good):
    seen = []
    tvm.ir.diagnostics.override_renderer(lambda context: seen.append(context))
    try:
        x, y = relay.var("x", shape=(2, 2)), relay.var("y", shape=(5, 7))
        mod = tvm.IRModule({relay.GlobalVar("main"): relay.Function([x, y], relay.add(x, y))})
        message(collage.ModuleError, build, mod, [HOST, "dnnl"])
        assert seen == []
        with pytest.raises(tvm.error.DiagnosticError):
            relay.transform.InferType()(mod)
        assert len(seen) == 1
    finally:
        tvm.ir.diagnostics.override_renderer(None)


@pytest.mark.parametrize("kind", ["aot", "debug"])
def test_executor_that_cannot_call_external_parts(kind, good):
    expected = (
        f"the {kind} executor cannot call parts of external backends (dnnl): use the graph "
        "executor or the VM, or give the host target alone"
    )
    assert message(collage.ExecutorError, create_executor, good, [HOST, "dnnl"], kind) == expected
    if kind == "aot":
        executor = relay.backend.Executor("aot")
        found = message(collage.ExecutorError, build, good, [HOST, "dnnl"], executor=executor)
        assert found == expected
        given = [good, None, [HOST, "dnnl"]]
        options = {"executor": executor}
        found = message(collage.ExecutorError, collage.optimize, *given, build_options=options)
        assert found == expected


def test_runtime_that_cannot_call_external_parts(good):
    runtime = relay.backend.Runtime("crt", {"system-lib": True})
    assert message(collage.ExecutorError, build, good, [HOST, "dnnl"], runtime=runtime) == (
        "the crt runtime cannot call parts of external backends (dnnl), which are modules of TVM's "
        "C++ runtime: use Runtime('cpp'), or give the host target alone"
    )


def test_option_of_a_wrong_type(good):
    config = {"relay.collage.enable_collage": "on"}
    text = message(TypeError, tvm.transform.PassContext, config=config)
    assert text == "option relay.collage.enable_collage takes a bool, got 'on'"


def test_option_of_a_wrong_value(good):
    config = {"relay.collage.enable_collage": True, "relay.collage.progress": "loud"}
    with tvm.transform.PassContext(config=config):
        text = message(ValueError, relay.build, good, target=[HOST, "dnnl"])
    assert "option relay.collage.progress takes one of" in text
    assert "'loud'" in text


def test_every_error_is_a_collage_error_and_one_that_python_knows():
    for error, base in [
        (collage.UnknownBackendError, ValueError),
        (collage.BackendUnavailableError, RuntimeError),
        (collage.HostTargetError, ValueError),
        (collage.ModuleError, ValueError),
        (collage.ExecutorError, ValueError),
    ]:
        assert issubclass(error, collage.CollageError) and issubclass(error, base)


def test_a_host_target_that_is_no_cpu(good):
    with tvm.transform.PassContext(config={"relay.collage.enable_collage": True}):
        text = message(collage.HostTargetError, relay.build, good, target=["cuda", "dnnl"])
    assert text == (
        "the host target is 'cuda': Collage places parts on the CPU so far, "
        "so put collage.host_target() first"
    )


@pytest.mark.parametrize("entry", [build, create_executor])
def test_open_dimensions_are_refused_by_name_before_anything_is_measured(entry, monkeypatch):
    monkeypatch.setattr("tvm.relay.collage.optimizer.open_session", pytest.fail)
    mod = parse("def @main(%x: Tensor[(?, 8), float32], %y: Tensor[(8), float32]) { %x + %y }")
    assert message(collage.ModuleError, entry, mod, [HOST, "dnnl"]) == (
        "inputs have open dimensions (x [?, 8]): use relay.vm.compile, or import the model with "
        "its shapes, e.g. shape={'x': (1, 8)}; the graph executor takes fixed shapes alone"
    )


def test_an_input_that_params_bind_is_not_open():
    mod = parse("def @main(%x: Tensor[(?, 8), float32], %y: Tensor[(?), float32]) { %x + %y }")
    assert open_inputs(mod) == {"x": [None, 8], "y": [None]}
    assert open_inputs(mod, {"x": None}) == {"y": [None]}
    assert open_inputs(tvm.IRModule()) == open_inputs("no module") == {}
