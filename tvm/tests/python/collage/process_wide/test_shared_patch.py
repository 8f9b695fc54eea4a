# SPDX-License-Identifier: Apache-2.0
"""Two builds at once, in one process: what they change for a while is put back by the last."""

import logging
import sys
import threading

import pytest
import tvm
from relay_text import parse
from tvm import auto_scheduler, autotvm, relay, topi
from tvm.auto_scheduler.relay_integration import TracingEnvironment
from tvm.relay import collage
from tvm.relay.backend import te_compiler
from tvm.relay.collage import ModuleError
from tvm.relay.collage.compile import module_check
from tvm.relay.collage.compile.fast_passes import remembered_build_info
from tvm.relay.collage.process_wide.interrupts import interrupts_kept
from tvm.relay.collage.process_wide.logs import LOGGER, logging_at
from tvm.relay.collage.process_wide.shared_patch import SharedPatch
from tvm.relay.collage.tuning.ansor import Ansor
from tvm.relay.collage.tuning.autotvm import THREADS, AutoTVM
from tvm.relay.collage.tvm_fixes.ansor import matmul_axes
from tvm.target import Target

OVERRIDE = "diagnostics.OverrideRenderer"


class Thread:
    """A scope that another thread enters and leaves when told to."""

    def __init__(self, scope):
        self._scope, self._steps, self._done = scope, threading.Semaphore(0), threading.Semaphore(0)
        self.answer = None
        self._ask = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        self._steps.acquire()
        with self._scope:
            while True:
                self._done.release()
                self._steps.acquire()
                if self._ask is None:
                    break
                self.answer, self._ask = self._ask(), None
        self._done.release()

    def step(self, ask=None):
        """Enter the scope; then leave it, or call `ask` inside it and return what that gives."""
        self._ask = ask
        self._steps.release()
        assert self._done.acquire(timeout=60)
        return self.answer


def renderer():
    found = tvm.get_global_func(OVERRIDE, allow_missing=True)
    return None if found is None else found.handle.value


SCOPES = {
    "renderer": (module_check.collected_diagnostics, renderer),
    "build info": (remembered_build_info, lambda: te_compiler.libinfo),
    "unraisable hook": (interrupts_kept, lambda: sys.unraisablehook),
    "autotvm": (
        lambda: AutoTVM().using([]),
        lambda: autotvm.task.DispatchContext.current,
    ),
    "ansor": (
        lambda: Ansor().using([]),
        lambda: auto_scheduler.dispatcher.DispatchContext.current,
    ),
    "axes of products": (matmul_axes, lambda: topi.nn.matmul),
    "log level": (lambda: logging_at("debug"), lambda: logging.getLogger(LOGGER).level),
}


@pytest.mark.parametrize("scope, state", SCOPES.values(), ids=SCOPES)
def test_the_last_to_leave_puts_back_what_the_first_has_found(scope, state):
    before = state()
    first, second = Thread(scope()), Thread(scope())
    first.step()
    inside = state()
    assert inside != before
    second.step()
    first.step()
    assert state() == inside
    second.step()
    assert state() == before


def test_overlapping_levels_hold_the_lowest_until_it_ends():
    logger = logging.getLogger(LOGGER)
    before = logger.level, list(logger.handlers)
    first, second = Thread(logging_at("error")), Thread(logging_at("debug"))
    first.step()
    assert logger.level == logging.ERROR
    second.step()
    assert logger.level == logging.DEBUG
    first.step()
    assert logger.level == logging.DEBUG
    second.step()
    assert (logger.level, list(logger.handlers)) == before
    # The other order: what the first wanted holds again.
    first, second = Thread(logging_at("error")), Thread(logging_at("debug"))
    first.step()
    second.step()
    second.step()
    assert logger.level == logging.ERROR
    first.step()
    assert logger.level == before[0]


def test_each_thread_collects_its_own_errors_and_others_print_theirs():
    seen = []
    tvm.ir.diagnostics.override_renderer(seen.append)
    try:
        thread = Thread(module_check.collected_diagnostics())
        thread.step()
        # This thread collects nothing: its error goes where the program wants it.
        with pytest.raises(tvm.TVMError):
            infer_ill_typed()
        assert len(seen) == 1

        def collected():
            try:
                module_check.check_module(ill_typed())
            except ModuleError as error:
                return str(error)

        assert "ill-typed" in thread.step(collected) and len(seen) == 1
        thread.step()
        with pytest.raises(tvm.TVMError):
            infer_ill_typed()
        assert len(seen) == 2
    finally:
        tvm.ir.diagnostics.override_renderer(None)


def ill_typed():
    x, y = relay.var("x", shape=(2, 2)), relay.var("y", shape=(5, 7))
    return tvm.IRModule({relay.GlobalVar("main"): relay.Function([x, y], relay.add(x, y))})


def infer_ill_typed():
    relay.transform.InferType()(ill_typed())


def test_tuning_records_are_found_by_their_own_thread_alone():
    workload, target = ("nobody's", ("TENSOR", (1,), "float32")), Target("llvm")

    def mine(text):
        context = autotvm.apply_history_best([])
        context._query_inside = lambda *_: text
        return THREADS.entered(context)

    def found():
        return autotvm.task.DispatchContext.current.query(target, workload)

    before = autotvm.task.DispatchContext.current
    first, second = Thread(mine("first")), Thread(mine("second"))
    first.step()
    second.step()
    assert [first.step(found), second.step(found)] == ["first", "second"]
    assert getattr(found(), "is_fallback", False)
    assert first.step(lambda: len(AutoTVM().contexts())) == 1
    assert AutoTVM().contexts() == []
    first.step()
    assert second.step(found) == "second"
    second.step()
    assert autotvm.task.DispatchContext.current is before


def test_what_another_has_put_there_meanwhile_stays():
    class Place:
        value = "found"

    patch = SharedPatch.of_attribute(Place, "value", lambda before: f"ours over {before}")
    with patch.inside() as ours, patch.inside():
        assert Place.value == ours == "ours over found"
        Place.value = "another's"
    assert Place.value == "another's"
    with pytest.raises(ZeroDivisionError), patch.inside():
        assert Place.value == "ours over another's"
        raise ZeroDivisionError
    assert Place.value == "another's"


@pytest.mark.parametrize("is_ansors", [False, True], ids=["", "ansor"])
def test_two_builds_at_once_leave_all_as_it_was(is_ansors):
    def states():
        return [state() for _, state in SCOPES.values()]

    text = "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(8, 8), float32]) {"
    bodies = ["nn.relu(nn.dense(%x, %w, units=8))", "exp(nn.dense(%x, %w, units=8))"]
    config = {
        "relay.collage.enable_collage": True,
        "relay.collage.guard": False,
        "relay.collage.log_level": "error",
        "relay.backend.use_auto_scheduler": is_ansors,
    }
    failures = []

    def build(body, barrier):
        try:
            barrier.wait(60)
            with tvm.transform.PassContext(opt_level=3, config=config):
                relay.build(parse(f"{text} {body} }}"), target=[collage.host_target()])
        except Exception as error:  # noqa: BLE001 - of a thread: told below
            failures.append(error)

    before = states()
    for _ in range(2):
        barrier = threading.Barrier(2)
        threads = [threading.Thread(target=build, args=(body, barrier)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures and states() == before
    assert TracingEnvironment.current is None
