# SPDX-License-Identifier: Apache-2.0
"""The example of a backend of one's own: right, short, and what the page shows."""

import numpy as np
import own_backend
import pytest
import tvm
from relay_text import parse
from tree import ROOT
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import backends
from tvm.relay.collage.backends import own_code
from tvm.relay.collage.compile import build_library

PAGE = (ROOT / "docs/backends/own.md").read_text(encoding="utf-8")
FAST = {"measure_seconds": 0.02, "guard_rounds": 3, "guard_seconds": 0.1, "workers": 1}


def test_the_example_is_short_and_the_page_shows_it():
    text = (ROOT / "demos/own_backend.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 70
    assert f"```python\n{text}```" in PAGE


def test_it_runs():
    """main itself compares the outputs of what ships with numpy's."""
    result = own_backend.main("rms_norm -parallel=0", progress="quiet", **FAST)
    compared = {item.name: item.cost.status for item in result.guard.comparisons}
    assert compared["rms_norm"] == "measured"  # so its outputs were TVM's
    [report] = result.partitioned
    assert not report.failed


NET = """def @main(%x: Tensor[(3, 8), float32]) {
  %0 = multiply(%x, %x);
  %1 = mean(%0, axis=[AXIS], keepdims=True);
  %2 = add(%1, 0.5f);
  %3 = rsqrt(%2);
  multiply(%x, %3)
}"""


@pytest.mark.parametrize("target", ["rms_norm", "rms_norm -parallel=0"])
def test_its_outputs_are_those_of_the_model(target):
    mod = parse(NET.replace("AXIS", "-1"))
    taken = backends.greedy_partition(mod, "rms_norm", target=tvm.target.Target(target))
    assert 'Composite="rms_norm.norm"' in str(taken)
    data = np.random.default_rng(1).normal(size=(3, 8)).astype("float32")
    outputs = []
    for each in (mod, taken):
        library = build_library(each, "llvm")
        module = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
        module.run(x=data)
        outputs.append(module.get_output(0).numpy())
    np.testing.assert_allclose(*outputs, rtol=1e-5)


def test_what_it_does_not_take():
    text = NET.replace("AXIS", "-1")
    other_axis, double = NET.replace("AXIS", "0"), text.replace("float32", "float64")
    for net in (other_axis, double.replace("0.5f", "0.5f64")):
        assert "rms_norm" not in str(backends.greedy_partition(parse(net), "rms_norm"))
    call = parse(double.replace("0.5f", "0.5f64"))["main"].body
    assert own_backend.RmsNorm().is_float(call) == "it is not float32"


@pytest.mark.parametrize("shape, is_taken", [((), True), ((3, 1), False), ((8,), False)])
def test_epsilon_is_one_number(shape, is_taken):
    """The C reads one; one a row, or a column, is TVM's."""
    x = relay.var("x", shape=(3, 8))
    mean = relay.mean(x * x, axis=-1, keepdims=True)
    norm = x * relay.rsqrt(mean + relay.const(np.full(shape, 0.5, "float32")))
    taken = backends.greedy_partition(tvm.IRModule.from_expr(norm), "rms_norm")
    assert ('Composite="rms_norm.norm"' in str(taken)) == is_taken


def test_without_a_compiler_it_is_not_available(monkeypatch):
    monkeypatch.setattr(own_code.cc, "get_cc", lambda: None)
    with pytest.raises(collage.BackendUnavailableError, match="there is no C compiler"):
        collage.optimize(parse(NET.replace("AXIS", "-1")), targets=["llvm", "rms_norm"])
