# SPDX-License-Identifier: Apache-2.0
"""Rows, keys and a way past the store for its tests."""

import contextlib
import sqlite3

from tvm.relay.collage.measure import Cost
from tvm.relay.collage.store import (
    CostKey,
    DecisionKey,
    Environment,
    StoredCost,
    StoredDecision,
)

KEY = CostKey(
    candidate="0123456789abcdef",
    backend="dnnl",
    backend_version="3.2.0",
    target="llvm -mcpu=znver4",
    device="cpu",
    cpu="AMD EPYC, cpu family 25",
    threads="2",
    options='{"opt_level": 3}',
    tvm="0.19.0 c4dc0c29f LLVM 22.1.8",
    measuring="1",
)
DECISION_KEY = DecisionKey(
    model="0123456789abcdef",
    weights="fedcba9876543210",
    backends='{"dnnl": "3.2.0"}',
    target="llvm -mcpu=znver4",
    cpu="AMD EPYC, cpu family 25",
    threads="2",
    options='{"opt_level": 3}',
    given='{"tuning": ""}',
    tvm="0.19.0 c4dc0c29f LLVM 22.1.8",
    collage="0.1.0 1 1",
)
MEASURED = Cost("measured", 1.5e-3, 1.1e-3, 1.6e-3, 20, 2e-5, "noisy: so its quartile", 1.3e-3)
FAILED = Cost.failed("compile_failed", "build: ValueError: no kernel for this")
FAKE_ENVIRONMENT = Environment("cpu", "fake", "2", "0.19", "1")


def at(minute, second=0):
    return f"2026-01-31T12:{minute:02}:{second:02}.000000+00:00"


def row(cost=MEASURED, minute=0, **parts):
    """A row with KEY, but for `parts`."""
    return StoredCost(KEY._replace(**parts), cost, at(minute), "dnnl(conv2d+relu)", 0.3)


def decision(minute=0, report='{"plan": "dnnl, \u00e9"}', **parts):
    """A decision with DECISION_KEY, but for `parts`."""
    return StoredDecision(DECISION_KEY._replace(**parts), report, at(minute), "plan dnnl; 1.2 ms")


@contextlib.contextmanager
def sql(path):
    """SQLite itself on the file, in autocommit mode."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
