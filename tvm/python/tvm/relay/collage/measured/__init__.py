# SPDX-License-Identifier: Apache-2.0
"""The pass's batches answered by the measuring workers, which live as long as a session does."""

from ..external import TRANSITION, TVM_BACKEND
from ..store.key import stored_version
from .batch import measure_batch
from .bounds import least_seconds
from .kernels import choose_kernels
from .row import build_options, tuning_records
from .session import (
    OwnSession,
    Session,
    default_workers,
    open_session,
    own_backend_modules,
)
from .transitions import measure_transitions, transition_candidates
from .tuned import tune_whole, tuning

__all__ = [
    "TRANSITION",
    "TVM_BACKEND",
    "OwnSession",
    "Session",
    "build_options",
    "choose_kernels",
    "default_workers",
    "least_seconds",
    "measure_batch",
    "measure_transitions",
    "open_session",
    "own_backend_modules",
    "stored_version",
    "transition_candidates",
    "tune_whole",
    "tuning",
    "tuning_records",
]
