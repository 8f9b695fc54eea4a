# SPDX-License-Identifier: Apache-2.0
"""How Collage's options say that candidates are measured. Test: measured/test_session.py."""

import os

from ..backends import BUILTIN, find_backend
from ..costs.options import MeasureOptions
from ..errors import BackendUnavailableError
from ..logs import warn_once

# More builds at once gain little and each holds a TVM in memory.
_MOST_WORKERS = 8


def measure_options(options):
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


def own_backend_modules(external_targets):
    """The modules that define the user's own backends of these targets, for workers to import.

    A script itself is none: its backends cannot be measured, which is logged. In place of one that
    comes with Collage, which workers would measure instead, such is a BackendUnavailableError.
    """
    modules = set()
    for name in {target.kind.name for target in external_targets}:
        backend = find_backend(name)
        if backend is None or _is_ours(type(backend).__module__):
            continue
        module = type(backend).__module__
        if module != "__main__":
            modules.add(module)
            continue
        message = (
            f"backend {name!r} is defined in the script that runs (__main__), which worker "
            "processes cannot import, so none of its candidates can be measured: move the "
            "backend and its registration into a module of their own and import that"
        )
        if name in BUILTIN:
            raise BackendUnavailableError(message)
        warn_once(message)
    return tuple(sorted(modules))


def _is_ours(module):
    """Whether a module is of Collage's own package, which workers have."""
    return f"{module}.".startswith(__package__.rpartition(".")[0] + ".")
