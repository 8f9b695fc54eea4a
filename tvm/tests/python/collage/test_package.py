# SPDX-License-Identifier: Apache-2.0
"""The names of the package: those of TVM's own relay.collage keep working, ours load when asked."""

import ast
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tvm
from relay_text import make_backend, parse, partition
from tvm import relay
from tvm.relay import collage
from tvm.relay.dataflow_pattern import is_op, wildcard

STOCK = Path(sysconfig.get_path("platlib"), "tvm", "relay", "collage")


def stock_names(file):
    """What the stock module defines or imports at its top level."""
    names = set()
    for node in ast.parse((STOCK / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets)
        elif isinstance(node, ast.ImportFrom) and file == "__init__.py":
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def test_every_name_of_stocks_package_exists():
    names = stock_names("__init__.py")
    assert {"MEASURE_NUMBER", "MockCostEstimator", "CustomCostEstimator"} <= names
    assert [name for name in names if not hasattr(collage, name)] == []


def test_every_name_of_stocks_module_exists():
    names = stock_names("collage.py") - {"logger"}
    assert {"arg_for", "vm_estimate_seconds", "estimate_seconds"} <= names
    import tvm.relay.collage.collage as module

    assert [name for name in names if not hasattr(module, name)] == []


def test_every_public_name_loads_and_is_listed():
    assert [name for name in collage.__all__ if not hasattr(collage, name)] == []
    assert set(collage.__all__) <= set(dir(collage))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'tvm.relay.collage' has no attribute 'nope'"):
        _ = collage.nope


def test_import_of_tvm_leaves_our_heavy_modules_for_their_first_use():
    code = (
        "import sys, tvm\n"
        "heavy = ('exec', 'costs', 'timing', 'build', 'optimizer', 'backends.dnnl')\n"
        "print([name for name in heavy if 'tvm.relay.collage.' + name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_pass_is_ours():
    target = make_backend("package_test", [("package_test.relu", is_op("nn.relu")(wildcard()))])
    count = tvm.get_global_func("collage.NumPartitionRuns")
    before = count()
    mod = partition(
        parse("def @main(%x: $T) { nn.relu(%x) }"), [target], {"llvm": 2, "package_test": 1}
    )
    assert count() == before + 1
    assert len(mod.functions) == 2


def test_arg_for_is_a_random_tensor_of_the_type():
    from tvm.relay.collage.collage import arg_for

    array = arg_for(relay.TensorType((2, 3), "float32"), tvm.cpu()).numpy()
    assert array.shape == (2, 3) and array.dtype == "float32"
    assert (array >= -1).all() and (array < 1).all() and array.std() > 0
    with pytest.raises(TypeError, match="arg_for takes a TensorType, got TupleType"):
        arg_for(relay.TupleType([]), tvm.cpu())


def test_vm_estimate_seconds_times_a_vm():
    from tvm.relay.collage.collage import arg_for, vm_estimate_seconds
    from tvm.runtime.vm import VirtualMachine

    mod = parse("def @main(%x: $T) { nn.relu(%x) }")
    machine = VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    args = {"x": arg_for(mod["main"].params[0].checked_type, tvm.cpu())}
    assert vm_estimate_seconds(tvm.cpu(), machine, "main", args).median > 0


def test_no_public_name_is_that_of_a_submodule():
    """Importing such a module would put it in the name's place."""
    names = collage._LAZY
    assert not {name for name in names if importlib.util.find_spec(f"{collage.__name__}.{name}")}
