# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can mend: each message names the op or option, the backend, and what to do.

Internal errors are not here; they stay RuntimeError or TVMError. Test: test_errors.py.
"""

from tvm._ffi import register_func
from tvm._ffi.base import ERROR_TYPE, register_error


class CollageError(Exception):
    """Base of the errors below."""

    @property
    def text(self) -> str:
        """Return what it says: an OptionText (options/named.py) where that names an option."""
        return self.args[0] if self.args else ""


class UnknownBackendError(CollageError, ValueError):
    """A target or option names a backend that was never registered."""


class BackendUnavailableError(CollageError, RuntimeError):
    """A backend was asked for by name, but its library, version or CPU feature is missing."""


class HostTargetError(CollageError, ValueError):
    """The target list has no host target, or more than one for the same device."""


class DeviceError(CollageError, RuntimeError):
    """No device of the RPC tracker can be measured on, or they are not what was asked for."""


class MachineError(CollageError, RuntimeError):
    """This machine keeps candidates from being measured: no compiler, no room, no memory."""


class ModuleError(CollageError, ValueError):
    """The module cannot be compiled: no main, an ill-typed expression, or the wrong executor."""


class ModelError(CollageError, ValueError):
    """TVM cannot take a model, or a node of it: the message says why."""


class OriginalError(ModelError):
    """A model as it was imported computes otherwise than its original file: the message says which
    node does."""


class ShapeError(ModelError):
    """A shape is given for what is no input of a model, or one that differs from the model's."""


class ExecutorError(CollageError, ValueError):
    """The executor, or the runtime, cannot run what an external backend compiles."""


class OptionError(CollageError, ValueError):
    """An option's value is of the right form, but cannot be used here."""


class FileError(OptionError):
    """A file that was named is no library, is damaged, or does not have what is asked of it."""


class UnsupportedOpError(CollageError, ValueError):
    """A partition holds an op, or an attribute of one, that its backend cannot run."""

    def __init__(self, backend: str, op: str, what: str) -> None:
        super().__init__(f"{backend} cannot run {op}: {what}")
        self.backend, self.op, self.what = backend, op, what


@register_error
class PlacementError(CollageError, ValueError):
    """A saved placement cannot be used, or none can be saved.

    kind: "file" (unreadable, cut off, of another schema), "module", "weights", "backend",
    "version", "machine", "target", "parts" (what it names cannot be) or "plan" (cannot be saved).
    """

    def __init__(self, message: str, kind: str = "parts") -> None:
        super().__init__(message)
        self.kind = kind


class UnknownPlanError(PlacementError):
    """A plan is named that a report, a library or a placement does not have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "plan")


@register_func("tvm.relay.collage.raise_error", override=True)
def _raise_error(kind: str, message: str) -> None:
    """Raise what C++ found wrong, as TVM's FFI knows its class."""
    raise {"RuntimeError": RuntimeError, **ERROR_TYPE}[kind](message)
