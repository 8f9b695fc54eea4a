# SPDX-License-Identifier: Apache-2.0
"""Calibration samples: inputs of the user's for ranges, for errors and for the final check, which
are other ones for each. Test: precision/test_calibration.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx

from ..errors import OptionError
from ..options.named import option
from ..plans.sample_inputs import load_samples

# Fewer samples cannot be one for each purpose.
FEWEST = 3
_CALLED = option("calibration")

Sample = dict[str, np.ndarray]  # arrays by input name
Samples = list[Sample]


class Calibration(NamedTuple):
    """The samples by purpose. No sample has two: ranges that were fitted to a sample flatter it."""

    ranges: Samples
    errors: Samples  # by which layers and sets of them are judged
    check: Samples  # by which what ships is

    @classmethod
    def of(cls, samples: Samples) -> Calibration:
        """Divide samples in their order: half of them for ranges, where there are four."""
        if len(samples) < FEWEST:
            raise OptionError(
                _CALLED + f" has {len(samples)} samples, and {FEWEST} are the fewest: one for "
                "ranges, one for errors and one for the final check; give a few dozen real inputs"
            )
        if len(samples) == FEWEST:
            return cls(*([each] for each in samples))
        kinds = [samples[start::4] for start in range(4)]
        return cls([*kinds[0], *kinds[1]], kinds[2], kinds[3])


def load_calibration(given: Any, model: onnx.ModelProto) -> Samples:
    """Return the samples of an ONNX model's inputs.

    given: an .npz file, or arrays by input name, in each of which samples lie one behind the other
    along an axis of their own before the input's, or along its first one; or an iterable of
    samples, each arrays by name, or one array where the model has one input.
    OptionError (FileError for a file) names the input and what it takes.
    """
    inputs = _inputs(model)
    if isinstance(given, (str, os.PathLike, Mapping)):
        arrays = load_samples(given, _CALLED)
        try:
            return _cut(arrays, inputs)
        except OptionError as error:
            raise (arrays.misfit(error.text) if arrays.file else _misfit(error.text)) from None
    if not isinstance(given, Iterable):
        raise TypeError(
            "calibration takes an .npz file, arrays by input name or an iterable of samples, got "
            f"{given!r:.60}"
        )
    try:
        return [_sample(each, inputs) for each in given]
    except OptionError as error:
        raise _misfit(error.text) from None


class _Input(NamedTuple):
    """The type and the shape of an input of the model; None for an open size."""

    dtype: str
    shape: tuple[int | None, ...]

    def fits(self, shape: tuple[int, ...]) -> bool:
        sizes = zip(self.shape, shape, strict=False)
        return len(self.shape) == len(shape) and all(own in (None, size) for own, size in sizes)

    def __str__(self) -> str:
        text = ", ".join("any" if size is None else str(size) for size in self.shape)
        return f"{self.dtype} of shape ({text})"


def _inputs(model: onnx.ModelProto) -> dict[str, _Input]:
    weights = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        # Some exporters write -1 for what is open.
        sizes = (dim.dim_value if dim.dim_value > 0 else None for dim in kind.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        found[value.name] = _Input(dtype.name, tuple(sizes))
    return found


def _misfit(why: str) -> OptionError:
    return OptionError(_CALLED + f": {why}")


def _check_names(names: Iterable[str], inputs: Mapping[str, _Input]) -> None:
    names, known = set(names), ", ".join(inputs)
    if others := sorted(names - inputs.keys()):
        raise OptionError(f"{others[0]!r} is no input of the model (inputs: {known})")
    if missing := sorted(inputs.keys() - names):
        raise OptionError(f"input {missing[0]!r} has no samples (inputs: {known})")


def _cut(arrays: Mapping[str, np.ndarray], inputs: Mapping[str, _Input]) -> Samples:
    """Return the samples that lie one behind the other in each array."""
    _check_names(arrays, inputs)
    parts = {name: _parts(name, arrays[name], inputs[name]) for name in inputs}
    counts = {name: len(each) for name, each in parts.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise OptionError(f"its inputs have different numbers of samples: {text}")
    return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]


def _parts(name: str, array: np.ndarray, wanted: _Input) -> list[np.ndarray]:
    if array.dtype.name == wanted.dtype:
        if array.ndim == len(wanted.shape) + 1 and wanted.fits(array.shape[1:]):
            return [*map(np.ascontiguousarray, array)]
        step = (wanted.shape[0] or 1) if wanted.shape else 0
        if step and array.ndim == len(wanted.shape) and array.shape[0] % step == 0:
            cut = [array[first : first + step] for first in range(0, array.shape[0], step)]
            if all(wanted.fits(each.shape) for each in cut):
                return [*map(np.ascontiguousarray, cut)]
    raise OptionError(
        f"input {name!r} takes {wanted}, one sample behind the other along a first axis; got "
        f"{array.dtype.name} of shape ({', '.join(map(str, array.shape))})"
    )


def _sample(given: Any, inputs: Mapping[str, _Input]) -> Sample:
    """Return one sample of an iterable."""
    if not isinstance(given, Mapping):
        if len(inputs) != 1:
            raise OptionError(
                f"a sample is arrays by input name ({', '.join(inputs)}), got a "
                f"{type(given).__name__}"
            )
        given = {next(iter(inputs)): given}
    arrays = load_samples(given, _CALLED)
    _check_names(arrays, inputs)
    for name, wanted in inputs.items():
        array = arrays[name]
        if array.dtype.name != wanted.dtype or not wanted.fits(array.shape):
            shape = ", ".join(map(str, array.shape))
            raise OptionError(
                f"input {name!r} takes {wanted}, got {array.dtype.name} of shape ({shape})"
            )
    return {name: np.ascontiguousarray(arrays[name]) for name in inputs}


def by_sample(outputs: Sequence[np.ndarray], count: int) -> list[Sequence[np.ndarray]]:
    """Return the outputs of samples, which lie one sample behind the other, sample by sample."""
    each = len(outputs) // count
    return [outputs[first : first + each] for first in range(0, each * count, each)]


def stacked(samples: Samples) -> Sample:
    """Return samples of equal shapes along an axis before their own. OptionError for others."""
    for name, first in samples[0].items():
        shapes = sorted({each[name].shape for each in samples})
        if len(shapes) > 1:
            raise _misfit(
                f"samples of input {name!r} have several shapes, {shapes[0]} and {shapes[1]}, and "
                f"a library has one: give samples of shape {first.shape} alone"
            )
    return {name: np.stack([each[name] for each in samples]) for name in samples[0]}
