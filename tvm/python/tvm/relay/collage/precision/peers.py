# SPDX-License-Identifier: Apache-2.0
"""A library beside the frameworks that a user could pick instead, in each precision that they
have, on the same samples and by the same metric.

Both frameworks run the model as it is, and in 8 bits as NNCF quantises it by the samples for
ranges; onnxruntime also as itself quantises it without samples (its dynamic way), and OpenVINO with
weights alone in 8 bits. OpenVINO does each once in float32 and once in bfloat16.
Test: precision/test_peers.py.
"""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx

from ..errors import ModelError
from ..exec.arrays import load_arrays, save_arrays
from ..exec.process import ask_own
from ..exec.reply import Unsupported
from ..exec.resolve import call_of
from ..measure.peers import PEERS
from ..measure.race.comparison import Comparison, OutputMetric, RightOutputs, compared
from ..measure.race.race import Contestant, RaceOptions
from ..report.precision import FLOAT32
from .calibration import Calibration, by_sample, stacked
from .forms import write_right_outputs
from .layers import INT8, is_quantised
from .metrics import Metric
from .quantiser import quantise

_SECONDS = 600.0
DYNAMIC, WEIGHTS = "int8 dynamic", "int8 weights"
_logger = logging.getLogger(__name__)


class _Way(NamedTuple):
    """A framework on a form of the model, and the type that it is told to compute in."""

    peer: str
    form: str
    precision: str = ""


_WAYS = (
    _Way("onnxruntime", FLOAT32),
    _Way("onnxruntime", INT8),
    _Way("onnxruntime", DYNAMIC),
    *(
        _Way("openvino", form, kind)
        for form in (FLOAT32, INT8, WEIGHTS)
        for kind in ("f32", "bf16")
    ),
)


def beside_peers(
    name: str,
    library: str,
    model: onnx.ModelProto,
    samples: Calibration,
    folder: str,
    *,
    metric: Metric,
    environment: Mapping[str, str],
    race: RaceOptions,
    budget: float = math.inf,
) -> list[Comparison]:
    """Measure a library, by that name, in turns with the frameworks that are installed; the error
    of each is that by the metric on all samples that ours had to be within the budget on, those for
    errors and those of the check, and who is over the budget is not timed. Files go to the folder;
    the environment's TVM_NUM_THREADS says how many threads all have. A form that cannot be made is
    left out, with a warning."""
    inputs, truth = (os.path.join(folder, file) for file in ("judged.npz", "truth.npz"))
    judging = [*samples.errors, *samples.check]
    save_arrays(inputs, stacked(judging))
    count = len(judging)
    files = _forms(model, samples, folder)
    write_right_outputs(files[FLOAT32], inputs, truth, count)
    own = Contestant.of_library(name, library, inputs, environment, sets=count, timed=1)
    others = [
        PEERS[way.peer].contestant(
            files[way.form],
            inputs,
            environment,
            " ".join(filter(None, way)),
            sets=count,
            **({"precision": way.precision} if way.precision else {}),
        )
        for way in _WAYS
        if way.form in files and PEERS[way.peer].is_installed()
    ]
    right = by_sample(list(load_arrays(truth).values()), count)

    def error(outputs: Sequence[np.ndarray], _: Sequence[np.ndarray]) -> float:
        return metric.error(by_sample(outputs, count), right)

    judged = RightOutputs(rtol=budget, truth=truth, metric=OutputMetric(metric.name, error))
    return compared([own, *others], judged, race)


def _forms(model: onnx.ModelProto, samples: Calibration, folder: str) -> dict[str, str]:
    """Return the files of the forms that can be made."""
    plain = os.path.join(folder, "plain.onnx")
    onnx.save(model, plain)
    files = {FLOAT32: plain}
    if is_quantised(model):
        return files
    makers: dict[str, Callable[[], str]] = {
        INT8: lambda: quantise(model, samples.ranges, folder).quantised,
        DYNAMIC: functools.partial(_made, quantise_dynamically, plain, folder),
        WEIGHTS: functools.partial(_made, quantise_weights, plain, folder),
    }
    for form, make in makers.items():
        try:
            files[form] = make()
        except ModelError as error:
            _logger.warning("no peer in %s: %s", form, error)
    return files


def _made(function: Callable[..., None], model: str, folder: str) -> str:
    """Return the file that a function of a process of its own makes of another."""
    file = os.path.join(folder, f"{function.__name__}.onnx")
    call = call_of(function, model=model, file=file)
    try:
        ask_own("it cannot be quantised", _SECONDS, {"call": call})
    except Unsupported as error:
        raise ModelError(str(error)) from None
    return file


def quantise_dynamically(model: str, file: str) -> None:
    """Quantise a model's file as onnxruntime does without samples, in a worker."""
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(model, file)


def quantise_weights(model: str, file: str) -> None:
    """Quantise the weights of a model's products by NNCF, in a worker."""
    import nncf

    nncf.set_log_level(logging.ERROR)
    onnx.save(nncf.compress_weights(onnx.load(model), mode=nncf.CompressWeightsMode.INT8_SYM), file)
