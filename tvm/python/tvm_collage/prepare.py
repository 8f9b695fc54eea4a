# SPDX-License-Identifier: Apache-2.0
"""Prepare a process for TVM and oneDNN to share one thread pool. Test: tvm_collage/test_hook.py.

Must run before libtvm.so is loaded: our pool then takes the place of TVM's, and both read their
environment when they are loaded.
"""

import ctypes
import logging
import os

from . import library_path
from .threads import default_threads

# libgomp.so.1 is what oneDNN and our pool link; copies under other names are second runtimes.
_RUNTIME_NAMES = ("libgomp", "libiomp5", "libomp.", "libomp5")


def prepare_process() -> None:
    """Set thread variables that the user has not set, then load our pool ahead of libtvm.so."""
    preset = "GOMP_SPINCOUNT" in os.environ
    set_thread_variables()
    pool = library_path("tvm_collage_pool")
    if pool is None:
        return
    before = openmp_runtimes()
    try:
        ctypes.CDLL(pool, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(
            f"tvm-collage cannot load its thread pool ({error}): install it again (`make build` "
            "or `pip install .`), or set COLLAGE_DISABLE=1 to use TVM without Collage"
        ) from None
    warn_about_openmp(before, openmp_runtimes(), preset)


def set_thread_variables() -> None:
    """Give each thread variable a value unless the user has; os.environ also reaches C's getenv."""
    environ = os.environ
    # A spinning libgomp collapses (20x) when another process takes a core; 1000 spins do not.
    environ.setdefault("GOMP_SPINCOUNT", "1000")
    environ.setdefault("TVM_BIND_THREADS", "0")
    # Else TVM tries to download schedules.
    environ.setdefault("TOPHUB_LOCATION", "NONE")
    # One value for both; OMP_NUM_THREADS may be a list, one number a nesting level.
    threads = environ.get("TVM_NUM_THREADS") or environ.get("OMP_NUM_THREADS", "").split(",")[0]
    threads = threads.strip() or str(default_threads())
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        if not environ.get(name):
            environ[name] = threads


def openmp_runtimes(maps: str = "/proc/self/maps") -> list[str]:
    """Return the paths of the OpenMP runtimes loaded in this process, sorted."""
    try:
        with open(maps, encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[5].strip() for line in file if ".so" in line}
    except OSError:
        return []
    return sorted(path for path in paths if os.path.basename(path).startswith(_RUNTIME_NAMES))


def warn_about_openmp(before: list[str], after: list[str], preset: bool) -> None:
    """Log when OpenMP was loaded before us: a second runtime, or one that missed our variables."""
    log = logging.getLogger("tvm.relay.collage")
    if before and len(after) > 1:
        log.warning(
            "another OpenMP runtime was loaded before TVM (%s): its threads compete with ours, "
            "import tvm first or measure in a process without it",
            ", ".join(before),
        )
    elif before and not preset:
        log.warning(
            "OpenMP (%s) was loaded before TVM, too early for GOMP_SPINCOUNT=1000: "
            "import tvm first, or set the variable before starting Python",
            ", ".join(before),
        )
