# SPDX-License-Identifier: Apache-2.0
"""The clean process: what it forks is what would be started, and nothing is left of it."""

import contextlib
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tree
import tvm_forks
from fault_runs import wait_until
from measure_fakes import measure
from tvm.relay.collage.exec import launch
from tvm.relay.collage.exec.clean_process import ForkedWorker, WorkerForks

LIBRARIES = ("dnnl", "openvino", "onnxruntime.so", "mkl", "xnnpack")


@pytest.fixture
def forks(monkeypatch):
    """A clean process of the test's own, or none yet."""
    forks = WorkerForks()
    monkeypatch.setattr(launch, "forks", forks)
    yield forks
    forks.close()


@contextlib.contextmanager
def worker(**options):
    worker = measure.WorkerProcess(measure.WorkerOptions(**options))
    try:
        yield worker
    finally:
        worker.kill()


def ask(worker, function, **arguments):
    call = {"function": f"worker_state:{function}", "arguments": arguments}
    reply = worker.call("call", call, 60.0)
    assert reply.outcome == "ok", reply.message
    return reply.value


def kind_of(environment=None, seconds=60.0):
    """How a worker comes about: the type of its process."""
    scratch = launch.make_scratch()
    process, replies = launch.start_worker(environment or {}, scratch, seconds)
    launch.kill_worker(process, replies, scratch, os.getpid())
    assert process.returncode == -signal.SIGKILL
    return type(process)


def test_a_forked_worker_has_what_a_started_one_has(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLLAGE_STORE", str(tmp_path))  # one that is read late
    with worker() as forked:
        found = ask(forked, "state")
    monkeypatch.setattr(launch, "forks", type("None", (), {"fork": lambda *_, **__: None}))
    with worker() as started:
        expected = ask(started, "state")
    # Python gives a started one the reply's descriptor under the driver's number.
    assert len(found.pop("descriptors")) == len(expected.pop("descriptors"))
    assert found == expected
    assert found["parent"] == os.getpid() and found["leads"] == [True, True]
    assert found["knows itself"] and found["folder"] == str(tmp_path)


def test_workers_share_neither_numbers_nor_libraries_of_backends():
    with worker() as first, worker() as second:
        assert ask(first, "drawn") != ask(second, "drawn")
        opened = ask(first, "maps")
    assert "libtvm.so" in opened and not any(name in opened for name in LIBRARIES)


def test_what_differs_is_set_or_started():
    variable, *both = "TVM_NUM_THREADS", "7", "7"  # read late in tests
    with worker(environment={variable: "7"}) as forked:
        assert ask(forked, "read_variable", name=variable) == both
    assert kind_of() is ForkedWorker
    assert kind_of(environment={"OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]}) is ForkedWorker
    assert kind_of(environment={"OMP_NUM_THREADS": "7"}) is subprocess.Popen
    assert kind_of(environment={"COLLAGE_FLUSH_DENORMALS": "1"}) is subprocess.Popen


def test_one_stays_while_the_drivers_conditions_do(forks, monkeypatch):
    assert kind_of() is ForkedWorker
    first = forks.clean.pid
    assert kind_of(environment={"OMP_NUM_THREADS": "7"}) is subprocess.Popen
    assert kind_of() is ForkedWorker and forks.clean.pid == first
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        with worker() as other:
            assert str(soft - 1) in ask(other, "state")["limits"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    second = forks.clean.pid
    assert second != first and not Path(f"/proc/{first}").exists()
    forks.clean = None
    gc.collect()
    assert not Path(f"/proc/{second}").exists(), "it ends with its object"


def test_one_that_is_started_ahead_is_the_one_that_is_forked_from(forks):
    launch.start_ahead()
    ahead = forks.clean.pid
    launch.start_ahead()
    assert kind_of() is ForkedWorker and forks.clean.pid == ahead


def test_another_thread_starts_nothing_ahead(forks):
    thread = threading.Thread(target=launch.start_ahead)
    thread.start()
    thread.join()
    assert forks.clean is None


def test_other_threads_and_forks_start_theirs():
    kinds = []
    thread = threading.Thread(target=lambda: kinds.append(kind_of()))
    thread.start()
    thread.join()
    assert kinds == [subprocess.Popen]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if kind_of() is subprocess.Popen else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert kind_of() is ForkedWorker, "the fork has ended nothing of this process"


def test_one_that_dies_is_started_once_more(forks):
    with worker() as before:
        pid = before.pid
        for kind in (ForkedWorker, subprocess.Popen, subprocess.Popen):
            if forks.clean is not None:
                os.kill(forks.clean.pid, signal.SIGKILL)
            assert kind_of() is kind
        assert before.call("ping", {}, 60.0).value == {"pid": pid}, "workers outlive it"
    assert forks.clean is None


def test_one_that_does_not_answer_is_given_up(forks):
    kind_of()
    stopped = forks.clean.pid
    os.kill(stopped, signal.SIGSTOP)
    assert kind_of(seconds=0.01) is subprocess.Popen, "the next one has not imported TVM either"
    assert forks.clean is None and not Path(f"/proc/{stopped}").exists()


def test_an_interrupt_while_it_is_waited_for_leaves_nobody(forks):
    kind_of()
    before = children()
    clean = forks.clean.pid
    os.kill(clean, signal.SIGSTOP)
    # As the kernel gives a process's signals to its main thread first.
    main = threading.main_thread().ident
    interrupt = threading.Timer(0.2, signal.pthread_kill, [main, signal.SIGINT])
    interrupt.start()
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        kind_of()
    interrupt.join()
    assert children() == before - {clean} and forks.clean is None
    assert len(os.listdir("/proc/self/fd")) < descriptors, "the clean process's socket is gone"


DRIVER = """
import os, sys, time
from tvm.relay.collage.exec import launch
from tvm.relay.collage.measure import WorkerProcess
workers = [WorkerProcess() for _ in range(2)]
for worker in workers:
    worker.call("ping", {}, 60.0)
print(launch.forks.clean.pid, *(worker.pid for worker in workers), flush=True)
workers[0].send("call", {"function": "time:sleep", "arguments": {}}, 60.0)
if sys.argv[1] == "wait":
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["end", "SIGKILL"])
def test_nobody_outlives_the_driver(how):
    command = [sys.executable, "-c", DRIVER, "end" if how == "end" else "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=tree.child_environment()) as driver:
        pids = list(map(int, driver.stdout.readline().split()))
        assert len(set(pids)) == 3
        if how != "end":
            driver.send_signal(getattr(signal, how))
        driver.wait(timeout=60)
    assert wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_programs_of_tests_run_as_pythons_own():
    code = "import os, sys; print(os.environ.get('OMP_NUM_THREADS'), *sys.argv)"
    done = tvm_forks.run(code, "a", "b")
    assert done.stdout.split() == [os.environ["OMP_NUM_THREADS"], "-c", "a", "b"]
    assert (done.returncode, done.stderr) == (0, "")
    other = {**os.environ, "OMP_NUM_THREADS": "7"}
    assert tvm_forks.run(code, env=other).stdout.split() == ["7", "-c"]
    assert tvm_forks.run("raise SystemExit(3)").returncode == 3
    failed = tvm_forks.run("import atexit; atexit.register(print, 'end'); 1 / 0")
    assert (failed.returncode, failed.stdout) == (1, "end\n")
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert tvm_forks.run("import os; os.kill(os.getpid(), 9)").returncode == -9


def children():
    """The processes of this one that run."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return {int(pid) for pid in file.read().split()}


def is_running(pid):
    """Whether it is there and no zombie of who has adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
