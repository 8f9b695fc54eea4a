# SPDX-License-Identifier: Apache-2.0
"""Denormal floats as zero, for all that models run on. Docs: docs/thread_pool.md.

Test: process_wide/test_denormals.py.
"""

from __future__ import annotations

import ctypes
import functools

import tvm_collage


def flush_denormals(enabled: bool = True) -> None:
    """Treat floats below 1.2e-38 as zero, or as what they are: they can slow a kernel fifty times.

    For TVM's kernels in tasks, for this thread, and for parts of backends whenever one next runs in
    whatever thread; models that ONNX Runtime or OpenVINO hold follow if they are loaded after it,
    and their threads do not turn back.
    Workers that measure follow the environment, so set COLLAGE_FLUSH_DENORMALS=1 to have measured
    what is deployed. RuntimeError on a processor without such a mode, or where the thread pool of
    Collage is not in the process (COLLAGE_DISABLE=1).
    """
    pool = thread_pool()
    if pool is None:
        raise RuntimeError("flush_denormals needs Collage's thread pool: unset COLLAGE_DISABLE")
    if pool.CollagePoolSetFlushDenormals(int(enabled)) != 0:
        raise RuntimeError("flush_denormals: this processor cannot treat denormals as zero")
    pool.CollagePoolFollowFlushDenormals()


def flushes_denormals() -> bool:
    """Return whether denormals are to be treated as zero."""
    pool = thread_pool()
    return pool is not None and bool(pool.CollagePoolFlushDenormals())


@functools.cache
def thread_pool() -> ctypes.CDLL | None:
    """Return the library of the pool that TVM launches into; None for TVM's own."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "CollagePoolFlushDenormals"):
        return None
    return ctypes.CDLL(tvm_collage.library_path("tvm_collage_pool"))
