# SPDX-License-Identifier: Apache-2.0
"""The module of an ONNX file, or what is wrong with the file. Test: cli/test_tt.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tvm

from ..errors import ModelError
from ..files.kinds import ONNX, kind_of
from ..files.text import why_no_file
from ..messages.foreign import last_line
from .onnx import from_onnx


def check_is_file(path: Path) -> None:
    """Raise ModelError where there is no file that can be read."""
    if reason := why_no_file(path):
        raise ModelError(f"{path} cannot be read: {reason}; name an ONNX file")


def onnx_module(path: Path, shapes: Mapping[str, Sequence[int]]) -> tvm.IRModule:
    """Return an ONNX file's module. `shapes` are for inputs that it leaves open. ModelError, which
    names the file."""
    import onnx  # costs a tenth of a second, which other commands need not pay

    check_is_file(path)
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # noqa: BLE001 - protobuf's own kinds, which onnx does not name
        kind = kind_of(path)
        if kind == ONNX:
            why = f"it is cut off or damaged ({last_line(error)}); copy or export it again"
        else:
            why = f"it seems to be {kind}; name an ONNX file"
        raise ModelError(f"{path} cannot be read as an ONNX model: {why}") from None
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # noqa: BLE001 - of the system, or of onnx's check of the paths
        raise ModelError(
            f"{path} keeps weights in files beside it, and these cannot be read "
            f"({last_line(error)}); copy them into its folder, or export it again"
        ) from None
    try:
        return from_onnx(model, dict(shapes) or None)[0]
    except ModelError as error:
        raise type(error)(f"{path}: " + error.text) from error.__cause__
    except Exception as error:  # of TVM's importer, of whatever kind
        why = f"TVM cannot import the model: {last_line(error)}"
        raise ModelError(f"{path}: {why}; export it again, or name another") from error
