# SPDX-License-Identifier: Apache-2.0
"""Worker processes that serve one comparison after the other."""

import os
import signal
import sys

import pytest
from fault_runs import wait_until
from measure_fakes import contestant, measure
from tvm.relay.collage.exec.pool import SpareWorkers, WorkersAhead
from tvm.relay.collage.exec.process import WorkerOptions

pytestmark = pytest.mark.usefixtures("forked_workers")


def ping(worker):
    return worker.call("ping", {}, 60.0).outcome


def test_a_worker_is_taken_again_with_the_same_options_alone():
    with SpareWorkers() as spares:
        first = spares.take(WorkerOptions())
        pid = first.pid
        spares.give(WorkerOptions(), first)
        other = spares.take(WorkerOptions(environment={"A": "1"}))
        assert other.pid != pid and ping(other) == "ok"
        other.kill()
        again = spares.take(WorkerOptions())
        assert again.pid == pid and ping(again) == "ok"
        spares.give(WorkerOptions(), again)
    assert not again.is_alive


def test_one_that_has_died_is_not_taken():
    with SpareWorkers() as spares:
        worker = spares.take(WorkerOptions())
        spares.give(WorkerOptions(), worker)
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: not worker.is_alive)
        other = spares.take(WorkerOptions())
        assert other.pid != worker.pid and ping(other) == "ok"
        other.kill()


def test_one_that_cannot_close_is_killed():
    with SpareWorkers() as spares:
        worker = spares.take(WorkerOptions())
        ping(worker)
        worker.call = lambda *_: worker.answer_of_nobody
        worker.answer_of_nobody = type("Reply", (), {"outcome": "timeout"})()
        spares.give(WorkerOptions(), worker)
        assert not worker.is_alive


def test_comparisons_share_processes_and_find_nothing_open():
    with SpareWorkers() as spares:
        run = {"warm_seconds": 0.0, "spares": spares}
        first = measure.compare([contestant("a"), contestant("b")], "a", 3, **run)
        pids = {worker.pid for _, worker in spares.idle}
        assert len(pids) == 2 and all(item.cost.is_usable for item in first)
        second = measure.compare([contestant("c"), contestant("a")], "a", 3, **run)
        assert {worker.pid for _, worker in spares.idle} == pids
        assert all(item.cost.is_usable for item in second)
        worker = spares.take(WorkerOptions())
        reply = worker.call("outputs", {"file": "nowhere"}, 60.0)
        assert "no contestant is open" in reply.message
        worker.kill()


def test_workers_ahead_import_before_anybody_asks_and_serve_once(tmp_path):
    (tmp_path / "slow_to_import.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'a').write('x')\n"
    )
    sys.path.insert(0, str(tmp_path))
    options = WorkerOptions(("slow_to_import",))
    try:
        with WorkersAhead() as ahead:
            ahead.start(options, 2)
            wait_until(lambda: (tmp_path / "imported").exists())
            wait_until(lambda: (tmp_path / "imported").read_text() == "xx")
            first, second = ahead.take(options), ahead.take(options)
            assert ping(first) == ping(second) == "ok" and first.pid != second.pid
            ahead.give(options, first)
            assert not first.is_alive and ahead.idle == []
            ahead.start(options, 1)
            [(_, left)] = ahead.idle
            second.kill()
        assert not left.is_alive
    finally:
        sys.path.remove(str(tmp_path))
