# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can mend: each message names the op or option, the backend, and what to do.

Internal errors are not here; they stay RuntimeError or TVMError. Test: test_errors.py.
"""


class CollageError(Exception):
    """Base of the errors below."""


class UnknownBackendError(CollageError, ValueError):
    """A target or option names a backend that was never registered."""


class BackendUnavailableError(CollageError, RuntimeError):
    """A backend was asked for by name, but its library, version or CPU feature is missing."""


class HostTargetError(CollageError, ValueError):
    """The target list has no host target, or more than one for the same device."""


class ModuleError(CollageError, ValueError):
    """The module cannot be compiled: no main, or an ill-typed expression."""


class ExecutorError(CollageError, ValueError):
    """The executor cannot run what an external backend compiles."""
