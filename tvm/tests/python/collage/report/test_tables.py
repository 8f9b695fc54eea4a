# SPDX-License-Identifier: Apache-2.0
"""Reports of a result made by hand: numbers, groups, shares, tables that hold the same."""

import dataclasses
import io
import json
import math

import numpy as np
import pytest
import tvm
from rich.console import Console
from tvm import relay
from tvm.relay.collage.costs.compared import Ratio
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.costs.kernel import KernelChoice, TriedKernel
from tvm.relay.collage.files.records import to_json
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.measure.race.comparison import compare_plans
from tvm.relay.collage.optimizer import Result
from tvm.relay.collage.plans.graph_search import GuardResult
from tvm.relay.collage.plans.names import is_single
from tvm.relay.collage.report import Report, head_lines, plan_table, print_report
from tvm.relay.collage.report.facts import ratio_text
from tvm.relay.collage.report.make import placement_of
from tvm.relay.collage.report.record import PlacedOps
from tvm.relay.collage.views.function_report import (
    CostsAsked,
    FunctionReport,
    ReportedPart,
    Unplaced,
)

UNVERIFIED = ("not verified: why", ("unverified",))
HOST = tvm.target.Target("llvm")


def comparison(name, seconds, error=0.0):
    jitter = np.random.default_rng(len(name)).normal(1, 0.01, 30)
    samples = (seconds * jitter).tolist()
    return Comparison(name, Cost.measured(samples), None, error, tuple(samples))


def failed(name, status="compile_failed", message="no [such] op"):
    return Comparison(name, Cost.failed(status, message), None, math.inf)


def part(backend, rule, ops, status, seconds, message="", flags=(), is_kernel=True, nodes=()):
    cost = PartCost(status, seconds, message, flags)
    return ReportedPart(backend, rule, ops, nodes, is_kernel, cost)


def unplaced(op, why, message, operators, seconds, there=0.0, here=0.0, backend="other"):
    rule, regions = f"{backend}.exp", int(why == "slower")
    return Unplaced(op, backend, why, message, rule, operators, seconds, there, here, regions)


UNPLACED = (
    unplaced("exp", "crashed", "signal 11", 2, 0.003),
    unplaced("sqrt", "slower", "as fast", 1, 0.001, 0.004, 0.001),
    unplaced("add", "slower", "as fast", 2, 0.001, 0.004, 0.001),
)


def function_report(unplaced=UNPLACED, **changes):
    crashed = part("other", "other.exp", "exp", "crashed", None, "signal 11")
    report = FunctionReport(
        function="main",
        nodes=6,
        candidates=9,
        costs=CostsAsked(candidates=8, distinct=6, asked=5, rounds=2),
        seconds=0.004,
        search="4 nodes, 9 candidates",
        cuts=("rule combine: limit max_depth cut 3",),
        parts=(
            part("other", "other.relu", "nn.relu", "measured", 0.001, *UNVERIFIED),
            part("llvm", "tvm", "exp", "measured", 0.001),
            part("llvm", "tvm", "exp", "measured", 0.002, flags=("noisy",)),
            part("host", "host", "", "estimated", 0.0, is_kernel=False),
        ),
        failed=(
            crashed,
            crashed,
            part("other", "other.exp", "exp", "timeout", None, "60 s"),
        ),
    )
    report = dataclasses.replace(report, **changes)
    vars(report)["unplaced"] = unplaced  # in place of what the graph's reasons say
    return report


def partitioned_module():
    """relu on the backend `other`, exp and sqrt on the host."""
    inner = relay.var("p", shape=(2, 3))
    part = relay.Function([inner], relay.nn.relu(inner), relay.TensorType((2, 3)))
    part = part.with_attr("Compiler", "other").with_attr("global_symbol", "part_0")
    part = part.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    mod = tvm.IRModule()
    name = relay.GlobalVar("part_0")
    mod[name] = part
    x = relay.var("x", shape=(2, 3))
    mod["main"] = relay.Function([x], relay.sqrt(relay.exp(name(relay.exp(x)))))
    return mod


def result(plan="collage", guard=True):
    comparisons = [
        comparison("collage", 0.010),
        comparison("tvm", 0.012),
        comparison("other", 0.020, 1e-6),
        failed("broken"),
    ]
    return Result(
        partitioned_module(),
        HOST,
        plan,
        GuardResult(comparisons, plan, {}) if guard else None,
        [function_report()],
        {"prepare": 0.5, "partition": 9.0, "guard": 2.5},
    )


def printed(item):
    """A result, a report or a table as text."""
    stream = io.StringIO()
    console = Console(file=stream, width=200)
    item = getattr(item, "record", item)
    print_report(item, console) if isinstance(item, Report) else console.print(item)
    return stream.getvalue()


def cost_rows(item):
    """(name, count) of each row of the table of costs."""
    lines = printed(item).split("How many costs\n")[1].split("└")[0].splitlines()
    cells = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    return [(row[1], row[2]) for row in cells]


def test_a_result_is_one_line_in_a_log():
    line = result().Summary()
    assert repr(result()) == f"Result({line})" and result().to_json()["summary"] == line
    assert "\n" not in line and line.startswith("plan collage; 9.97 ms")
    assert "3 on tvm" in line and "found in 12.0 s" in line


def test_plans_have_ratios_to_the_best_backend():
    rows = {row["name"]: row for row in result().to_json()["plans"]}
    assert rows["tvm"]["ratio_to_best_single"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    ratio = rows["collage"]["ratio_to_best_single"]
    assert ratio["low"] < 1.2 < ratio["high"] and ratio["high"] - ratio["low"] < 0.05
    assert rows["other"]["ratio_to_best_single"]["value"] == pytest.approx(0.6, rel=0.02)
    assert rows["collage"]["is_chosen"] and not rows["collage"]["is_single_backend"]
    assert rows["other"]["output_error"] == 1e-6


def test_a_failed_plan_keeps_its_reason_and_is_nobodys_best():
    row = result().to_json()["plans"][-1]
    assert (row["status"], row["message"]) == ("compile_failed", "no [such] op")
    assert row["seconds"] is None and row["ratio_to_best_single"] is None
    assert row["output_error"] is None  # JSON has no infinity
    rows = compare_plans([failed("tvm"), comparison("collage", 1.0)], ["tvm"])
    assert rows[1].ratio_to_best_single is None  # there is no single backend to compare with


def test_a_plan_that_is_equal_to_another_says_so_beside_its_figure():
    one = comparison("other", 1.0)
    rows = compare_plans(
        [one, dataclasses.replace(one, name="collage", same_as="other")], ["other"]
    )
    assert [row.same_as for row in rows] == ["", "other"]
    assert rows[0].seconds == rows[1].seconds and not rows[1].is_chosen
    [line] = [text for text in printed(plan_table(rows)).splitlines() if " collage " in text]
    assert "same as other" in line and "ms" in line


def test_rounds_that_depend_on_each_other_are_said_beside_the_interval():
    """Of the ratio that a row shows, and of the one to the fastest plan, which decides."""
    slow_spell = (1.0,) * 15 + (1.5,) * 15  # as of a neighbour that came and stayed
    alone = comparison("tvm", 1.0)
    drifting = Comparison("collage", Cost.measured(slow_spell), None, 0.0, slow_spell)
    told = dataclasses.replace(comparison("other", 1.0), is_dependent=True)
    rows = compare_plans([alone, drifting, told, failed("broken")], ["tvm"])
    assert [row.is_dependent for row in rows] == [False, True, True, False]
    lines = printed(plan_table(rows)).splitlines()
    marked = [line for line in lines if "interval is too narrow" in line]
    assert [line.split()[1] for line in marked] == ["collage", "other"]


def test_rounds_that_both_ran_are_compared():
    """The other was given up early; what the first did later has no pair."""
    samples = (1.0,) * 6 + (9.0,) * 2
    full = Comparison("tvm", Cost.measured(samples), None, 0.0, samples)
    short = Comparison("collage", Cost.measured([2.0] * 6), None, 0.0, (2.0,) * 6)
    rows = compare_plans([full, short], ["tvm"])
    assert rows[1].ratio_to_best_single == Ratio(0.5, 0.5, 0.5)


def test_too_few_rounds_bound_nothing_and_the_report_says_so():
    few = [
        Comparison(name, Cost.measured([seconds] * 2, by_quartile=False), None, 0.0, (seconds,) * 2)
        for name, seconds in (("tvm", 1.0), ("collage", 2.0))
    ]
    rows = compare_plans(few, ["tvm"])
    assert json.loads(json.dumps(to_json(rows), allow_nan=False)) == to_json(rows)
    assert rows[1].ratio_to_best_single == Ratio(0.5, 0.0, None)
    assert (rows[1].low, rows[1].high) == (None, None)
    assert ratio_text(rows[0]) == "1.000 x"
    assert ratio_text(rows[1]) == "0.500 x (too few rounds to be sure)"
    assert "too few samples to bound the median" in printed(plan_table(rows))


def test_the_best_backend_is_the_one_that_is_faster_in_the_rounds_of_both():
    """One left in a quiet spell; the medians of all that each ran say the opposite."""
    left = Comparison("tvm", Cost.measured([1.1] * 6), None, 0.0, (1.1,) * 6)
    samples = (1.0,) * 6 + (3.0,) * 18
    stayed = Comparison("other", Cost.measured(samples), None, 0.0, samples)
    for order in ([left, stayed], [stayed, left]):
        rows = {row.name: row for row in compare_plans(order, ["tvm", "other"])}
        assert rows["other"].ratio_to_best_single.value == 1.0
        assert rows["tvm"].ratio_to_best_single.value == pytest.approx(1 / 1.1)


def test_single_plans_are_those_that_no_search_made():
    assert all(map(is_single, ("tvm", "tvm-untuned", "other")))
    assert not any(map(is_single, ("collage", "collage-merged", "collage-untuned")))


def test_equal_parts_are_one_row_with_its_share():
    function = result().to_json()["functions"][0]
    first, second = function["parts"]  # glue is no part
    assert (first["backend"], first["ops"], first["count"]) == ("tvm", "exp", 2)
    assert first["seconds"] == pytest.approx(0.0015)
    assert first["total_seconds"] == pytest.approx(0.003)
    assert (first["message"], second["message"]) == ("", "not verified: why")
    assert "nn.relu on other: not verified: why" in printed(result())
    assert first["share"] == pytest.approx(0.75) and second["share"] == pytest.approx(0.25)
    assert [row["backend"] for row in function["backends"]] == ["tvm", "other"]
    assert sum(row["share"] for row in function["backends"]) == pytest.approx(1.0)


def test_failures_are_grouped_by_reason():
    failures = result().to_json()["functions"][0]["failures"]
    assert [(row["status"], row["message"], row["count"]) for row in failures] == [
        ("crashed", "signal 11", 2),
        ("timeout", "60 s", 1),
    ]


def test_reasons_say_by_how_much_or_what_went_wrong():
    rows = result().to_json()["functions"][0]["unplaced"]
    assert [(row["op"], row["why"], row["operators"]) for row in rows] == [
        ("exp", "crashed", 2),
        ("sqrt", "slower", 1),
        ("add", "slower", 2),
    ]
    text = printed(result())
    assert "crashed: signal 11" in text
    assert "slower: 4 ms there, 1 ms here, 4.00 x as long" in text
    assert "sqrt, add x2" in text  # operators of one region are one row


def test_where_nothing_was_measured_the_failure_of_the_whole_plan_is_told():
    rows = [
        unplaced("exp", "not_measured", "no gain", 2, 0.003, backend=name)
        for name in ("broken", "other")
    ]
    report = function_report(unplaced=tuple(rows))

    def messages(guard):
        found = dataclasses.replace(result(guard=guard), partitioned=[report]).to_json()
        return [row["message"] for row in found["functions"][0]["unplaced"]]

    told = "no gain; the plan of broken alone: compile_failed: no [such] op"
    assert messages(guard=True) == [told, "no gain"]
    assert messages(guard=False) == ["no gain", "no gain"]


def test_costs_are_counted_by_source():
    costs = {
        "measured": 8,
        "from_store": 3,
        "from_memory": 2,
        "failed": {"crashed": 1, "timeout": 2},
        "noisy": 1,
        "busy": 0,
        "verified": 5,
        "not_verified": 0,
    }
    found = dataclasses.replace(result(), costs=costs)
    assert found.to_json()["costs"] == costs
    rows = cost_rows(found)
    assert rows[4:] == [
        ("measured", "8"),
        ("from store", "3"),
        ("from memory", "2"),
        ("crashed", "1"),
        ("timeout", "2"),
        ("noisy", "1"),
        ("verified", "5"),
    ]
    busy = dataclasses.replace(found, costs={**costs, "busy": 4})
    assert ("busy", "4") in cost_rows(busy)
    assert result().to_json()["costs"] == {} and "from memory" not in printed(result())


def test_noisy_costs_are_marked():
    tvm_part, other = result().to_json()["functions"][0]["parts"]
    assert (tvm_part["noisy"], tvm_part["count"], other["noisy"]) == (1, 2, 0)
    text = printed(result())
    assert "1.5 ms 1 noisy" in text and text.count("the option retry_failed measures") == 1
    calm = tuple(row for row in function_report().parts if not row.cost.flags)
    report = function_report(parts=calm)
    assert "noisy" not in printed(dataclasses.replace(result(), partitioned=[report]))
    worded = part("other", "other.relu", "nn.relu", "measured", 0.001, "noisy: so it says")
    found = dataclasses.replace(result(), partitioned=[function_report(parts=(worded,))])
    [row] = found.to_json()["functions"][0]["parts"]
    assert (row["noisy"], row["message"]) == (0, "noisy: so it says")


def test_estimated_costs_are_marked_and_what_is_free_is_not():
    computed = part("other", "other.relu", "nn.relu", "estimated", 0.001, flags=("estimated",))
    left = part("llvm", "tvm", "exp", "estimated", 0.0, "no candidate with a cost fits")
    found = dataclasses.replace(result(), partitioned=[function_report(parts=(computed, left))])
    rows = {row["ops"]: row for row in found.to_json()["functions"][0]["parts"]}
    assert (rows["nn.relu"]["estimated"], rows["exp"]["estimated"]) == (1, 0)
    assert printed(found).count(" estimated ") == 1 and "1 ms estimated" in printed(found)


@pytest.mark.parametrize("factor, is_explained", [(1, False), (9, True)])
def test_parts_that_do_not_add_up_to_the_plan_are_explained(factor, is_explained):
    """Under the table that shows both figures, as in the other forms (test_times.py)."""
    report = result().record
    [function] = report.functions
    count = sum(row.count for row in function.parts)
    seconds = factor * report.seconds_of("collage") / count
    parts = tuple(
        dataclasses.replace(row, seconds=seconds, busy=row.count) for row in function.parts
    )
    report = dataclasses.replace(report, functions=(dataclasses.replace(function, parts=parts),))
    said = ": these costs were measured beside other work; search again on a quiet machine"
    assert (said in printed(report)) == is_explained


def test_parts_without_a_cost_say_so():
    unsupported = part("other", "other.relu", "nn.relu", "unsupported", None)
    report = function_report(parts=(unsupported, *function_report().parts[1:]))
    found = dataclasses.replace(result("tvm", guard=False), partitioned=[report])
    [row] = [line for line in printed(found).splitlines() if "nn.relu" in line and "0.0%" in line]
    assert "unsupported" in row and "0 ns" not in row


def test_how_many_costs_were_asked_for_of_how_many():
    [function] = result().to_json()["functions"]
    assert function["costs"] == {
        "candidates": 8,
        "distinct": 6,
        "asked": 5,
        "never_needed": 1,
        "rounds": 2,
    }
    rows = [("candidates", "8"), ("distinct", "6"), ("never needed", "1"), ("asked", "5")]
    assert cost_rows(result()) == rows
    assert "the other distinct ones, in 2 rounds of the search" in printed(result())
    assert "The line Search counts otherwise: " in printed(result())
    twice = dataclasses.replace(result(), partitioned=[function_report(), function_report()])
    assert cost_rows(twice)[:2] == [("candidates", "16"), ("distinct", "12")]


def test_a_function_that_was_left_alone_is_one_line():
    item = result()
    item.partitioned.append(FunctionReport("theirs", skipped="a kernel"))
    assert item.to_json()["functions"][1]["skipped"] == "a kernel"
    assert "Not partitioned: @theirs: a kernel" in printed(item)


def test_placement_is_read_from_the_module_that_ships():
    rows = placement_of(partitioned_module(), "tvm")
    assert rows == (
        PlacedOps("other", "nn.relu", 1, 1),
        PlacedOps("tvm", "exp x2, sqrt", None, 3),
    )


def test_what_came_of_schedules_of_other_kernels_is_one_line():
    found = dataclasses.replace(result(), transfers={"adapted": 12, "invalid": 3})
    assert found.to_json()["transfers"] == {"adapted": 12, "invalid": 3}
    assert "Schedules of other kernels that were tried: 12 adapted, 3 invalid\n" in printed(found)
    assert "Schedules of other kernels" not in printed(result())


def test_tables_show_what_the_json_holds():
    text = printed(result())
    for piece in ("collage", "ships", "no [such] op", "compile_failed", "75.0%", "signal 11"):
        assert piece in text, piece
    assert "limit max_depth cut 3" in text and "partition 9.0 s" in text
    assert "not what ships" not in text
    other = result("tvm")
    assert "in the op-level plan, which is not what ships" in printed(other)
    # One module under two names.
    [first, *rest] = other.guard.comparisons
    other.guard.comparisons[:] = [dataclasses.replace(first, same_as="tvm"), *rest]
    assert "not what ships" not in printed(dataclasses.replace(other))


def test_show_prints(capsys):
    result().show()
    short = capsys.readouterr().out
    result().show(details=True)
    long = capsys.readouterr().out
    assert short.splitlines() == list(head_lines(result().record))
    assert long.startswith(short) and "Plans end to end" in long


def test_kernels_that_another_replaced_come_first():
    tried = [
        TriedKernel("usual [1]", PartCost("measured", 2e-3, "")),
        TriedKernel("other", PartCost("measured", 1e-3, "")),
        TriedKernel("third", PartCost("unsupported", None, "no [such] kernel")),
    ]
    choices = tuple(
        KernelChoice("other", "0" * 16, label, (), kernel, tuple(tried))
        for label, kernel in (("first step", "usual [1]"), ("second step", "other"))
    )
    text = printed(dataclasses.replace(result(), kernels=choices))
    assert text.index("second step") < text.index("first step")
    assert "usual [1] 2 ms, other 1 ms, third unsupported" in text
    assert "Steps that have several kernels" not in printed(result())
