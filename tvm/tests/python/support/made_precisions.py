# SPDX-License-Identifier: Apache-2.0
"""A choice of precisions as a report tells it, made by hand."""

from tvm.relay.collage.costs.compared import ComparedPlan, Ratio
from tvm.relay.collage.costs.cost import CostStatus
from tvm.relay.collage.report.precision import (
    FrontPoint,
    LayerPrecision,
    PlacedLayer,
    Precisions,
)

# As a report's JSON says that a backend computes in bfloat16.
ALPHA_TRADES = [{"backend": "alpha", "precision": "bfloat16", "operators": []}]


def _plan(name, seconds, error, *, chosen=False, ratio=1.0):
    status = CostStatus.MEASURED if seconds else CostStatus.WRONG_RESULT
    return ComparedPlan(
        *(name, False, chosen, status, seconds, None, None, 15),
        ratio_to_chosen=Ratio(ratio, ratio - 0.1, ratio + 0.1) if seconds else None,
        output_error=error,
        message="" if seconds else "its output is off by 0.0654 by the metric max (limit 0.01)",
    )


def told(**changes):
    """A choice of precisions for three layers, of which one is in 8 bits."""
    layers = (
        PlacedLayer("a", "Conv", "int8", (LayerPrecision("int8", 4e-5, 0.001),)),
        PlacedLayer(
            "b",
            "Conv",
            "float32",
            (LayerPrecision("int8", 2e-5, 0.01), LayerPrecision("bfloat16", -1e-5, 0.001)),
        ),
        PlacedLayer("c", "Gemm", "float32", (LayerPrecision("int8", None, 0.005),)),
    )
    values = {
        "metric": "max",
        "budget": 0.01,
        "samples": {"ranges": 8, "errors": 4, "check": 4},
        "plans": (
            _plan("mixed", 1e-3, 0.004, chosen=True),
            _plan("float32", 2e-3, 0.0, ratio=2.0),
            _plan("int8", None, 0.0654),
        ),
        "layers": layers,
        "front": (FrontPoint({"int8": 1}, 4e-5, 0.001, 0.0012),),
        "left_out": {"bfloat16": "its error is 1.71%, over the budget"},
    }
    return Precisions(**{**values, **changes})
