# SPDX-License-Identifier: Apache-2.0
"""TVM's own tests of its oneDNN backend, run on our codegen and runtime from outside the tree.

Set COLLAGE_TVM_TESTS to a checkout of TVM v0.19.0; without it these tests are skipped. They are not
copied here. docs/backends/dnnl.md says what they cover. They take twenty minutes on two cores.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path("tests", "python", "contrib", "test_dnnl.py")
COUNT = 80
# Test -> why it does not pass.
KNOWN: dict[str, str] = {}

# TVM's file takes any AVX-512 for bfloat16, as oneDNN does; on other CPUs it leaves bfloat16 out.
PLUGIN = """
import tvm
from tvm.relay.collage.backends import get_backend

compiled = []
backend = type(get_backend("dnnl"))
original = backend.compile

def compile(self, function):
    compiled.append(function)
    return original(self, function)

backend.compile = compile

def pytest_sessionfinish(session):
    print("\\nour partitions:", len(compiled))
"""


def source() -> Path:
    given = os.environ.get("COLLAGE_TVM_TESTS")
    if not given:
        pytest.skip("COLLAGE_TVM_TESTS names no checkout of TVM v0.19.0")
    path = Path(given, FILE)
    if not path.is_file():
        pytest.skip(f"COLLAGE_TVM_TESTS={given} has no {FILE}")
    return path


@pytest.mark.timeout(7200)
def test_tvms_dnnl_tests_pass_on_ours(tmp_path):
    shutil.copy(source(), tmp_path)
    (tmp_path / "count_partitions.py").write_text(PLUGIN)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "count_partitions"]
    done = subprocess.run(
        [*command, FILE.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=7200,
    )
    lines = re.findall(r"^(PASSED|FAILED|SKIPPED) \S+?::(\S+)", done.stdout, re.MULTILINE)
    results = {name: state for state, name in lines}
    assert len(results) == COUNT, done.stdout + done.stderr
    assert {name for name, state in results.items() if state != "PASSED"} == set(KNOWN)
    (partitions,) = re.findall(r"our partitions: (\d+)", done.stdout)
    # For the graph executor and for the VM, in each test but one or two.
    assert int(partitions) > 2 * (COUNT - 2)
