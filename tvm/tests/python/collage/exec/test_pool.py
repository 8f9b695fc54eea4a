# SPDX-License-Identifier: Apache-2.0
"""Worker processes: what hangs, dies or babbles costs one job, and nothing is left behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap

import measure_fakes
import pytest
from fault_runs import wait_until
from measure_fakes import REPLIES, measure
from tvm.relay.collage.exec.reply import parse_reply

Job, WorkerPool = measure.Job, measure.WorkerPool
PERFORM = "measure_fakes:perform"


def deed(name, seconds=60.0):
    arguments = {"function": PERFORM, "arguments": {"deed": name}}
    return Job("call", arguments, seconds)


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(2) as pool:
        yield pool


def group_is_gone(pid):
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    # killed, but not yet reaped by whoever adopted it
    states = subprocess.run(
        ["ps", "-o", "stat=", "-g", str(pid)], capture_output=True, text=True
    ).stdout.split()
    return all(s.startswith("Z") for s in states)


def test_a_bad_job_costs_itself_alone(pool):
    names = [1, "segfault", 2, "exit", 3, "raise", 4, "hang", 5, "garbage", "sysexit", "memory", 6]
    jobs = [deed(n, 1.0 if n == "hang" else 60.0) for n in names]
    replies = dict(zip(names, pool.run(jobs), strict=True))
    for n in range(1, 7):
        assert replies[n].value == [float(n)] * 9
    assert replies["garbage"].value == [1e-3] * 9
    assert replies["segfault"].outcome == "died" and "SIGSEGV" in replies["segfault"].message
    assert replies["exit"].outcome == "died" and "exited with code 0" in replies["exit"].message
    assert replies["hang"].outcome == "timeout"
    for name, kind in (("raise", "ValueError"), ("sysexit", "SystemExit")):
        assert (replies[name].outcome, replies[name].type) == ("failed", kind)
    assert replies["raise"].message == "ValueError: no kernel for this"
    assert "MemoryError" in replies["memory"].type


def test_replies_come_in_order_and_are_announced(pool):
    seen = []
    replies = pool.run([deed(i) for i in range(1, 20)], on_reply=lambda i, r: seen.append(i))
    assert [r.value[0] for r in replies] == [float(i) for i in range(1, 20)]
    assert sorted(seen) == list(range(19))


def test_workers_stay_for_the_next_jobs_and_one_that_has_died_is_replaced():
    with WorkerPool(1) as pool:
        first, second = (pool.run([Job("ping", {}, 60.0)])[0].value["pid"] for _ in range(2))
        assert first == second
        os.kill(first, signal.SIGKILL)
        reply = pool.run([Job("ping", {}, 60.0)])[0]
        assert reply.outcome == "ok" and reply.value["pid"] != first


def test_unknown_functions_and_commands_fail_alone(pool):
    nowhere = Job("call", {"function": "nowhere:at_all", "arguments": {}}, 60.0)
    time = Job("time", {"runs": 1, "number": 1, "warm_seconds": 0.0}, 60.0)
    replies = pool.run([nowhere, Job("fly", {}, 60.0), time])
    assert [r.outcome for r in replies] == ["failed"] * 3
    assert "'nowhere:at_all' cannot be imported" in replies[0].message
    assert "no contestant is open" in replies[2].message


def test_children_of_a_hung_candidate_die_too():
    worker = measure.WorkerProcess()
    arguments = {"function": PERFORM, "arguments": {"deed": "hang_with_child"}}
    assert worker.call("call", arguments, 1.0).outcome == "timeout"
    assert wait_until(lambda: group_is_gone(worker.pid))


def test_memory_limit():
    options = measure.WorkerOptions(memory_limit_bytes=1 << 30)
    with WorkerPool(1, options) as pool:
        eaten, reserved, good = pool.run([deed("eat"), deed("reserve"), deed(1)])
    assert (eaten.outcome, good.outcome) == ("died", "ok")
    assert "GB of memory, more than its limit of 1.07 GB" in eaten.message
    assert reserved.outcome == "ok", "address space that is not touched is no memory"


def test_what_is_no_reply_on_the_reply_channel_costs_its_writer(pool):
    assert {name for name, reply in REPLIES.items() if parse_reply(reply.rstrip()) is not None} == {
        "other request"
    }
    forgers = ["half a line", "no object", "other request"]
    *forged, good = pool.run([*(deed(f"forge {name}") for name in forgers), deed(1)])
    assert [reply.outcome for reply in forged] == ["died"] * 3 and good.outcome == "ok"
    assert all("reply channel" in reply.message for reply in forged)


def test_a_worker_that_cannot_start_says_so():
    options = measure.WorkerOptions(environment={"PYTHONPATH": "/nowhere", "PYTHONHOME": "/no"})
    with (
        WorkerPool(1, options) as pool,
        pytest.raises(measure.WorkerStartError, match="import tvm"),
    ):
        pool.run([deed(1)])
    options = measure.WorkerOptions(imports=["json", "no.such.backend"])
    with WorkerPool(1, options) as pool, pytest.raises(measure.WorkerStartError) as error:
        pool.run([deed(1)])
    assert "No module named 'no'" in str(error.value)
    assert "It imports tvm, json, no.such.backend" in str(error.value)
    with pytest.raises(ValueError, match="at least 1 worker"):
        WorkerPool(0)


def test_files_in_the_current_folder_do_not_stand_for_pythons_own(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise RuntimeError('not the one')")
    (tmp_path / "users_module.py").write_text("def answer():\n    return 42\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    options = measure.WorkerOptions(imports=["users_module"])
    job = Job("call", {"function": "users_module:answer", "arguments": {}}, 60.0)
    with WorkerPool(1, options) as pool:
        assert pool.run([job])[0].value == 42


def test_large_requests_and_replies(pool):
    text = "x" * 3_000_000
    job = Job("call", {"function": "measure_fakes:echo", "arguments": {"text": text}}, 60.0)
    assert pool.run([job])[0].value == text


def test_an_exception_of_the_caller_kills_busy_workers(pool):
    pool.run([deed(1)])  # so that the clean process is there before
    with WorkerPool(2) as pool:

        def interrupt(index, reply):
            raise KeyboardInterrupt

        before = set(children())
        with pytest.raises(KeyboardInterrupt):
            pool.run([deed("hang", 600.0), deed(1)], on_reply=interrupt)
        # the worker that answered is still there for the next job
        assert wait_until(lambda: len(set(children()) - before) == 1)
        assert pool.run([deed(1)])[0].outcome == "ok"


def test_garbage_collection_kills_workers():
    pool = WorkerPool(1)
    pid = pool.run([Job("ping", {}, 60.0)])[0].value["pid"]
    del pool
    gc.collect()
    assert wait_until(lambda: group_is_gone(pid))


# SIGINT as in a terminal: tests that run in the background ignore it and pass that on.
DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {here!r})
from fault_search import FORKED
from measure_fakes import measure
from tvm.relay.collage.exec import launch
launch.forks = FORKED  # whose workers need not import TVM again
pool = measure.WorkerPool({workers})
jobs = [measure.Job("ping", {{}}, 60.0)] * 8
print(*{{r.value["pid"] for r in pool.run(jobs)}}, flush=True)
hang = {{"function": "measure_fakes:hang", "arguments": {{}}}}
if {way!r} != "return":
    pool.run([measure.Job("call", hang, 600.0)] * {workers})
"""


@pytest.mark.parametrize("way, workers", [("return", 1), ("SIGINT", 1), ("SIGKILL", 2)])
def test_no_process_outlives_the_driver(way, workers):
    here = os.path.dirname(measure_fakes.__file__)
    driver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DRIVER).format(here=here, way=way, workers=workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    pids = [int(p) for p in driver.stdout.readline().split()]
    assert pids
    if way != "return":
        driver.send_signal(getattr(signal, way))
    driver.communicate(timeout=60)
    assert wait_until(lambda: all(group_is_gone(pid) for pid in pids))


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
