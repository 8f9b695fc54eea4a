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
