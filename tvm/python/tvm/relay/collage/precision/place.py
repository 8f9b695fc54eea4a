# SPDX-License-Identifier: Apache-2.0
"""Backend and precision of every part: least time within an error that the user allows.

The model is placed in float, where a backend trades accuracy with that one too, with all layers in
8 bits, and with the precision for each layer that saves most within the budget: each by profiles,
which tell who is the fastest nearly as well as a search, and the fastest then by the user's effort.
What was built (forms.py) is compared on samples that nothing was chosen by, and the fastest within
the budget ships. Test: precision/test_place.py. Docs: docs/precision.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import onnx
from tvm_collage.words import Effort

from ..backends.accuracy import traders_in
from ..backends.targets import GivenTargets, available_targets, parse_targets
from ..errors import CollageError, ModelError, OptionError
from ..exec.launch import make_scratch
from ..files.text import check_report_path, write_report
from ..importer.whole import load_onnx
from ..measure.race.comparison import Comparison, compare_plans
from ..messages.progress import one_step
from ..options import CollageOptions
from ..options.named import option
from ..report.precision import FLOAT32, FrontPoint, LayerPrecision, PlacedLayer, Precisions
from ..result import Result
from .calibration import Calibration, load_calibration, stacked
from .choice import Choice
from .forms import Form, Forms, Trader, Wanted
from .layer_errors import Switchboard
from .layer_times import layers_in_order, precisions_of
from .layers import INT8, Quantised, is_quantised
from .metrics import Arrays, Metric, find_metric
from .mixes import Measured, Way, short_floats_of, ways_of
from .quantiser import check_installed, quantise

MIXED = "mixed"
# Other samples err otherwise: what is within this share of the budget is taken to be within it.
_MARGIN = 0.9
# So is, surely, what is within this share: of few samples a mean is off by as much as itself.
_SAFE = 0.45
# A choice is built where it saves so much more than all that is built already.
_WORTH_A_BUILD = 0.01
# A search gains less over profiles alone than this: what is so far behind is not searched, however
# exhaustively.
_MOST_OF_A_SEARCH = 1.15
# A type that fewer layers can have is not worth a form of its own, as of a net of convolutions that
# ends with one product.
_LEAST_TRADED = 0.5
# Two races of one plan differ by so much: what is searched more is taken for as fast.
_NOISE = 1.05
# Choices that turn out to be over the budget are followed by smaller ones, so many times.
_MOST_MIXES = 3
# What protobuf holds in one message is twice as much, and the model with switches has both forms.
_MOST_BYTES = 1 << 30
_ERRORS, _CHECK = "errors", "check"  # of files
_logger = logging.getLogger(__name__)


def optimize_precision(
    model: str | os.PathLike | onnx.ModelProto,
    targets: GivenTargets = None,
    options: CollageOptions | None = None,
    *,
    calibration: Any = None,
    metric: Any = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    build_options: dict[str, Any] | None = None,
) -> Result:
    """Place every part of an ONNX model in the precision and on the target where it was measured
    fastest, with outputs within the option `accuracy_budget`.

    `calibration`: real inputs, a few dozen: an .npz file, arrays by input name, or an iterable of
    samples (calibration.load_calibration); by default the file of the option of that name.
    `metric`: max, rms, argmax, "module:function", or a function of outputs and those of float32,
    both arrays by name, that returns the error of a sample; by default the option of that name.
    `targets`, `options` and `build_options`: as `optimize` takes them. `shapes`: of inputs that the
    model leaves open; by default those of the samples.

    Returns the result of what ships: `result.precision` says which layers are in 8 bits, and
    `result.model` is the ONNX model with these. OptionError for samples, a metric or a budget that
    cannot be used; else the errors of `optimize`.
    """
    options = CollageOptions.current() if options is None else options
    if not isinstance(options, CollageOptions):
        kind = type(options).__name__
        raise TypeError(f"optimize_precision takes options as CollageOptions(...), got {kind}")
    check_budget_of_samples(options)
    _check_options(options)
    check_report_path(options.report)
    check_installed()
    loaded = model if isinstance(model, onnx.ModelProto) else load_onnx(model)
    if loaded.ByteSize() > _MOST_BYTES:
        raise ModelError(
            f"it has more than {_MOST_BYTES >> 20} MiB, and precisions are chosen for smaller "
            "models: leave out " + option("calibration")
        )
    samples = load_calibration(options.calibration if calibration is None else calibration, loaded)
    own = {name: list(array.shape[1:]) for name, array in stacked(samples).items()}
    _check_shapes(own, shapes or {})
    found = find_metric(
        options.metric if metric is None else metric, [value.name for value in loaded.graph.output]
    )
    given = available_targets(options.accuracy_budget) if targets is None else targets
    parsed = parse_targets(given)
    with make_scratch() as folder:
        forms = Forms(
            loaded,
            parsed,
            options,
            metric=found,
            shapes=own,
            build_options=build_options or {},
            folder=folder,
        )
        search = _Search(loaded, forms, options, Calibration.of(samples), found)
        result = search.run()
    write_report(result, options.report)
    return result


def check_budget_of_samples(options: CollageOptions) -> None:
    """OptionError for samples without an error that is allowed."""
    if not options.accuracy_budget:
        raise OptionError(
            option("calibration")
            + " is for choosing precisions within an error: set "
            + option("accuracy_budget")
            + " to the largest one that you accept, e.g. 0.01"
        )


def _check_options(options: CollageOptions) -> None:
    """OptionError for options that do not go with samples."""
    calibration = option("calibration")
    if options.devices.tracker:
        raise OptionError(
            calibration
            + " measures errors on this machine, and "
            + option("rpc_tracker")
            + " has plans measured on others: leave one of them out"
        )
    if options.placement:
        raise OptionError(
            calibration
            + " makes a decision, and "
            + option("placement")
            + " replays one: leave one of them out"
        )


def _check_shapes(own: Mapping[str, list[int]], shapes: Mapping[str, Sequence[int]]) -> None:
    """OptionError for sizes that differ from those of the samples."""
    for name, sizes in shapes.items():
        if name in own and list(map(int, sizes)) != own[name]:
            raise OptionError(
                option("calibration")
                + f": samples of input {name!r} have shape {tuple(own[name])}, and "
                f"{tuple(sizes)} is asked for: give samples of that shape"
            )


class _Judged(NamedTuple):
    """A form with its error on the samples for errors."""

    form: Form
    error: float


def _over_budget(error: float, where: str = "") -> str:
    """Return why a form with such an error is left out."""
    is_known = math.isfinite(error)
    return f"its error is {error:.2%}{where}, over the budget" if is_known else "it does not run"


class _Priced(NamedTuple):
    """A choice of precisions with its error."""

    choice: Choice
    way: Way
    error: float


def _saved(plain: Form, other: Form) -> float:
    """Return the seconds that a form saves by the races of both; 0 where one was not timed."""
    return plain.seconds - other.seconds if plain.seconds and other.seconds else 0.0


class _Search:
    def __init__(
        self,
        model: onnx.ModelProto,
        forms: Forms,
        options: CollageOptions,
        samples: Calibration,
        metric: Metric,
    ) -> None:
        self._model, self._forms, self._options = model, forms, options
        self._samples, self._metric = samples, metric
        self._right: list[Arrays] = []
        self._judged: list[_Judged] = []  # those that compete
        self._left_out: dict[str, str] = {}
        self._tried: set[tuple[frozenset[str], frozenset[tuple[str, str]]]] = set()
        self._check_right: list[Arrays] = []
        self._order: list[str] = []  # layers as modules have them
        self._layers: tuple[PlacedLayer, ...] = ()
        self._front: tuple[FrontPoint, ...] = ()

    def run(self) -> Result:
        """Build and compare; return the result of what ships. Whoever interrupts it once float32 is
        built has what there is compared."""
        self._right = self._forms.right_outputs(self._samples.errors, _ERRORS)
        self._metric.check(self._right)
        plain = self._place(Wanted(FLOAT32, self._model))
        self._judged.append(_Judged(plain, 0.0))
        try:
            self._add_others(plain)
            self._check_right = self._forms.right_outputs(self._samples.check, _CHECK)
            self._check()
            if self._options.effort != Effort.QUICK:
                self._search_the_fastest()
        except KeyboardInterrupt:
            _logger.warning("interrupted: what is built by now is compared")
        right = self._check_right or self._forms.right_outputs(self._samples.check, _CHECK)
        forms = [each.form for each in self._judged]
        return self._result(*self._forms.compared(forms, _CHECK, right))

    def _add_others(self, plain: Form) -> None:
        traded: list[tuple[Trader, Form]] = []
        traders = self._forms.traders()
        kinds = Counter(trader.kind for trader in traders)
        for trader in traders:
            name = f"traded for {FLOAT32}" if trader.kind == FLOAT32 else trader.kind
            if kinds[trader.kind] > 1:
                name = f"{name} by {trader.backend}"
            if trader.share < _LEAST_TRADED:
                self._left_out[name] = f"{trader.share:.0%} of the layers can be in it"
            elif self._has_time(name):
                with self._leaving_out(name):
                    self._place_traded(name, trader, plain, traded)
        if is_quantised(self._model):
            self._left_out[INT8] = "the model is quantised already"
        elif self._has_time(INT8):
            with self._leaving_out(INT8):
                self._choose_precisions(plain, traded)

    def _check(self) -> None:
        """Leave out what is over the budget on samples that nothing was chosen by: where that is
        all in fewer bits, it is float32 that is worth a search."""
        for judged in self._judged[1:]:
            error = self._forms.error_of(judged.form, _CHECK, self._check_right)
            if error > self._options.accuracy_budget:
                self._judged.remove(judged)
                why = _over_budget(error, " on the samples of the check")
                self._left_out[judged.form.name] = why

    def _has_time(self, name: str) -> bool:
        if self._forms.is_time_up():
            self._left_out[name] = option("time_limit") + " leaves no time for it"
            return False
        return True

    @contextlib.contextmanager
    def _leaving_out(self, name: str) -> Iterator[None]:
        """Note why something is left out where the block fails by a reason that a user can read:
        what was built before competes."""
        try:
            yield
        except CollageError as error:
            _logger.warning("precision %s is left out: %s", name, error)
            self._left_out[name] = str(error)

    def _place(self, wanted: Wanted, is_searched: bool = False) -> Form:
        return self._forms.place(wanted, self._samples.errors[0], is_searched=is_searched)

    def _search_the_fastest(self) -> None:
        """Place again what is the fastest, as long as the user's effort has it: float32 alone, as
        others hardly gain by a search, unless it is to be exhaustive; then all that is near. Where
        that finds nothing faster, or ends up over the budget, what profiles gave competes. Whoever
        interrupts one search ends all."""
        timed = [each for each in self._judged if each.form.seconds]
        least = min((each.form.seconds for each in timed), default=0.0)
        if self._options.effort == Effort.EXHAUSTIVE:
            wanted = [j for j in timed if j.form.seconds <= _MOST_OF_A_SEARCH * least]
        else:
            wanted = [j for j in timed if j.form.seconds == least and j.form.name == FLOAT32]
        for judged in wanted:
            searched = f"a search of {judged.form.name}"
            if not self._has_time(searched):
                return
            with self._leaving_out(searched):
                found = self._place(judged.form.wanted, is_searched=True)
                if self._is_better(found, judged.form):
                    error = self._most_error_of(found) if found.name != FLOAT32 else 0.0
                    if error <= self._options.accuracy_budget:
                        self._judged[self._judged.index(judged)] = _Judged(found, error)
                if found.result.ended_early:
                    self._left_out[searched] = found.result.ended_early
                    return

    def _is_better(self, found: Form, before: Form) -> bool:
        """Return whether a search found a form of that kind which is as fast by its own race."""
        needs_trader = before.wanted.traders and before.wanted.model is self._model
        is_traded = not needs_trader or bool(traders_in(found.result.mod))
        return is_traded and (not before.seconds or 0 < found.seconds <= _NOISE * before.seconds)

    def _error_of(self, form: Form) -> float:
        return self._forms.error_of(form, _ERRORS, self._right)

    def _most_error_of(self, form: Form) -> float:
        """Return the error on the samples for errors, or on those of the check if it is larger."""
        return max(self._error_of(form), self._forms.error_of(form, _CHECK, self._check_right))

    def _keep_if_within(self, form: Form) -> bool:
        """Have a form compete, unless its error is over the budget."""
        error = self._error_of(form)
        if error <= self._options.accuracy_budget:
            self._judged.append(_Judged(form, error))
            self._left_out.pop(form.name, None)
            return True
        self._left_out[form.name] = _over_budget(error)
        return False

    # --- forms ------------------------------------------------------------------------------------

    def _place_traded(
        self, name: str, trader: Trader, plain: Form, traded: list[tuple[Trader, Form]]
    ) -> None:
        """Build the model with a backend that trades accuracy, beside those that have a part in
        float32."""
        traders = frozenset((trader.backend,))
        found = self._place(Wanted(name, self._model, traders=traders, among=plain.backends))
        if not traders_in(found.result.mod):
            self._left_out[name] = "float32 is faster everywhere"
            return
        traded.append((trader, found))
        self._keep_if_within(found)

    def _choose_precisions(self, plain: Form, traded: Sequence[tuple[Trader, Form]]) -> None:
        """Quantise, and build all of it and the best choice of precisions within the budget."""
        with one_step("quantising", "by samples", self._options.progress):
            files = quantise(self._model, self._samples.ranges, self._forms.folder)
            simple, all_of_it = onnx.load(files.simple), onnx.load(files.quantised)
            quantised = Quantised(simple, all_of_it)
        names = [layer.name for layer in quantised.layers]
        if not names:
            raise ModelError("it has no layer that can be in 8 bits")
        short, shorts = short_floats_of(traded)
        board = Switchboard(quantised, self._samples.errors, self._forms.folder, short)
        kinds = [INT8, short] if short else [INT8]
        with one_step("judging", f"{len(names)} layers", self._options.progress):
            errors = iter(board.square_errors([{n: kind} for kind in kinds for n in names]))
        squares = {kind: {name: next(errors) for name in names} for kind in kinds}
        mod = self._forms.imported(simple)
        self._order = layers_in_order(mod)
        if not self._has_time(INT8):
            return
        traders = frozenset(trader.backend for trader, _ in shorts)
        whole = self._place(Wanted(INT8, all_of_it, dict.fromkeys(names, INT8), traders=traders))
        self._keep_if_within(whole)
        ways = ways_of(Measured(plain, whole, shorts, self._order, squares), mod)
        self._tell_layers(quantised, ways[0])
        priced = self._priced(ways, board)
        if self._has_time(MIXED):
            with self._leaving_out(MIXED):
                mixed = [row for row in priced if len(row.choice.of(INT8)) < len(names)]
                self._mix(quantised, mixed)

    def _priced(self, ways: Sequence[Way], board: Switchboard) -> list[_Priced]:
        """Return the choices of all ways, each with the error of all its layers together, the one
        that saves most first; and keep those of the first way for the report."""
        rows = [(choice, way) for way in ways for choice in way.choices()]
        with one_step("judging", f"{len(rows)} choices of them", self._options.progress):
            found = board.outputs([choice.precisions for choice, _ in rows])
            errors = [self._metric.error(outputs, self._right) for outputs in found]
        priced = [_Priced(*row, error) for row, error in zip(rows, errors, strict=True)]
        self._front = tuple(
            FrontPoint(
                dict(Counter(choice.precisions.values())),
                choice.seconds if way.is_timed else None,
                choice.square_error**0.5,
                error if math.isfinite(error) else None,
            )
            for choice, way, error in priced
            if way is ways[0]
        )
        return sorted(priced, key=lambda row: (not row.way.is_timed, -row.choice.seconds))

    def _mix(self, quantised: Quantised, priced: Sequence[_Priced]) -> None:
        """Build the choices that save most, one of each way, and one that is surely within the
        budget, which other samples may show the others not to be: where there is one, of a way in
        which nearly what was judged runs."""
        exact = [row for row in priced if row.way.is_exact]
        ways = len({row.way.traders for row in priced})
        built = self._build(quantised, priced, _MARGIN, wanted=ways)
        built += self._build(quantised, exact or priced, _SAFE, wanted=1)
        if not built:
            self._left_out.setdefault(MIXED, "no choice of layers saves more within the budget")

    def _build(
        self, quantised: Quantised, priced: Sequence[_Priced], share: float, *, wanted: int
    ) -> int:
        """Build choices with an error of at most that share of the budget that save more than what
        there is with such an error; where one ends up over it, the next one of that way. Return how
        many were built until as many as wanted were kept, or too many were not."""
        plain, most = self._judged[0].form, share * self._options.accuracy_budget
        built, kept = 0, set[frozenset[str]]()
        for choice, way, error in priced:
            saved = [_saved(plain, each.form) for each in self._judged if each.error <= most]
            is_worth = choice.seconds > (1 + _WORTH_A_BUILD) * max(saved) or not way.is_timed
            tried = way.traders, frozenset(choice.precisions.items())
            if error > most or not is_worth or way.traders in kept or tried in self._tried:
                continue
            if built == _MOST_MIXES or len(kept) == wanted or not self._has_time(MIXED):
                break
            self._tried.add(tried)
            is_short = any(kind != INT8 for kind in choice.precisions.values())
            traders = way.traders if is_short else frozenset[str]()
            name = self._new_name(traders, ", with a margin" if share == _SAFE else "")
            model = quantised.model_with(choice.of(INT8))
            wanted_form = Wanted(name, model, choice.precisions, self._order, traders, way.among)
            built += 1
            if self._keep_if_within(self._place(wanted_form)) and self._judged[-1].error <= most:
                kept.add(way.traders)
        return built

    def _new_name(self, traders: frozenset[str], remark: str) -> str:
        """Return the name of a mix that no other form has."""
        name = " by ".join(filter(None, (MIXED, ", ".join(sorted(traders))))) + remark
        used = {each.form.name for each in self._judged} | self._left_out.keys()
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        return next(each for each in itertools.chain([name], numbered) if each not in used)

    # --- the report -------------------------------------------------------------------------------

    def _tell_layers(self, quantised: Quantised, way: Way) -> None:
        def others(name: str) -> Iterator[LayerPrecision]:
            for kind, each in way.gains[name].items():
                error = each.square_error**0.5
                yield LayerPrecision(
                    kind,
                    each.seconds if way.is_timed else None,
                    error if math.isfinite(error) else None,
                )

        self._layers = tuple(
            PlacedLayer(layer.name, layer.op, FLOAT32, tuple(others(layer.name)))
            for layer in quantised.layers
        )

    def _result(self, winner: str, found: list[Comparison]) -> Result:
        ships = next(each.form for each in self._judged if each.form.name == winner)
        precisions = precisions_of(ships.result, self._order, ships.wanted.precisions)
        allowed = {name for name, kind in ships.wanted.precisions.items() if kind != INT8}
        if left := allowed - precisions.keys():
            kinds = ", ".join(sorted({ships.wanted.precisions[name] for name in left}))
            self._left_out[f"{kinds} for single layers"] = (
                f"{len(left)} of {len(allowed)} that may be are faster in float32, as parts are "
                "measured"
            )
        told = Precisions(
            metric=self._metric.name,
            budget=self._options.accuracy_budget,
            samples={name: len(rows) for name, rows in self._samples._asdict().items()},
            plans=compare_plans(found, (), winner),
            layers=tuple(
                dataclasses.replace(each, precision=precisions.get(each.name, FLOAT32))
                for each in self._layers
            ),
            front=self._front,
            left_out=dict(self._left_out),
        )
        # A form's own original is that form: what it agrees with is no news.
        original = ships.result.original if ships.wanted.model is self._model else None
        return dataclasses.replace(
            ships.result, precision=told, model=ships.wanted.model, original=original
        )
