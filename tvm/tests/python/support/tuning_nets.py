# SPDX-License-Identifier: Apache-2.0
"""Tiny modules and tuning records of each kind that no search was needed for."""

import contextlib
import json

import numpy as np
import tvm
from tvm import auto_scheduler, autotvm, relay
from tvm import meta_schedule as ms
from tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string

KINDS = ("autotvm", "ansor", "metaschedule")
TARGET = tvm.target.Target("llvm -mcpu=x86-64-v2 -num-cores=2")
MODE = {
    "autotvm": {},
    "ansor": {"relay.backend.use_auto_scheduler": True},
    "metaschedule": {"relay.backend.use_meta_schedule": True},
}


def conv(channels=16, size=8, dtype="float32"):
    """conv2d + relu, one kernel."""
    weight = np.random.default_rng(0).standard_normal((16, channels, 3, 3)).astype(dtype)
    x = relay.var("x", shape=(1, channels, size, size), dtype=dtype)
    y = relay.nn.conv2d(x, relay.const(weight), padding=(1, 1), channels=16, kernel_size=(3, 3))
    return _module(x, relay.nn.relu(y))


def dense():
    """dense + relu, one kernel."""
    weight = np.random.default_rng(0).standard_normal((24, 32)).astype("float32")
    x = relay.var("x", shape=(4, 32))
    return _module(x, relay.nn.relu(relay.nn.dense(x, relay.const(weight))))


def _module(x, y):
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))


def some_context(kind, mod, choice=0, seconds=1e-5):
    """A user's own context: the records of a schedule that is not the default one."""
    return {"autotvm": _autotvm, "ansor": _ansor, "metaschedule": _metaschedule}[kind](
        mod, choice, seconds
    )


@contextlib.contextmanager
def in_mode(kind):
    with tvm.transform.PassContext(opt_level=3, config=MODE[kind]):
        yield


def some_lines(kind, mod, choice=0, seconds=1e-5):
    """Lines of a log of `kind` (autotvm or ansor)."""
    if kind == "autotvm":
        return [autotvm.record.encode(*pair) for pair in _autotvm_pairs(mod, choice, seconds)]
    return [dump_record_to_string(*pair).strip() for pair in _ansor_pairs(mod, choice, seconds)]


def write_log(path, kind, mod, trials=((1, 1e-5),)):
    """A log of a kind in its own form, of schedules with their seconds; its path."""
    if kind == "metaschedule":
        path.mkdir()
        database = ms.database.JSONDatabase(work_dir=str(path))
        for trial in trials:
            for record in some_context(kind, mod, *trial).get_all_tuning_records():
                database.commit_workload(record.workload.mod)
                database.commit_tuning_record(record)
    else:
        lines = [line for trial in trials for line in some_lines(kind, mod, *trial)]
        path.write_text("\n".join(lines) + "\n")
    return path


def _autotvm_pairs(mod, choice, seconds):
    tasks = autotvm.task.extract_from_program(mod, {}, TARGET)
    result = autotvm.MeasureResult((seconds,), 0, 0.5, 1.0)
    return [
        (autotvm.MeasureInput(TARGET, t, t.config_space.get(5 + choice)), result) for t in tasks
    ]


def _autotvm(mod, choice, seconds):
    # TVM compares the costs of two templates, which a record has only once it was read from a log.
    pairs = map(autotvm.record.decode, some_lines("autotvm", mod, choice, seconds))
    return autotvm.apply_history_best(list(pairs))


def _ansor_pairs(mod, choice, seconds):
    key = tvm.ir.structural_hash(mod)
    if key not in _lines:
        tasks, _ = auto_scheduler.extract_tasks(mod["main"], {}, TARGET)
        _lines[key] = [_two_states(task) for task in tasks]
    pairs = []
    for lines in _lines[key]:
        row = json.loads(lines[choice])
        row["r"] = [[seconds], 0, 0.5, 1]
        pairs.append(load_record_from_string(json.dumps(row)))
    return pairs


# By module and task: the lines of two states.
_lines = {}


def _two_states(task):
    """The plain loops, and these with the last nest in parallel."""
    plain, parallel = (task.compute_dag.get_init_state() for _ in range(2))
    last = parallel.stages[-1]
    parallel.parallel(last.op, last.iters[0])
    result = auto_scheduler.MeasureResult([1.0], 0, "", 0.5, 1.0)
    return [
        dump_record_to_string(auto_scheduler.MeasureInput(task, state), result)
        for state in (plain, parallel)
    ]


def line_in_blocks(task):
    """A line of Ansor's log for a task with a product of matrices: columns in blocks of 8, the
    blocks outermost, the sum before the columns of a block."""
    state = task.compute_dag.get_init_state()
    stage = next(stage for stage in state.stages if "matmul" in stage.op.name)
    *rows, columns, k = stage.iters
    outer, inner = state.split(stage.op, columns, [8])
    state.reorder(stage.op, [outer, *rows, k, inner])
    state.vectorize(stage.op, inner)
    result = auto_scheduler.MeasureResult([1e-5], 0, "", 0.5, 1.0)
    return dump_record_to_string(auto_scheduler.MeasureInput(task, state), result).strip()


def _ansor(mod, choice, seconds):
    return auto_scheduler.ApplyHistoryBest(_ansor_pairs(mod, choice, seconds))


def _metaschedule(mod, choice, seconds):
    database = ms.database.MemoryDatabase()
    for task in ms.relay_integration.extract_tasks(mod, TARGET, {}):
        [kernel] = task.dispatched
        schedule = tvm.tir.Schedule(kernel)
        for block in schedule.get_child_blocks(schedule.get_block("root"))[-1:]:
            loop = schedule.get_loops(block)[-1]
            schedule.parallel(loop) if choice else schedule.vectorize(loop)
        database.commit_tuning_record(
            ms.database.TuningRecord(
                schedule.trace,
                database.commit_workload(kernel),
                [seconds],
                TARGET,
                ms.arg_info.ArgInfo.from_prim_func(kernel["main"]),
            )
        )
    return database


def kernel_source(mod):
    """Assembly of the kernels of a build in the context that is in force."""
    from tvm.relay.collage.compile import build_library

    return build_library(mod, TARGET).get_lib().get_source("asm")
