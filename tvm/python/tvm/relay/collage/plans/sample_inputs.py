# SPDX-License-Identifier: Apache-2.0
"""Inputs that the user gives for whole plans to be compared on, as the option `sample_inputs` asks.

Test: plans/test_sample_inputs.py.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from ..errors import FileError, OptionError
from ..files.kinds import ZIP, kind_of
from ..files.text import why_no_file
from ..messages.foreign import last_line
from ..options.named import option

_OPTION = "sample_inputs"
_CALLED = option(_OPTION)
_TO_WRITE = "name one that numpy.savez(path, **arrays by input name) wrote"
# What to do where inputs that were made up do not suit a model.
ADVICE = (
    "its inputs were made up: give real ones by the option sample_inputs, an .npz file of arrays "
    "by input name"
)
# What numpy raises for a file that holds none.
_NO_ARRAYS = (OSError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile)


class SampleInputs(dict[str, np.ndarray]):
    """Arrays by name. called: the option that gave them; file: where they lie, "" for none."""

    def __init__(self, arrays: Mapping[str, np.ndarray], called: str, file: str = "") -> None:
        super().__init__(arrays)
        self.called, self.file = called, file

    def misfit(self, why: str) -> OptionError:
        """Return what to raise for arrays that a model does not take."""
        if self.file:
            return FileError(self.called + f": {self.file!r}: {why}")
        return OptionError(self.called + f": {why}")


def load_samples(
    given: Mapping[str, Any] | str | os.PathLike, called: str = _CALLED
) -> SampleInputs:
    """Load arrays by name, of a mapping (numpy's or TVM's arrays) or of an .npz file; none for "".

    FileError for a file that is none, naming what it is `called`; TypeError for what cannot be
    arrays by name.
    """
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        return SampleInputs(_load_file(path, called) if path else {}, called, path)
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(
            f"{_OPTION} takes arrays by input name, or the path of an .npz file, got {given!r:.60}"
        )
    return SampleInputs({name: _array(name, value) for name, value in given.items()}, called)


def _array(name: str, value: object) -> np.ndarray:
    try:
        return _plain(value.numpy() if isinstance(value, tvm.nd.NDArray) else np.asarray(value))
    except ValueError as error:
        raise TypeError(f"{_OPTION}: input {name!r} is no array: {error}") from None


def _load_file(path: str, called: str) -> dict[str, np.ndarray]:
    if reason := why_no_file(path):
        raise FileError(called + f": {path!r} cannot be read: {reason}; {_TO_WRITE}")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: _plain(arrays[name]) for name in arrays.files}
    except _NO_ARRAYS as error:
        # Of another file numpy says only that it may be a pickle, and how to load it unsafely.
        kind = kind_of(path)
        reason = last_line(error) if kind == ZIP else f"it seems to be {kind}"
        raise FileError(
            called + f": {path!r} is no .npz file of arrays ({reason}); {_TO_WRITE}"
        ) from None


def _plain(array: np.ndarray) -> np.ndarray:
    """Put an array in this machine's order of bytes, which a type's name does not say."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_samples(samples: SampleInputs, mod: tvm.IRModule) -> None:
    """OptionError for a name that is no input of the model, or an array of another shape or type.

    Inputs may be left out: these are made up. A dimension of the model that is not fixed takes any.
    """
    params = {param.name_hint: param.checked_type for param in mod["main"].params}
    for name, array in samples.items():
        if name not in params:
            inputs = ", ".join(params) or "none"
            raise samples.misfit(
                f"{name!r} is no input of the model (inputs: {inputs}); parameters that are bound "
                "are none"
            )
        wanted = params[name]
        if not isinstance(wanted, tvm.ir.TensorType):
            raise samples.misfit(f"input {name!r} is no tensor: leave it out")
        shape = [int(d) if isinstance(d, tvm.tir.IntImm) else None for d in wanted.shape]
        fits = len(shape) == array.ndim and all(
            dim in (None, size) for dim, size in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype.name != wanted.dtype:
            text = ", ".join("any" if dim is None else str(dim) for dim in shape)
            raise samples.misfit(
                f"input {name!r} takes {wanted.dtype} of shape ({text}), got {array.dtype.name} of "
                f"shape ({', '.join(map(str, array.shape))})"
            )
