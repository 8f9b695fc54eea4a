# SPDX-License-Identifier: Apache-2.0
"""Metrics: how far outputs are off those of float32, by a name or by a function of the user's.

| metric | error of a sample |
|---|---|
| max | max of abs(a-b) over max of abs(b), of the worst output |
| rms | root of the mean of (a-b)^2 over that of b^2, of the worst output |
| argmax | share of places where the largest along the last axis is another one |

The error of several samples is their mean: a user's metric may count right answers, of which a
median tells nothing. Test: precision/test_metrics.py. Docs: docs/precision.md.
"""

from __future__ import annotations

import importlib
import math
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import OptionError
from ..measure.race.comparison import LEAST_SCALE, output_error
from ..options.named import option

Arrays = Sequence[np.ndarray]
# Outputs by name, and those of float32 -> the error, 0 for none.
OfUser = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], float]
_CALLED = option("metric")
_NOTHING = 1e-6


class Metric(NamedTuple):
    """A metric, and what reports call it."""

    name: str
    of_sample: Callable[[Arrays, Arrays], float]

    def error(self, outputs: Sequence[Arrays], right: Sequence[Arrays]) -> float:
        """Return the mean error of samples, infinite where it is no number."""
        each = [self.of_sample(a, b) for a, b in zip(outputs, right, strict=True)]
        mean = statistics.fmean(each)
        return mean if math.isfinite(mean) else math.inf

    def check(self, right: Sequence[Arrays]) -> None:
        """OptionError for a metric that finds an error in outputs that are right, as one does that
        tells how good they are."""
        if (found := self.error(right, right)) > _NOTHING:
            raise OptionError(
                _CALLED + f": {self.name} gives {found:.3g} for outputs that are right: return an "
                "error, which is 0 for equal outputs, and not a score"
            )


def find_metric(given: str | OfUser, names: Sequence[str]) -> Metric:
    """Return the metric of that name, of that "module:function", or that the function is; `names`
    are the model's outputs'. OptionError for what is none, TypeError for another kind."""
    if callable(given):
        return _of_user(getattr(given, "__name__", "metric"), given, names)
    if not isinstance(given, str):
        raise TypeError(f"metric takes a name or a function, got {given!r:.60}")
    if given in _METRICS:
        return Metric(given, _METRICS[given])
    module, colon, function = given.partition(":")
    if not colon:
        raise OptionError(
            _CALLED + f": {given!r} is none of {', '.join(_METRICS)}, and no module:function"
        )
    # As Python finds modules beside a script, commands find them in the folder that they run in.
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # noqa: BLE001 - of whatever kind, the user's module raises
        why = f"{type(error).__name__}: {error}"
        raise OptionError(_CALLED + f": {given!r} cannot be imported: {why}") from None
    finally:
        sys.path.remove(folder)
    if not callable(found):
        raise OptionError(_CALLED + f": {given!r} is no function")
    return _of_user(given, found, names)


def _of_user(called: str, function: OfUser, names: Sequence[str]) -> Metric:
    def of_sample(outputs: Arrays, right: Arrays) -> float:
        both = [dict(zip(names, each, strict=False)) for each in (outputs, right)]
        try:
            found = float(function(*both))
        except Exception as error:
            kind = type(error).__name__
            raise OptionError(_CALLED + f": {called} fails: {kind}: {error}") from error
        if found < 0:
            raise OptionError(_CALLED + f": {called} gives {found:.3g}: an error is 0 or more")
        return found

    return Metric(called, of_sample)


def _largest(outputs: Arrays, right: Arrays) -> float:
    return output_error(outputs, right, LEAST_SCALE)


def _rms(outputs: Arrays, right: Arrays) -> float:
    worst = 0.0
    for a, b in zip(outputs, right, strict=True):
        if a.shape != b.shape:
            return math.inf
        found = math.sqrt(square_error(a, b))
        worst = max(worst, found) if math.isfinite(found) else math.inf
    return worst


def square_error(outputs: np.ndarray, right: np.ndarray) -> float:
    """Return the sum of squares of the difference over that of what is right; 0 for equal ones."""
    a, b = outputs.astype("float64"), right.astype("float64")
    same = (a == b) | (np.isnan(a) & np.isnan(b))  # infinities of one sign, too
    difference = float(np.sum(np.square(np.where(same, 0.0, a) - np.where(same, 0.0, b))))
    scale = float(np.sum(np.square(np.where(np.isfinite(b), b, 0.0))))
    if not math.isfinite(difference):
        return math.inf
    return 0.0 if difference == 0.0 else difference / max(scale, LEAST_SCALE**2 * b.size)


def _argmax(outputs: Arrays, right: Arrays) -> float:
    places, others = 0, 0
    for a, b in zip(outputs, right, strict=True):
        if a.shape != b.shape:
            return math.inf
        if b.ndim and b.size:
            differs = np.argmax(a, axis=-1) != np.argmax(b, axis=-1)
            places, others = places + differs.size, others + int(np.sum(differs))
    return others / places if places else 0.0


_METRICS: dict[str, Callable[[Any, Any], float]] = {
    "max": _largest,
    "rms": _rms,
    "argmax": _argmax,
}
