# SPDX-License-Identifier: Apache-2.0
"""Forms of a model, each placed and built as any module is, and compared by the user's metric.

A form is the model in one choice of precisions. Test: precision/test_place.py.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
import tvm
from tvm_collage.words import Effort

from ..backends.accuracy import trades_accuracy
from ..backends.interface import Backend
from ..backends.registry import backend_of
from ..backends.targets import TargetList
from ..errors import MachineError, ModelError
from ..exec.arrays import load_arrays, save_arrays
from ..exec.process import ask_own
from ..exec.reply import Unsupported
from ..exec.resolve import call_of
from ..importer.onnx import from_onnx
from ..measure.race.comparison import Comparison, OutputMetric, RightOutputs, compared
from ..measure.race.race import Contestant, RaceOptions
from ..measure.race.rounds import ROUNDS_BEFORE_GIVING_UP, Enough, Further
from ..messages.progress import one_step, steps, waiting
from ..optimizer import optimize
from ..options import CollageOptions
from ..plans.graph_search.decide import in_question
from ..plans.graph_search.guard import CLEARLY_SLOWER, TIMED_SECONDS, choose
from ..plans.original.runtimes import run_original
from ..relay_util.external import is_external_function
from ..result import Result
from .calibration import Samples, by_sample, stacked
from .layer_times import layers_of, nodes_kept
from .metrics import Arrays, Metric

# The metric alone judges a form.
_ANY_ERROR = 1.0
_SECONDS = 600.0
# A form takes at most this share of the time that is left, so that others have some.
_SHARE, _LEAST_SECONDS = 0.5, 1.0
# The race of plans that are compared again: as forms, or once they are searched.
_FEW_ROUNDS, _FEW_SECONDS = 8, 1.0
_logger = logging.getLogger(__name__)


class Wanted(NamedTuple):
    """The model in a choice of precisions, to be placed."""

    name: str
    model: onnx.ModelProto
    precisions: Mapping[str, str] = MappingProxyType({})  # by layer; the others are in float32
    # The layers as a module has them, where backends that trade accuracy may take some alone.
    order: Sequence[str] = ()
    # Backends that trade accuracy and may take layers that are not in float32.
    traders: frozenset[str] = frozenset()
    # The backends that may take others; None: all of them.
    among: frozenset[str] | None = None


class Trader(NamedTuple):
    """A backend that trades accuracy."""

    backend: str
    kind: str  # the type that it does so for
    keeps_calls: bool  # whether a layer of another precision is no border of its parts
    share: float  # of the layers that it may compute so


class Form(NamedTuple):
    """The model in a choice of precisions, placed and built."""

    wanted: Wanted
    result: Result
    library: str  # its file

    @property
    def name(self) -> str:
        return self.wanted.name

    @property
    def backends(self) -> frozenset[str]:
        """Return the names of the backends that have parts of it."""
        functions = self.result.mod.functions.values()
        return frozenset(str(f.attrs["Compiler"]) for f in functions if is_external_function(f))

    @property
    def seconds(self) -> float:
        """Return what a run took in its own race; 0 where nobody timed it."""
        found = self.result
        return found.guard.of(found.plan).cost.seconds or 0.0 if found.guard else 0.0


def write_right_outputs(model: str, inputs: str, outputs: str, sets: int) -> None:
    """Write what a model's file gives for stacked samples, as its own runtime computes it in a
    process of its own. ModelError where it does not run."""
    call = call_of(run_original, model=model, inputs=inputs, outputs=outputs, sets=sets)
    try:
        ask_own("its runtime cannot run it", _SECONDS, {"call": call})
    except Unsupported as error:
        raise ModelError(f"the model cannot be compared: {error}") from None


class Forms:
    """The builder of forms of one model, which compares them on samples."""

    def __init__(
        self,
        model: onnx.ModelProto,
        targets: TargetList,
        options: CollageOptions,
        *,
        metric: Metric,
        shapes: Mapping[str, Sequence[int]],
        build_options: Mapping[str, Any],
        folder: str,
    ) -> None:
        self._model, self._targets, self._options = model, targets, options
        self._metric, self._shapes, self.folder = metric, shapes, folder
        self._build_options = dict(build_options)
        self._ends = time.monotonic() + (options.time_limit or math.inf)
        # An earlier decision has no profiles, by which seconds of layers are known.
        self._inner = dataclasses.replace(
            options,
            calibration="",
            metric=CollageOptions().metric,
            report="",
            reuse_decision=False,
        )

    def imported(self, model: onnx.ModelProto) -> Any:
        """Return the module of the model, or of another form of it."""
        return self._module if model is self._model else self._imported(model)

    @functools.cached_property
    def _module(self) -> Any:
        """The model as it is given, which several forms are of."""
        return self._imported(self._model)

    def _imported(self, model: onnx.ModelProto) -> Any:
        return from_onnx(model, dict(self._shapes))[0]

    def traders(self) -> list[Trader]:
        """Return the backends that trade accuracy, by their types."""
        ops = [call.op.name for call in layers_of(self.imported(self._model))]
        backends = filter(None, map(backend_of, self._targets.external))

        def share(backend: Backend) -> float:
            return sum(bool(backend.trades(op)) for op in ops) / max(1, len(ops))

        found = [
            Trader(each.name, each.trades_accuracy, each.keeps_calls, share(each))
            for each in backends
            if each.trades_accuracy
        ]
        return sorted(found, key=lambda trader: trader.kind)

    def is_time_up(self) -> bool:
        return time.monotonic() >= self._ends

    def place(
        self, wanted: Wanted, sample: Mapping[str, np.ndarray], *, is_searched: bool = False
    ) -> Form:
        """Place and build a form, whose whole plans run on the sample: `is_searched` as long as the
        user's effort has it, else by profiles of the backends alone and a short race. Errors are
        those of `optimize`."""
        name, model, precisions, order, traders, among = wanted
        how = "searched" if is_searched else "by profiles"
        _logger.info("precision %s, %s", name, how)

        def is_allowed(target: tvm.target.Target) -> bool:
            if trades_accuracy(target):
                return target.kind.name in traders
            return among is None or target.kind.name in among

        targets = [self._targets.host, *filter(is_allowed, self._targets.external)]
        with one_step("importing", f"the model in {name}", self._options.progress):
            mod = self.imported(model)
        limit = max(_LEAST_SECONDS, _SHARE * (self._ends - time.monotonic()))
        options = dataclasses.replace(self._inner, accuracy_budget=_ANY_ERROR if traders else 0.0)
        if not is_searched:
            options = dataclasses.replace(
                options,
                effort=Effort.QUICK,
                guard_rounds=min(_FEW_ROUNDS, options.guard_rounds),
                guard_seconds=min(_FEW_SECONDS, options.guard_seconds),
            )
        options = dataclasses.replace(options, time_limit=0.0 if math.isinf(limit) else limit)
        result = optimize(
            mod,
            None,
            targets,
            options,
            build_options=self._build_options,
            sample_inputs=sample,
            original=model,
            kept=functools.partial(nodes_kept, order, precisions) if order else None,
        )
        library = os.path.join(self.folder, f"{len(os.listdir(self.folder))}.so")
        result.save_library(library)
        return Form(wanted, result, library)

    def right_outputs(self, samples: Samples, name: str) -> list[Arrays]:
        """Return what the model gives for samples in float32, as its own runtime computes it; the
        samples and these stay in files of that name. ModelError where it does not run."""
        model, inputs, outputs = (self._file(name, end) for end in ("onnx", "npz", "right.npz"))
        onnx.save(self._model, model)
        save_arrays(inputs, stacked(samples))
        write_right_outputs(model, inputs, outputs, len(samples))
        return by_sample(list(load_arrays(outputs).values()), len(samples))

    def error_of(self, form: Form, name: str, right: list[Arrays]) -> float:
        """Return the error of a form on the samples of that name; infinite where it fails."""
        contestant = self._contestant(form, name, len(right))
        file = self._file("own", "npz")
        opening = {"factory": contestant.factory, "arguments": dict(contestant.arguments)}
        commands: dict[str, dict[str, Any]] = {"open": opening, "outputs": {"file": file}}
        try:
            ask_own("it does not run", _SECONDS, commands)
        except Unsupported as error:
            _logger.warning("precision %s: %s", form.name, error)
            return math.inf
        return self._metric.error(by_sample(list(load_arrays(file).values()), len(right)), right)

    def compared(
        self, forms: Sequence[Form], name: str, right: list[Arrays]
    ) -> tuple[str, list[Comparison]]:
        """Compare forms on the samples of that name in turns; return the fastest within the budget,
        with what each did. The first one is in float32 and not judged."""
        count, budget = len(right), self._options.accuracy_budget

        def error(outputs: Sequence[np.ndarray], _: Sequence[np.ndarray]) -> float:
            return self._metric.error(by_sample(outputs, count), right)

        options = self._options.guarding
        names = [each.name for each in forms]
        with steps("comparing", self._options.progress, is_open=True) as on_step:
            race = RaceOptions(
                rounds=options.rounds,
                enough=Enough(ROUNDS_BEFORE_GIVING_UP, options.seconds),
                early_end=CLEARLY_SLOWER,
                further=Further(
                    functools.partial(in_question, simplest_first=names), options.seconds
                ),
                timed_seconds=TIMED_SECONDS,
                on_round=lambda done, goal: on_step("precisions", done, goal),
                on_wait=waiting(on_step, 0, options.rounds),
            )
            judged = RightOutputs(
                rtol={each: math.inf if each == names[0] else budget for each in names},
                truth=self._file(name, "right.npz"),
                metric=OutputMetric(self._metric.name, error),
            )
            contestants = [self._contestant(each, name, count) for each in forms]
            found = compared(contestants, judged, race)
        try:
            return choose(found, names), found
        except RuntimeError as failed:
            raise MachineError(str(failed)) from None

    def _contestant(self, form: Form, name: str, count: int) -> Contestant:
        called = self._build_options.get("mod_name", "default")
        return Contestant.of_library(
            form.name,
            form.library,
            self._file(name, "npz"),
            mod_name=called,
            sets=count,
            timed=1,
        )

    def _file(self, name: str, end: str) -> str:
        return os.path.join(self.folder, f"{name}.{end}")
