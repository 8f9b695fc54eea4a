# SPDX-License-Identifier: Apache-2.0
"""TVM's own tests of its oneDNN backend, run on our codegen and runtime from outside the tree.

Set COLLAGE_TVM_TESTS to a checkout of TVM v0.19.0; without it these tests are skipped. They are not
copied here. docs/backends/dnnl.md says more. Nearly all of their time is TVM compiling,
ten builds for each shape, each on one thread, so they run in as many processes as there are cores.
"""

import contextlib
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tree import child_environment
from tvm_collage.threads import default_threads
from upstream_files import tvm_file

FILE = Path("tests", "python", "contrib", "test_dnnl.py")
COUNT = 50
# Variant of TVM's tests -> why it is left out; the file has 80 tests with them.
LEFT_OUT = {"[compile]": "it builds what the same test's [run] builds, which runs that as well"}
# Test -> why it does not pass.
KNOWN: dict[str, str] = {}
LIMIT_SECONDS = 7200

# TVM reads all facts about its library again for each extent of each shape that it compiles; they
# cannot change, so one reading will do. TVM's file takes any AVX-512 for bfloat16, as oneDNN does;
# on other CPUs it leaves bfloat16 out.
PLUGIN = f"""
import functools
import os

import tvm
from tvm.relay.backend import te_compiler
from tvm.relay.collage.backends import get_backend

compiled = []
backend = type(get_backend("dnnl"))
original = backend.compile

def compile(self, function):
    compiled.append(function)
    return original(self, function)

backend.compile = compile
te_compiler.libinfo = functools.cache(te_compiler.libinfo)

def pytest_collection_modifyitems(items):
    taken = [item for item in items if not item.name.endswith({tuple(LEFT_OUT)})]
    items[:] = taken[int(os.environ["SHARE"]) :: int(os.environ["SHARES"])]

def pytest_sessionfinish(session):
    print("\\nour partitions:", len(compiled))
"""


@pytest.mark.timeout(LIMIT_SECONDS)
def test_tvms_dnnl_tests_pass_on_ours(tmp_path):
    shutil.copy(tvm_file(FILE), tmp_path)
    (tmp_path / "count_partitions.py").write_text(PLUGIN)
    results, partitions = {}, 0
    for said in run_in_shares(tmp_path, default_threads()):
        lines = re.findall(r"^(PASSED|FAILED|SKIPPED) \S+?::(\S+)", said, re.MULTILINE)
        results.update({name: state for state, name in lines})
        counts = re.findall(r"our partitions: (\d+)", said)
        assert len(counts) == 1, said
        partitions += int(counts[0])
    assert len(results) == COUNT, results
    assert {name for name, state in results.items() if state != "PASSED"} == set(KNOWN)
    # For the graph executor and for the VM, in each test but one or two.
    assert partitions > 2 * (COUNT - 2)


def run_in_shares(folder: Path, shares: int) -> list[str]:
    """What each of so many processes said that ran every n-th test of the file."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=short", "-p", "count_partitions"]
    outputs = [folder / f"share_{share}.txt" for share in range(shares)]
    end = time.monotonic() + LIMIT_SECONDS
    with contextlib.ExitStack() as running:
        processes = []
        for share, output in enumerate(outputs):
            variables = {"SHARE": str(share), "SHARES": str(shares)}
            process = subprocess.Popen(
                [*command, FILE.name],
                cwd=folder,
                env=child_environment(folder, **variables),
                stdout=running.enter_context(output.open("w")),
                stderr=subprocess.STDOUT,
            )
            processes.append(process)
            running.callback(process.wait)
            running.callback(process.kill)
        for process in processes:
            process.wait(end - time.monotonic())
    return [output.read_text() for output in outputs]
