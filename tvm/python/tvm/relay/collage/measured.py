# SPDX-License-Identifier: Apache-2.0
"""The pass's batches answered by the measuring workers, which live as long as a session does.

Precondition: candidates carry their weights as constants. Test: test_collage_measured.py.
"""

import contextlib
import contextvars
import os

import tvm

from .options import CollageOptions
from .targets import is_external

_session = contextvars.ContextVar("collage_measuring_session", default=None)

# The name under which measuring times border layout transforms apart.
TVM_BACKEND = "tvm"
# Not TVM_BACKEND: a layout transform alone is all border.
TRANSITION = "transition"


@contextlib.contextmanager
def measuring_session(options=None):
    """Keep worker processes and their memory of costs for the block; nested blocks share them."""
    if _session.get() is not None:
        yield _session.get()
        return
    with _new_estimator(options or CollageOptions.current()) as estimator:
        token = _session.set(estimator)
        try:
            yield estimator
        finally:
            _session.reset(token)


def measure_batch(mods, targets, labels):
    """[status, seconds, message] for each module's @main on its target (labels are for people).

    Equal candidates are measured once. What cannot even be written down as a candidate is
    unsupported, with the reason.
    """
    from .measure import Cost, candidate_module

    candidates, costs = [], {}
    opt_level = tvm.transform.PassContext.current().opt_level
    for index, (mod, target) in enumerate(zip(mods, targets, strict=True)):
        external = is_external(target)
        backend = target.kind.name if external else TVM_BACKEND
        # As deployed: TVM sees the host target alone.
        build_target = str(target.host if external or target.host else target)
        try:
            built = candidate_module(mod, backend, build_target, {"opt_level": opt_level})
        except Exception as error:  # noqa: BLE001 - whatever fails costs this candidate alone
            costs[index] = Cost.failed("unsupported", f"{labels[index]}: {error}")
        else:
            candidates.append((index, built))
    with measuring_session() as estimator:
        answers = estimator.estimate([candidate for _, candidate in candidates])
    costs.update((index, cost) for (index, _), cost in zip(candidates, answers, strict=True))
    return [
        [costs[k].status, float(costs[k].seconds or 0.0), costs[k].message]
        for k in range(len(mods))
    ]


def _new_estimator(options):
    from .measure import MeasuredCostEstimator, MeasureOptions, make_progress

    return MeasuredCostEstimator(
        MeasureOptions(
            workers=options.workers or int(os.environ["TVM_NUM_THREADS"]),
            build_timeout=options.measure_timeout,
            run_timeout=options.measure_timeout,
            budget_seconds=options.measure_seconds,
            seed=options.seed,
            imports=_modules_of_own_backends(),
        ),
        progress=make_progress(options.progress),
    )


def _modules_of_own_backends():
    """Modules that workers import to know the user's backends; a script itself is none."""
    from .backends import BUILTIN, list_backends

    modules = {type(item).__module__ for item in list_backends() if item.name not in BUILTIN}
    return tuple(sorted(modules - {"__main__"}))


def measure_transitions(types, target):
    """Seconds of one layout transform of each tensor type (rank 4 or 5) on the host target.

    NCHW[D]xc with the widest block that divides the channels stands for whatever layout TVM picks.
    A transform that cannot be measured counts as free, which favours mixed plans; the guard decides.
    """
    from .measure import candidate_module

    options = {"opt_level": tvm.transform.PassContext.current().opt_level}
    candidates = [
        candidate_module(_transform_of(tensor), TRANSITION, str(target), options)
        for tensor in types
    ]
    with measuring_session() as estimator:
        costs = estimator.estimate(candidates)
    return [cost.seconds if cost.is_usable else 0.0 for cost in costs]


def _transform_of(tensor):
    """fn(x) -> x in a blocked layout, then another element-wise kernel would follow."""
    plain = "NCHW" if len(tensor.shape) == 4 else "NCDHW"
    channels = int(tensor.shape[1])
    block = max(size for size in (16, 8, 4, 2, 1) if channels % size == 0)
    value = tvm.relay.var("x", tensor)
    body = tvm.relay.layout_transform(value, plain, f"{plain}{block}c")
    return tvm.relay.Function([value], body)
