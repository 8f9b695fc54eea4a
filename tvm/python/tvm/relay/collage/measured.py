# SPDX-License-Identifier: Apache-2.0
"""The pass's batches answered by the measuring workers, which live as long as a session does.

Precondition: candidates carry their weights as constants. Test: test_collage_measured.py.
"""

import contextlib
import contextvars
import dataclasses
import functools
import logging
import os

import tvm

from .errors import DeviceError
from .options import CollageOptions
from .targets import TVM_BACKEND, is_external

_logger = logging.getLogger(__name__)
_session = contextvars.ContextVar("collage_measuring_session", default=None)

# Not TVM_BACKEND: a layout transform alone is all border.
TRANSITION = "transition"
# More builds at once gain little and each holds a TVM in memory.
_MOST_WORKERS = 8
# Options of a session that are none of measuring.
_OF_SESSION = (
    "progress",
    "store",
    "retry_failed",
    "rpc_tracker",
    "rpc_key",
    "rpc_wait",
    "rpc_compiler",
)
# What was warned about in this process, which happens once.
_warned = set()


@contextlib.contextmanager
def measuring_session(options=None, external_targets=()):
    """Keep worker processes and their memory of costs for the block; nested blocks share them.

    Workers import the modules of the user's own backends among ``external_targets``.
    """
    if _session.get() is not None:
        yield _session.get()
        return
    new = _new_estimator(options or CollageOptions.current(), external_targets)
    with new as estimator, _as_session(estimator):
        try:
            yield estimator
        finally:
            _logger.info("costs: %s", estimator.Summary())


class LazySession:
    """Workers and costs of one owner, started when it first measures outside `measuring_session`.

    They end with ``close()``, with this object and with the interpreter; other measuring options
    start them anew.
    """

    def __init__(self):
        self._estimator = None
        self._options = None

    @contextlib.contextmanager
    def active(self):
        """A measuring session for the block: the one that is active, else the owner's."""
        if _session.get() is not None:
            yield _session.get()
            return
        current = CollageOptions.current()
        options = (_measure_options(current), *(getattr(current, name) for name in _OF_SESSION))
        if options != self._options:
            self.close()
            self._estimator, self._options = _new_estimator(current, ()), options
        with _as_session(self._estimator):
            yield self._estimator

    def close(self):
        """End the workers and forget the costs; the next measurement starts again."""
        if self._estimator is not None:
            self._estimator.close()
        self._estimator = self._options = None


def measure_batch(mods, targets, labels):
    """[status, seconds, message] for each module's @main on its target (labels are for people).

    Equal candidates are measured once, those that their backend has a cost for not at all. What
    cannot even be written down as a candidate is unsupported, with the reason.
    """
    from .backends.own_cost import own_cost
    from .measure import Cost
    from .measure.spent import phase

    rows = [_Row(*row) for row in zip(mods, targets, labels, strict=True)]
    given = ((k, own_cost(row.mod, row.target)) for k, row in enumerate(rows) if row.external)
    costs = {k: cost for k, cost in given if cost is not None}
    candidates = {}
    todo = {k: row for k, row in enumerate(rows) if k not in costs}
    externals = [row.target for row in todo.values() if row.external]
    with measuring_session(external_targets=externals) as estimator:
        estimator.require(own_backend_modules(externals))
        _tune(list(todo.values()), estimator)
        keywords = build_options()
        records = functools.cache(tuning_records)
        for index, row in todo.items():
            with phase("candidate text"):
                built = _written_down(row, keywords, records)
            if isinstance(built, str):
                _logger.warning("a candidate cannot be measured: %s", built)
                costs[index] = Cost.failed("unsupported", built)
            else:
                candidates[index] = built
        answers = estimator.estimate(list(candidates.values()))
    costs.update(zip(candidates, answers, strict=True))
    return [
        [costs[k].status, float(costs[k].seconds or 0.0), costs[k].message]
        for k in range(len(rows))
    ]


class _Row:
    """A candidate as the pass gives it."""

    def __init__(self, mod, target, label):
        self.mod, self.target, self.label = mod, target, label
        self.external = is_external(target)
        self.backend = target.kind.name if self.external else TVM_BACKEND
        # As deployed: TVM sees the host target alone.
        self.build_target = str(target.host if self.external or target.host else target)


def _written_down(row, keywords, records_for):
    """A row's CandidateModule, or why it cannot be one; ``records_for`` is asked its target."""
    from .measure import Unsupported, candidate_module, describe

    try:
        mode = CollageOptions.current().verify
        return candidate_module(
            row.mod,
            row.backend,
            row.build_target,
            keywords,
            row.label,
            records_for(row.build_target),
            verify=mode == "all" or (row.external and _is_verified(row.backend, mode)),
        )
    except (Unsupported, ValueError, tvm.TVMError) as error:
        return f"{row.label}: {describe(error)}"


def _tune(rows, estimator):
    """Let the search's tuner, if it has one, tune the candidates that TVM compiles."""
    from .tuning.session import active_tuner

    tuner = active_tuner()
    if tuner is None:
        return
    keywords = build_options()
    candidates = []
    for row in rows:
        if row.external or row.build_target != str(tuner.target):
            continue
        given, _ = tuning_records_in_force(row.build_target)
        plain = _written_down(row, keywords, lambda _, given=given: given)
        if not isinstance(plain, str):
            candidates.append(
                (plain, functools.partial(_with_records, row=row, keywords=keywords, given=given))
            )
    tuner.tune(candidates, estimator.estimate)


def _with_records(records, row, keywords, given):
    """The candidate of a row with more records than those in force."""
    return _written_down(row, keywords, lambda _: type(records)([*given, *records]))


def tune_whole(mod, target):
    """Let the search's tuner tune a whole module, as one candidate of TVM's."""
    with measuring_session() as estimator:
        _tune([_Row(mod, target, "whole module")], estimator)


@contextlib.contextmanager
def tuning(options, target, external_targets, runner):
    """TVM's candidates that are measured in the block are tuned first, as the options say.

    ValueError where they run on another machine.
    """
    from .tuning.session import tuning_session

    if options.tune and not runner.is_here:
        raise ValueError(
            f"tune={options.tune} searches on this machine, but candidates run on devices: tune "
            "there with TVM's own tools and name the log by the option tuning_log"
        )

    workers = options.workers or default_workers()
    imports = own_backend_modules(external_targets)
    with tuning_session(options, target, workers, imports) as tuner:
        yield tuner


def measure_transitions(types, target):
    """Seconds of one layout transform of each tensor type (rank 4 or 5) on the host target.

    NCHW[D]xc with the widest block that divides the channels stands for whatever layout TVM picks.
    A transform that cannot be measured counts as free; that favours mixed plans, and the guard
    decides.
    """
    with measuring_session() as estimator:
        costs = estimator.estimate(transition_candidates(types, target))
    return [cost.seconds if cost.is_usable else 0.0 for cost in costs]


def transition_candidates(types, target):
    """What is measured for a layout transform of each tensor type."""
    from .measure import candidate_module

    keywords = build_options()
    return [
        candidate_module(
            _transform_of(tensor), TRANSITION, str(target), keywords, f"transform {tensor}"
        )
        for tensor in types
    ]


def own_backend_modules(external_targets):
    """The modules that define the user's own backends of these targets, for workers to import.

    A script itself is none: its backends cannot be measured, which is logged.
    """
    from .backends import BUILTIN, find_backend

    modules = set()
    for name in {target.kind.name for target in external_targets} - set(BUILTIN):
        backend = find_backend(name)
        if backend is None:
            continue
        module = type(backend).__module__
        if module != "__main__":
            modules.add(module)
        else:
            _warn_once(
                f"backend {name!r} is defined in the script that runs (__main__), which worker "
                "processes cannot import, so none of its candidates can be measured: move the "
                "backend and its registration into a module of their own and import that"
            )
    return tuple(sorted(modules))


@contextlib.contextmanager
def _as_session(estimator):
    token = _session.set(estimator)
    try:
        yield
    finally:
        _session.reset(token)


def _new_estimator(options, external_targets):
    from .measure import MeasuredCostEstimator, make_progress

    imports = own_backend_modules(external_targets)
    measure_options = dataclasses.replace(_measure_options(options), imports=imports)
    runner = _device_runner(options, measure_options)
    try:
        return MeasuredCostEstimator(
            measure_options,
            progress=make_progress(options.progress),
            store=_open_store(options, measure_options, runner.info if runner else None),
            runner=runner,
        )
    except BaseException:
        if runner is not None:
            runner.close()
        raise


def _device_runner(options, measure_options):
    """The devices to measure on, None for this machine. Raises DeviceError."""
    if not options.rpc_tracker:
        if options.rpc_key:
            raise DeviceError(
                "option relay.collage.rpc_key is set, relay.collage.rpc_tracker is not: give the "
                "tracker's 'host:port' as well, or neither"
            )
        return None
    from .measure import WorkerOptions
    from .rpc import DeviceRunner

    worker_options = WorkerOptions(
        imports=measure_options.imports,
        memory_limit_bytes=measure_options.memory_limit_bytes,
        startup_seconds=measure_options.startup_timeout,
    )
    runner = DeviceRunner(
        options.rpc_tracker, options.rpc_key, wait_seconds=options.rpc_wait, options=worker_options
    )
    try:
        runner.check_compiler(options.rpc_compiler)
    except BaseException:
        runner.close()
        raise
    return runner


def _open_store(options, measure_options, device):
    """The store of costs that the options name, None for none; keys are those of the device.

    A file that the user named must do: StoreError otherwise. Without the default one, a search
    just measures.
    """
    from .store import CostStore, Environment, StoredCosts, StoreError, store_path

    path, is_named = store_path(options.store)
    if path is None:
        return None
    try:
        store = CostStore(path)
    except StoreError as error:
        if is_named:
            raise
        _warn_once(f"{error}; costs are measured and not kept")
        return None
    environment, version_of = None, stored_version
    if device is not None:
        environment = Environment.of_device(device.cpu, device.threads, measure_options)

        def version_of(backend):
            return stored_version(backend) and device.backends.get(backend)

    return StoredCosts(
        store,
        measure_options,
        version_of,
        retry_failed=options.retry_failed,
        environment=environment,
    )


def _is_verified(backend, mode):
    """Whether an external backend's outputs are compared; one that can be wrong says so itself, and
    no option helps it."""
    from .backends import find_backend

    found = find_backend(backend)
    return mode != "none" or (found is not None and found.can_be_wrong)


def stored_version(backend):
    """The version that keys a backend's stored costs; None when they cannot be stored.

    TVM's own candidates are keyed by TVM's build.
    """
    from .backends import find_backend

    if backend in (TVM_BACKEND, TRANSITION):
        return ""
    found = find_backend(backend)
    # What is defined in a script fails in workers: true now, wrong once it has a module of its own.
    if found is None or type(found).__module__ == "__main__":
        return None
    try:
        return found.version() or None
    except Exception as error:  # noqa: BLE001 - a backend's own code; it costs its rows alone
        _warn_once(f"backend {backend!r} has no version, so its costs are not stored: {error}")
        return None


def _measure_options(options):
    from .measure import MeasureOptions

    return MeasureOptions(
        workers=options.workers or default_workers(),
        build_timeout=options.measure_timeout,
        run_timeout=options.measure_timeout,
        budget_seconds=options.measure_seconds,
        seed=options.seed,
        compiler=options.rpc_compiler,
    )


def default_workers():
    """One worker a thread of TVM's, up to 8; ValueError when TVM_NUM_THREADS is no number."""
    text = os.environ.get("TVM_NUM_THREADS", "").strip() or str(len(os.sched_getaffinity(0)))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"TVM_NUM_THREADS is {text!r}: set it to a number of threads, 1 or more")
    return min(int(text), _MOST_WORKERS)


def build_options():
    """Keywords for a worker's build, so that it builds what the current PassContext would."""
    from .measure import context_to_json

    context = tvm.transform.PassContext.current()
    fields, left_out = context_to_json(context)
    for name in left_out:
        _warn_once(
            f"the PassContext's {name} holds code, which cannot go to worker processes: candidates "
            "are measured without it"
        )
    return {"opt_level": context.opt_level, **({"pass_context": fields} if fields else {})}


def tuning_records(target):
    """The tuning records that a build for the target would use, and what the search's tuner has
    found, for workers."""
    from .tuning.session import active_tuner

    records, left_out = tuning_records_in_force(target)
    for name in left_out:
        _warn_once(
            f"{name} does not show its records, which therefore cannot go to worker processes: "
            "candidates are measured without them (autotvm's and auto_scheduler's ApplyHistoryBest "
            "and a MetaSchedule JSONDatabase or MemoryDatabase do show them)"
        )
    tuner = active_tuner()
    if tuner is None or str(tuner.target) != str(target):
        return records
    return type(records)([*records, *tuner.records])


def tuning_records_in_force(target):
    """tuning.records_in_force, imported when something is measured."""
    from .tuning import records_in_force

    return records_in_force(target)


def _warn_once(message):
    if message not in _warned:
        _warned.add(message)
        _logger.warning("%s", message)


def _transform_of(tensor):
    """fn(x) -> x in a blocked layout, then another element-wise kernel would follow."""
    plain = "NCHW" if len(tensor.shape) == 4 else "NCDHW"
    channels = int(tensor.shape[1])
    block = max(size for size in (16, 8, 4, 2, 1) if channels % size == 0)
    value = tvm.relay.var("x", tensor)
    body = tvm.relay.layout_transform(value, plain, f"{plain}{block}c")
    return tvm.relay.Function([value], body)
