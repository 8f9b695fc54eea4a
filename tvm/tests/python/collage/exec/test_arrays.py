# SPDX-License-Identifier: Apache-2.0
"""Inputs whose names are those of Python's or numpy's own arguments, end to end."""

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.backend import Executor
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.exec.arrays import save_arrays, set_inputs

# Parameters of set_input, savez, run, invoke; names that are no identifiers.
NAMES = ["key", "value", "file", "self", "args", "run", "func_name", "allow_pickle", "a b/c:0", "é"]


def net():
    """A dense layer of all inputs side by side, which tells them apart: (module, weight)."""
    weight = np.random.default_rng(0).standard_normal((16, 2 * len(NAMES))).astype("float32")
    variables = [relay.var(name, shape=(4, 2)) for name in NAMES]
    y = relay.nn.dense(relay.concatenate(variables, axis=1), relay.const(weight))
    return tvm.IRModule.from_expr(relay.Function(variables, y)), weight


def inputs():
    random = np.random.default_rng(1)
    return {name: random.standard_normal((4, 2)).astype("float32") for name in NAMES}


def check(library, weight):
    values = inputs()
    executor = library["default"](tvm.cpu())
    set_inputs(executor, values)
    executor["run"]()
    found = executor["get_output"](0).numpy()
    expected = np.concatenate([values[name] for name in NAMES], axis=1) @ weight.T
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_plans_of_inputs_with_any_name_are_measured_and_right():
    mod, weight = net()
    options = CollageOptions(
        enable_collage=True, measure_seconds=0.01, guard_rounds=2, workers=1, progress="quiet"
    )
    with tvm.transform.PassContext(opt_level=3, config=options.to_config()):
        library = relay.build(mod, target=[collage.host_target(), tvm.target.Target("dnnl")])
    plans = library.collage.guard.comparisons
    assert [item.Summary() for item in plans if not item.cost.is_usable] == []
    assert {"tvm", "dnnl"} <= {item.name for item in plans}
    assert all(item.output_error <= 1e-4 for item in plans)
    check(library, weight)


def test_inputs_are_set_whatever_their_names():
    mod, weight = net()
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", executor=Executor("aot"))
    check(library, weight)


def test_arrays_are_saved_under_any_name(tmp_path):
    file = tmp_path / "arrays.npz"
    arrays = {**inputs(), "": np.array(3), "empty": np.zeros((0, 2), "int8")}
    arrays["in Fortran's order"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    save_arrays(file, arrays)
    with np.load(file, allow_pickle=False) as saved:
        assert saved.files == list(arrays)
        for name, array in arrays.items():
            assert saved[name].dtype == array.dtype
            np.testing.assert_array_equal(saved[name], array)


def test_an_array_of_objects_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        save_arrays(tmp_path / "arrays.npz", {"x": np.array([object()])})
