# SPDX-License-Identifier: Apache-2.0
"""Linking without the C++ library: the same outputs, and what needs it is linked with it."""

import subprocess
import sys
import types

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.compile.library import can_leave_cpp_out, export

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other linkers")


@pytest.fixture(scope="module")
def factory():
    """Calls mathematics (exp, erf) and the compiler's conversions (half floats)."""
    x = relay.var("x", shape=(4, 33))
    half = relay.cast(relay.exp(x), "float16") + relay.const(np.float16(1.5))
    body = relay.erf(relay.cast(half, "float32")) + relay.tan(x)
    return build_library(tvm.IRModule.from_expr(relay.Function([x], body)), "llvm")


def outputs(library):
    module = graph_executor.GraphModule(tvm.runtime.load_module(str(library))["default"](tvm.cpu()))
    module.run(x=np.linspace(-1, 1, 4 * 33, dtype="float32").reshape(4, 33))
    return module.get_output(0).numpy()


def test_the_outputs_are_the_same_and_nothing_is_left_undefined(factory, tmp_path):
    fast, usual = tmp_path / "fast.so", tmp_path / "usual.so"
    assert can_leave_cpp_out(factory)
    export(factory, str(fast))
    factory.export_library(str(usual))
    np.testing.assert_array_equal(outputs(fast), outputs(usual))
    # In a process of its own, which has not loaded what TVM loads.
    code = f"import ctypes, os; ctypes.CDLL({str(fast)!r}, mode=os.RTLD_NOW)"
    subprocess.run([sys.executable, "-S", "-c", code], check=True, env={"COLLAGE_DISABLE": "1"})


def test_a_library_with_c_source_is_linked_as_tvm_does():
    source = tvm.get_global_func("runtime.CSourceModuleCreate")
    module = source('extern "C" int seven() { return 7; }', "cc", ["seven"], None)
    assert not can_leave_cpp_out(types.SimpleNamespace(module=module))


class Refusing:
    """Its compiler takes no options; the module is that of a real factory."""

    def __init__(self, factory):
        self.module, self.calls = factory.module, []

    def export_library(self, library, **keywords):
        self.calls.append(keywords)
        if "options" in keywords:
            raise RuntimeError("Compilation error: unrecognised option")


def test_a_compiler_that_refuses_is_asked_as_usual(factory):
    refusing = Refusing(factory)
    export(refusing, "library.so", cc="other")
    first, second = refusing.calls
    assert "-nostdlib" in first["options"] and first["cc"] == "other"
    assert second == {"cc": "other"}


def test_other_factories_export_as_they_do():
    class Other:
        def export_library(self, library, **keywords):
            self.got = library, keywords

    other = Other()
    export(other, "library.so", cc="x")
    assert other.got == ("library.so", {"cc": "x"})
