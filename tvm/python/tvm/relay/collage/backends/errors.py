# SPDX-License-Identifier: Apache-2.0
"""Errors of backends. Test: backends/dnnl/test_errors.py, backends/test_registry.py."""

from ..errors import BackendUnavailableError, CollageError, UnknownBackendError

__all__ = ["BackendUnavailableError", "UnknownBackendError", "UnsupportedOpError"]


class UnsupportedOpError(CollageError, ValueError):
    """A partition holds an op, or an attribute of one, that its backend cannot run."""

    def __init__(self, backend: str, op: str, what: str):
        super().__init__(f"{backend} cannot run {op}: {what}")
        self.backend, self.op, self.what = backend, op, what
