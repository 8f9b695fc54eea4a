# SPDX-License-Identifier: Apache-2.0
"""The precision of each layer of a model, and what was measured for the choice, as one record of a
report; and what is said of it. Test: report/test_precision.py. Docs: docs/precision.md.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from ..costs.compared import ComparedPlan
from ..costs.cost import CostStatus, format_seconds
from ..files.records import described

# Layers that are told where not all are asked for.
_MOST_LAYERS = 8
FLOAT32 = "float32"


@dataclasses.dataclass(frozen=True)
class LayerPrecision:
    """A precision that a layer can have beside float32."""

    precision: str = described("int8, or the type of a backend that trades accuracy")
    saves_seconds: float | None = described(
        "by profiles of backends alone, below 0 where it costs; null where none told"
    )
    error: float | None = described(
        "of the outputs with this layer alone in it, by rms; null for no number", minimum=0
    )


@dataclasses.dataclass(frozen=True)
class PlacedLayer:
    """A convolution or a product of the model's file."""

    name: str = described("the value that it gives in the file")
    op: str = described("in the file")
    precision: str = described("of what ships")
    others: tuple[LayerPrecision, ...] = described("what it could have beside float32")


@dataclasses.dataclass(frozen=True)
class FrontPoint:
    """A choice of precisions, none of which saves more with less error."""

    layers: dict[str, int] = described("how many are in each precision but float32")
    saves_seconds: float | None = described(
        "the sum over them, less what changes between them cost; null where nobody knows"
    )
    estimated_error: float = described("the root of the sum of their squared errors", minimum=0)
    error: float | None = described("by the metric, all of them together; null for no number")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Precisions:
    """The choice of precisions."""

    metric: str = described("by which errors are told")
    budget: float = described("the largest error that may ship", minimum=0)
    samples: dict[str, int] = described("how many there were for ranges, errors and the check")
    plans: tuple[ComparedPlan, ...] = described(
        "what was built, by precision, timed in turns; output_error is the metric's on samples "
        "that nothing was chosen by"
    )
    layers: tuple[PlacedLayer, ...] = described("of the model's file, in its order")
    front: tuple[FrontPoint, ...] = described("choices of layers by rising errors")
    left_out: dict[str, str] = described("precisions that were not built, and why")

    @property
    def chosen(self) -> ComparedPlan:
        """Return what ships."""
        return next(row for row in self.plans if row.is_chosen)

    def counts(self) -> Counter[str]:
        """Return how many layers of what ships are in each precision."""
        return Counter(layer.precision for layer in self.layers)


def precision_lines(told: Precisions | None) -> list[str]:
    """Return what ships, beside what else there was; nothing where nobody chose precisions."""
    if told is None:
        return []
    chosen, others = told.chosen, [row for row in told.plans if not row.is_chosen]
    counts = ", ".join(f"{count} in {kind}" for kind, count in told.counts().most_common())
    layers = f" (layers: {counts})" if counts else ""
    samples = told.samples.get("check", 0)
    lines = [
        f"Precision {chosen.name} ships{layers}: {_figures(chosen)}; the budget is "
        f"{_percent(told.budget)} by the metric {told.metric}, on {samples} samples."
    ]
    lines += [f"  {row.name}: {_figures(row)}." for row in others]
    return [*lines, *(f"  {name}: {why}." for name, why in told.left_out.items())]


def layer_lines(told: Precisions, is_whole: bool = False) -> list[str]:
    """Return which layers are not in float32, and why others are, those first that would save
    most."""
    kept = [
        (layer, other)
        for layer in told.layers
        for other in layer.others
        if other.precision != layer.precision and layer.precision == FLOAT32
    ]
    kept.sort(key=lambda pair: -(pair[1].saves_seconds or 0.0))
    shown = kept if is_whole else kept[:_MOST_LAYERS]
    lines = [_layer_line(layer, other, told.budget**2) for layer, other in shown]
    kinds = sorted({each.precision for each in told.layers} - {FLOAT32})
    return [*(_those_in(told, kind, is_whole) for kind in kinds), *lines]


def _those_in(told: Precisions, kind: str, is_whole: bool) -> str:
    names = [f"{each.op} {each.name}" for each in told.layers if each.precision == kind]
    shown = names if is_whole else names[:_MOST_LAYERS]
    more = f", and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"In {kind}: {', '.join(shown)}{more}."


def _layer_line(layer: PlacedLayer, other: LayerPrecision, square: float) -> str:
    what = f"{layer.op} {layer.name} stays in {layer.precision}: {other.precision} would"
    if other.error is None:
        return f"{what} give outputs that are no numbers."
    share = f"its squared error by rms is {other.error**2 / square:.1%} of the budget's"
    if other.saves_seconds is None:
        return f"{what} bring an error: {share}."
    if other.saves_seconds <= 0:
        return f"{what} cost {format_seconds(-other.saves_seconds)}."
    return f"{what} save {format_seconds(other.saves_seconds)}, and {share}."


def _figures(row: ComparedPlan) -> str:
    error = "no error known" if row.output_error is None else _percent(row.output_error)
    if row.status == CostStatus.WRONG_RESULT and row.output_error is not None:
        return f"its error is {error}, over the budget"
    if row.seconds is None:
        return f"{row.status}: {row.message}"
    ratio = row.ratio_to_chosen
    beside = f" ({ratio.Summary('.2f', 'times as long')})" if ratio and not row.is_chosen else ""
    return f"{format_seconds(row.seconds)}{beside}, error {error}"


def _percent(error: float) -> str:
    return f"{error:.2%}"
