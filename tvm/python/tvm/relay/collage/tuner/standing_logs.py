# SPDX-License-Identifier: Apache-2.0
"""Tuning logs for every build of this process, where its options name none.

Test: tuner/test_standing_logs.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..backends import find_backend
from ..errors import OptionError, UnknownBackendError
from ..tuning.logs import read_log

# Who has TVM's kernels, in reports and here.
_TVM = "tvm"
_logs: list[str] = []


def update_tuning_log(
    backend_name: str, logs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
) -> None:
    """Have the backend's kernels use these logs from now on, in place of those named before.

    ``backend_name`` is "tvm"; ``logs`` is a path or several (docs/tuning.md), none for none. A
    build whose option ``tuning_log`` names logs uses these instead. TuningLogError for what is no
    log, UnknownBackendError or OptionError for a backend that has none; then nothing changes.
    """
    if backend_name != _TVM:
        if find_backend(backend_name) is None:
            raise UnknownBackendError(
                f"unknown backend {backend_name!r}: 'tvm' is the one with tuning logs"
            )
        raise OptionError(
            f"backend {backend_name!r} has no tuning log, 'tvm' has: a codegen of your own gets "
            'its log as an option of its target, options = {"log": ""} and '
            f'Target("{backend_name} -log=FILE")'
        )
    paths = [logs] if isinstance(logs, (str, os.PathLike)) else logs
    if not isinstance(paths, Sequence) or not all(isinstance(p, (str, os.PathLike)) for p in paths):
        raise TypeError(f"update_tuning_log takes a path or a list of paths, got {logs!r:.60}")
    for path in paths:
        read_log(path)
    _logs[:] = [os.path.abspath(path) for path in paths]


def logs_of(options: Any) -> list[str]:
    """The logs that a build with these CollageOptions uses."""
    return options.tuning_log or list(_logs)
