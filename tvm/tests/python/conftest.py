# SPDX-License-Identifier: Apache-2.0
"""Lets tests import the real tvm, and gives them quiet machines and quick workers.

The user's store of costs stays out of it: a test that wants a store names one of its own.
"""

import collections
import functools
import gc
import os
import shutil
import signal
import subprocess
import sys

import pytest

os.environ["COLLAGE_STORE"] = "none"
# Tests that run at once do not wait for each other, nor for a search of the user's.
os.environ["COLLAGE_CPU_LOCKS"] = "none"
# A shell's background jobs ignore Ctrl-C, and so would the processes that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup has them ignore

# pytest's importlib mode takes this tree's folder tvm/ for the package of that name.
if getattr(sys.modules.get("tvm"), "__file__", None) is None:
    sys.modules.pop("tvm", None)
    import tvm  # noqa: F401


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Files with slow tests first, also where those are left out, then those with the most tests: a
    process takes whole files, and a long one that begins last leaves the others idle."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    counts = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -counts[item.path], item.path))


def pytest_collection_finish():
    """What was imported and collected stays: it need not be looked through for garbage again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quiet_machine():
    """What is warned of, and measured again, must not depend on what else the machine does."""
    from tvm.relay.collage.machine import load

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
        patch.setattr(load, "read_usage", lambda workers: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_builds():
    """TVM's own builds ask once how TVM was compiled, as ours do (compile/fast_passes.py), and not
    for each dimension, which takes a quarter of a small kernel's build."""
    from tvm.relay.backend import te_compiler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(te_compiler, "libinfo", functools.cache(te_compiler.libinfo))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_workers():
    """Worker processes are forked also where tests change variables that nothing reads early."""
    import tvm_forks
    from tvm.relay.collage.exec import clean_process

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean_process, "READ_LATE", tvm_forks.READ_LATE)
        yield


@pytest.fixture(scope="module")
def forked_workers():
    """Worker processes are forked from this one and need not import TVM, nor can they run its
    kernels: for tests whose workers do nothing real."""
    from fault_search import FORKED
    from tvm.relay.collage.exec import launch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "forks", FORKED)
        yield


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The C++ example (demos/cpp_deploy), built."""
    from tree import ROOT

    if not shutil.which("g++") or not shutil.which("make"):
        pytest.skip("needs g++ and make")
    build_directory = tmp_path_factory.mktemp("cpp")
    command = ["make", "-C", ROOT / "demos" / "cpp_deploy"]
    command += [f"BUILD={build_directory}", f"PYTHON={sys.executable}"]
    subprocess.run(command, check=True, timeout=300)
    return build_directory / "cpp_deploy"


@pytest.fixture
def fakes(monkeypatch):
    """Mock costs, a first answer as "first" says, by default none, and a guard that builds nothing
    and lets the last plan win."""
    from first_answers import answer_first
    from tvm.relay.collage import MockCostEstimator, optimizer
    from tvm.relay.collage.measure import Comparison, Cost, Interval
    from tvm.relay.collage.plans import whole_plans
    from tvm.relay.collage.plans.first_answer import FirstAnswer
    from tvm.relay.collage.plans.graph_search import GuardResult, GuardUnavailable

    seen = {}

    def guard(plans, reference, how, **more):
        seen.update(plans=plans, reference=reference, how=how, **more)
        if "unavailable" in seen:
            raise GuardUnavailable(seen["unavailable"])
        winner = seen.get("winner", list(plans)[-1])
        rows = [Comparison(k, Cost.measured([1e-3] * 9), Interval(1, 1, 1), 0.0) for k in plans]
        return GuardResult(rows, winner, {name: f"library of {name}" for name in plans})

    monkeypatch.setattr(
        optimizer, "CostEstimator", lambda *_: MockCostEstimator({"llvm": 10, "dnnl": 1})
    )
    answer_first(monkeypatch, lambda: seen.get("first", FirstAnswer()))
    monkeypatch.setattr(whole_plans, "guard", guard)
    return seen
