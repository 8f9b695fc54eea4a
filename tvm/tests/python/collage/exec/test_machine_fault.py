# SPDX-License-Identifier: Apache-2.0
"""Faults of the machine: never a fact of a candidate, not kept, tried again, or one clear error."""

import shutil
import signal
from types import SimpleNamespace

import pytest
import tvm
from measure_fakes import DEEDS, fake_candidate, fake_options, measure
from relay_text import parse
from store_rows import FAKE_ENVIRONMENT
from tvm.relay.collage import CollageOptions, doctor, optimize
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.registry import why_not_here
from tvm.relay.collage.errors import MachineError
from tvm.relay.collage.exec import machine_fault
from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.machine.compiler import find_compiler, why_it_does_not_link
from tvm.relay.collage.measure import WorkerProcess, candidate_module
from tvm.relay.collage.store import CostStore, StoredCosts

# What a step does -> the kind of fault, and what its message says.
FAULTS = {
    "no space": ("folder", "OSError: [Errno 28]"),
    "no quota": ("folder", "OSError: [Errno 122]"),
    "wrapped": ("folder", "ValueError: cannot save the kernel"),
    "limit": ("folder", "OSError: [Errno 27]"),
    "no folder": ("folder", "killed by SIGBUS"),
    "no files": ("resources", "OSError: [Errno 24]"),
    "no processes": ("resources", "BlockingIOError: [Errno 11]"),
    "no memory": ("memory", "OSError: [Errno 12]"),
    "memory": ("memory", "MemoryError: Unable to allocate"),
    "killed": ("killed", "killed by SIGKILL"),
    "terminated": ("killed", "killed by SIGTERM"),
}
OWN = {"no permission": "PermissionError", "segfault": "SIGSEGV", "raise": "ValueError"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "costs.sqlite"


def estimator(path, **changes):
    options = fake_options(workers=1, **changes)
    store = StoredCosts(CostStore(path), options, lambda _: "7", environment=FAKE_ENVIRONMENT)
    return measure.MeasuredCostEstimator(options, store=store)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("step", ["build", "run"])
def test_a_fault_of_the_machine_is_told_from_a_candidates_own_and_not_kept(path, step):
    candidates = []
    for deed in {**FAULTS, **OWN}:  # between others: in a row they would end the search
        candidates += [fake_candidate(deed, **{step: deed}), fake_candidate(f"after {deed}")]
    with estimator(path, batch=2) as first:
        costs = dict(zip([c.hash for c in candidates], first.estimate(candidates), strict=True))
        assert first.counts()["failed"]["machine_fault"] == len(FAULTS)
    for deed, (_, message) in FAULTS.items():
        assert (deed, costs[deed].status) == (deed, "machine_fault")
        assert costs[deed].message.startswith(f"{step}: ") and message in costs[deed].message
    for deed, message in OWN.items():
        assert costs[deed].status != "machine_fault" and message in costs[deed].message
    with CostStore(path) as store:
        kept = {row.key.candidate for row in store.rows()}
    assert kept == set(costs) - set(FAULTS)
    with estimator(path) as mended:
        again = mended.estimate([fake_candidate(deed) for deed in FAULTS])
    assert [cost.status for cost in again] == ["measured"] * len(FAULTS)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("deed", FAULTS)
def test_the_kind_of_a_fault(deed):
    call = {"function": f"{__name__}:perform", "arguments": {"deed": deed}}
    with measure.WorkerPool(1) as pool:
        [reply] = pool.run([measure.Job("call", call, 30)])
    assert reply.fault == FAULTS[deed][0] and reply.fault in machine_fault.ADVICE


def perform(deed):
    DEEDS[deed]()


@pytest.mark.usefixtures("forked_workers")
def test_each_is_tried_once_more_at_once_and_whenever_it_is_asked_for(tmp_path, path):
    candidate = fake_candidate("a", build="no space", tried=str(tmp_path / "log"))
    with estimator(path) as one:
        assert one.estimate([candidate])[0].status == "machine_fault"
        assert one.estimate([candidate])[0].status == "machine_fault"
    assert (tmp_path / "log").read_text().count("build") == 4


@pytest.mark.usefixtures("forked_workers")
def test_where_going_on_is_useless_one_error_says_what_to_do(path):
    batch = [fake_candidate("good")]
    batch += [fake_candidate(f"bad {k}", build="no space") for k in range(10)]
    said = r"3 candidates in a row .*Errno 28.* set TMPDIR"
    with estimator(path) as one, pytest.raises(MachineError, match=said) as error:
        one.estimate(batch)
    assert "\n" not in str(error.value)
    with estimator(path) as mended:
        assert mended.estimate([fake_candidate(f"bad {k}") for k in range(3)])


@pytest.mark.usefixtures("forked_workers")
def test_candidates_that_need_too_much_memory_do_not_end_a_search(path):
    with estimator(path) as one:
        costs = one.estimate([fake_candidate(f"{k}", "memory") for k in range(5)])
    assert [cost.status for cost in costs] == ["machine_fault"] * 5


def test_without_a_temporary_folder_one_error_says_so(monkeypatch, path, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with estimator(path) as one, pytest.raises(MachineError, match="No such file.*set TMPDIR"):
        one.estimate([fake_candidate("a")])


def test_counters_and_folders_of_the_kernel(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 1\noom_kill 3\n")
    assert machine_fault.kills_for_memory(str(tmp_path / "vmstat")) == 3
    assert machine_fault.kills_for_memory(str(tmp_path / "none")) == 0
    assert machine_fault.fault_of_folder(str(tmp_path)) == ""
    assert machine_fault.fault_of_folder(str(tmp_path / "none")) == "folder"


def test_a_death_while_the_kernel_killed_for_memory_is_the_machines(tmp_path, monkeypatch):
    folder = str(tmp_path)
    monkeypatch.setattr(machine_fault, "kills_for_memory", lambda: 5)
    assert machine_fault.fault_of_death(-signal.SIGSEGV, folder, kills_before=5) == ""
    assert machine_fault.fault_of_death(3, folder, kills_before=5) == ""
    assert machine_fault.fault_of_death(3, folder, kills_before=4) == "memory"
    assert machine_fault.fault_of(ValueError("no kernel"), kills_before=4) == "memory"
    assert machine_fault.fault_of(ValueError("no kernel"), kills_before=5) == ""


def test_a_kill_for_memory_before_the_build_does_not_hide_a_broken_compiler(tmp_path, monkeypatch):
    """The kernel counts from its start on."""
    monkeypatch.setattr(machine_fault, "kills_for_memory", lambda: 5)
    broken = shutil.which("false")
    with (
        pytest.raises(machine_fault.MachineFault, match="cannot link an empty library") as error,
        machine_fault.blaming_the_compiler(broken),
    ):
        raise ValueError("it does not link")
    assert machine_fault.fault_of(error.value, kills_before=5) == "compiler"


def test_a_death_where_no_thread_can_be_started_is_the_machines(tmp_path, monkeypatch):
    """As of std::thread, which throws, and the process aborts."""

    def start(thread):
        raise RuntimeError("can't start new thread")

    folder = str(tmp_path)
    assert machine_fault.fault_of_death(-signal.SIGABRT, folder, kills_before=1 << 62) == ""
    monkeypatch.setattr("threading.Thread.start", start)
    fault = machine_fault.fault_of_death(-signal.SIGABRT, folder, kills_before=1 << 62)
    assert fault == "resources"


def test_a_backend_whose_library_is_gone_is_at_no_fault(monkeypatch):
    def fail():
        with machine_fault.blaming_the_library("dnnl", path_of(why_not_here)):
            raise ValueError("cannot open shared object file")

    with pytest.raises(ValueError, match="cannot open"):
        fail()
    monkeypatch.setattr(type(get_backend("dnnl")), "available", lambda self: "no libdnnl.so.3")
    with pytest.raises(machine_fault.MachineFault, match="backend 'dnnl': no libdnnl") as error:
        fail()
    assert machine_fault.fault_of(error.value, kills_before=0) == "library"


@pytest.fixture
def no_compiler(tmp_path, monkeypatch):
    """A PATH that has usual programs, but no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "ls"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    for name in ("CXX", "CC"):
        monkeypatch.delenv(name, raising=False)


NET = "def @main(%x: $T) { nn.relu(exp(%x)) }"


def test_without_a_compiler_one_error_comes_before_the_search(no_compiler, path, monkeypatch):
    monkeypatch.setattr(WorkerProcess, "__init__", lambda *_: pytest.fail("a worker is started"))
    options = CollageOptions(store=str(path), guard=False, progress="quiet")
    said = r"^no C\+\+ compiler.* CXX is not set.* Install g\+\+"
    with tvm.transform.PassContext(opt_level=3), pytest.raises(MachineError, match=said) as error:
        optimize(parse(NET), targets=["llvm", "dnnl"], options=options)
    assert "\n" not in str(error.value)
    with CostStore(path) as store:
        assert store.rows() == []
    seen = SimpleNamespace(compiler=find_compiler(), compiler_fault=why_it_does_not_link())
    finding = doctor.CHECKS["compiler"](seen)
    assert finding.state == "problem" and "g++" in finding.advice


def test_a_compiler_that_is_named_but_not_there(no_compiler, monkeypatch):
    monkeypatch.setenv("CXX", "/opt/none/g++")
    with (
        measure.MeasuredCostEstimator(fake_options()) as one,
        pytest.raises(MachineError, match=r"CXX names '/opt/none/g\+\+', which is no program"),
    ):
        one.estimate([fake_candidate("a")])


def test_a_compiler_that_breaks_is_no_fact_of_a_candidate(tmp_path, path, monkeypatch):
    """It links nothing any more; a real worker builds TVM's own candidate."""
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    candidate = candidate_module(parse(NET), "tvm", tvm.target.Target("llvm"))
    options = measure.MeasureOptions(workers=1, budget_seconds=0.01)
    store = StoredCosts(CostStore(path), options, lambda _: "", environment=FAKE_ENVIRONMENT)
    with measure.MeasuredCostEstimator(options, store=store) as one:
        [cost] = one.estimate([candidate])
    assert cost.status == "machine_fault" and "cannot link an empty library" in cost.message
    assert "it is broken" in cost.message
    with CostStore(path) as kept:
        assert kept.rows() == []
