# SPDX-License-Identifier: Apache-2.0
"""Numbers cross the FFI and are printed the same where the decimal point is a comma."""

import shutil
import subprocess
import sys

import pytest
from tree import child_environment

CODE = """
import locale
locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
assert locale.localeconv()["decimal_point"] == ","
import tvm
from tvm import relay
from tvm.relay import collage
x = relay.var("x", shape=(999,))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.leaky_relu(x, 0.25)))
mod = relay.transform.InferType()(mod)
print(collage.dataflow_graph(mod["main"])[2].attrs["alpha"])
first, *_ = collage.candidates(mod, [collage.host_target()], collage.AnalyticCostEstimator())
print(first.cost.Summary().split(" (")[0])
"""


def test_where_the_decimal_point_is_a_comma(tmp_path):
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed")
    made = [*["localedef", "-f", "UTF-8", "-i", "de_DE"], tmp_path / "de_DE.UTF-8"]
    if subprocess.run(made, capture_output=True).returncode > 1:  # 1 is a warning
        pytest.skip("localedef lacks the sources of German")
    env = child_environment(LOCPATH=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True)
    assert done.stdout == "0.25\nestimated 2.4 us\n", done.stderr
