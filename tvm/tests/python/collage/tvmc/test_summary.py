# SPDX-License-Identifier: Apache-2.0
"""The lines that `tvmc compile --collage` prints, of a report made by hand."""

import dataclasses

from made_reports import made
from tvm.relay.collage.costs.compared import ComparedPlan, Ratio
from tvm.relay.collage.report.record import CostCounts, PlacedOps
from tvm.relay.collage.tvmc.summary import summary_lines


def test_plans_are_shown_by_their_paired_ratios_with_what_makes_them_doubtful():
    def row(name, seconds, ratio, *, bounds=(None, None), chosen=False, **more):
        return ComparedPlan(
            *(name, not chosen, chosen, more.pop("status", "measured"), seconds, *bounds, 30),
            ratio_to_best_single=ratio and Ratio(*ratio),
            **more,
        )

    searched = row("collage", 4e-3, (1.25, 1.2, 1.3), bounds=(3e-3, 5e-3), chosen=True)
    # Noise: by its median alone it looks faster than what ships.
    mixed = row("cblas", 3.9e-3, (0.9, 0.8, 0.95), message="noisy: the machine was busy")
    report = dataclasses.replace(
        made(1),
        plans=(
            searched,
            mixed,
            row("tvm", 5e-3, (1.0, 1.0, 1.0), is_dependent=True, same_as="dnnl"),
            row("dnnl", None, None, status="crashed", message="signal 11"),
        ),
        unverified="there was nothing to compare with",
        costs=CostCounts(busy=3),
        placement=(
            PlacedOps("dnnl", "", 1, 2),
            PlacedOps("dnnl", "", 2, 2),
            PlacedOps("tvm", "", None, 1),
        ),
    )
    assert summary_lines(report, {"library": "net.tar", "report": ""}) == [
        "collage: plan collage, 4 ms [3 ms, 5 ms], 1.250 [1.200, 1.300] x the best backend alone",
        "collage: cblas alone, 3.9 ms, 0.900 [0.800, 0.950] x the best backend alone; noisy: the "
        "machine was busy",
        "collage: tvm alone, 5 ms, 1.000 x the best backend alone; same as dnnl; "
        "rounds depend on those before: the interval is too narrow",
        "collage: dnnl alone, crashed: signal 11",
        "collage: not verified: there was nothing to compare with",
        "collage: busy machine: 3 costs measured while other work left no core free; search again "
        "when `collage doctor` finds the machine quiet: these alone are measured anew",
        "collage: runs on dnnl: 3 parts, 4 operators, tvm: 1 operator",
        "collage: library net.tar",
    ]
