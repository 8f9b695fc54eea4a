# SPDX-License-Identifier: Apache-2.0
"""Explanations: why each kernel is where it is, on a search with made-up costs, and why not another
plan, with figures made by hand."""

import copy
import dataclasses
import json

import pytest
from made_reports import made, record
from relay_text import make_backend, parse
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, MockCostEstimator, OptionError, optimizer
from tvm.relay.collage.errors import FileError, UnknownPlanError
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.plans.graph_search import GuardResult
from tvm.relay.collage.report import explain_lines as lines_module
from tvm.relay.collage.report.boxes import box_graph
from tvm.relay.collage.report.explain import explain as explain_record
from tvm.relay.collage.report.explain_lines import InsteadText, Operators, explain_lines
from tvm.relay.collage.report.explanation import CandidateRow, InsteadRow
from tvm.relay.collage.report.net import Part, PlanParts
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "explain_test"
TEXT = "def @main(%x: $T) { exp(nn.relu(sort(sigmoid(nn.relu(%x))))) }"
COSTS = {"llvm": 10, NAME: 1}


def explain(report, plan="collage", **asked):
    """explain of a report's JSON values."""
    return explain_record(record(report), plan, **asked)


def lines_of(report, plan="collage", is_whole=False, **asked):
    """The explanation as the command prints it."""
    is_long = "node" in asked or "op" in asked
    return explain_lines(explain(report, plan, **asked), is_long, is_whole)


def heads_of(lines):
    """The first line of each part."""
    return [line for line in lines if " operator" in line and ": " in line and line[0] != " "][1:]


def no_axis_one(expr):
    return "its axis is 3, not 1"


@pytest.fixture(scope="module")
def result():
    table = [
        (f"{NAME}.relu", is_op("nn.relu")(wildcard())),
        (f"{NAME}.exp", is_op("exp")(wildcard()), no_axis_one),
    ]
    target = make_backend(NAME, table)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: MockCostEstimator(COSTS))
        yield collage.optimize(
            parse(TEXT), None, ["llvm", target], CollageOptions(guard=False, progress="quiet")
        )


@pytest.fixture(scope="module")
def report(result):
    return json.loads(json.dumps(result.to_json()))


def compared(result, **milliseconds):
    """The report of a guard that measured these plans, the first of which ships."""
    found = [
        Comparison(
            name, Cost.given(ms * 1e-3), samples=tuple(ms * 1e-3 + 1e-7 * k for k in range(9))
        )
        for name, ms in milliseconds.items()
    ]
    guard = GuardResult(found, found[0].name, {})
    return dataclasses.replace(result, guard=guard, plan=found[0].name).to_json()


@pytest.fixture(scope="module")
def slower(result):
    """tvm takes a tenth longer than what ships."""
    return compared(result, collage=1.0, tvm=1.1)


def test_a_node_is_told_with_all_that_is_known_of_it(report):
    told = explain(report, op="exp")
    [node] = told.nodes
    assert node.part.backend == "tvm" and node.type == "float32[2, 4]"
    rows = {row.backend: row for row in node.backends}
    assert rows["tvm"].has_it and rows["tvm"].candidates[0].seconds == 10
    assert rows[NAME].reason.why == "refused" and not rows[NAME].candidates
    assert rows[NAME].refusals[0].reason == "its axis is 3, not 1"
    lines = lines_of(report, op="exp")
    assert f"    {NAME}.exp refused: its axis is 3, not 1" in lines
    assert f"  {NAME}: refused: {NAME}.exp: its axis is 3, not 1" in lines


def test_a_nodes_index_chooses_one_and_a_backend_its_own_reasons(report):
    [first, second] = explain(report, op="nn.relu").nodes
    told = explain(report, node=second.node, backend="tvm")
    assert [node.node for node in told.nodes] == [second.node] != [first.node]
    [row] = told.nodes[0].backends
    assert (row.backend, row.has_it, row.reason.why) == ("tvm", False, "slower")
    assert explain_lines(told, is_long=True)[1:] == [
        f"  {NAME} runs it: 1 s for 1 operator, node {second.node}",
        "  tvm: 8 s more in all, with its best candidate for this: 19 s for what takes 11 s here",
        "    19 s for 2 operators, nodes 8, 9",
        "    also measured: 10 s for 1 operator, node 8",
    ]


@pytest.mark.parametrize(
    ("unknown", "text"),
    [
        (
            {"rest_seconds": None, "rest": None},
            "31.6 us (busy) for 1 operator, node 5; the other operator of its part was not "
            "measured, so that the total is not known",
        ),
        (
            {"here_seconds": None},
            "31.6 us (busy) for 1 operator, node 5, 4 us for the other operator; what it would "
            "replace here was not measured alone, so that nobody knows which is faster",
        ),
    ],
)
def test_a_total_that_is_not_known_is_no_verdict(unknown, text):
    """A cost of some of the operators would read as that of all."""
    cost = ("measured", 31.6e-6, ("busy",), "")
    known = {
        "candidate": CandidateRow("b", "", (5,), *cost),
        "rest": (CandidateRow("b", "", (6,), "measured", 4e-6, (), ""),),
        "here": (Part("tvm", (5, 6), 1.5e-3),),
        "rest_seconds": 4e-6,
        "here_seconds": 1.5e-3,
        "more_seconds": None,
        "transition_seconds": 0.0,
    }
    told = explain_record(made(1), "collage")
    words = InsteadText(InsteadRow(**{**known, **unknown}), Operators([5, 6]), told)
    assert words.lines() == [text] == [words.short()]


def test_a_backend_that_is_not_known_is_found_by_its_librarys_name(report):
    named = copy.deepcopy(report)
    [row] = [row for row in named["functions"][0]["graph"]["backends"] if row["name"] == NAME]
    row["name"] = "dnnl"
    with pytest.raises(OptionError, match="did you mean dnnl"):
        explain(named, backend="oneDNN")


def test_all_parts_are_told_the_dearest_first(report):
    lines = lines_of(report)
    heads = heads_of(lines)
    # Nobody measures what TVM cannot fuse either: sort.
    assert [line.split(":")[0] for line in heads] == ["tvm", "tvm", NAME, NAME, "tvm"]
    assert heads[2].endswith(", 1 s") and heads[-1].endswith(", not measured alone")
    assert f"  not {NAME}: no pattern: the backend has no pattern for it here" in lines


def test_the_dearest_are_told_and_how_many_others_there_are(monkeypatch, report):
    monkeypatch.setattr(lines_module, "MOST_TOLD", 3)
    lines = lines_of(report)
    assert [line.rpartition(", ")[2] for line in heads_of(lines)] == ["10 s", "10 s", "1 s"]
    last = (
        "There are 2 other parts, none of which takes longer than 1 s alone: --all tells them too."
    )
    assert lines[-1] == last
    lines = lines_of(report, op="relu")
    assert len([line for line in lines if line.startswith("node ")]) == 2
    whole = lines_of(report, is_whole=True)
    assert len(heads_of(whole)) == 5 and last not in whole


@pytest.mark.parametrize("op", ["nn.relu", "relu", "Relu"])
def test_an_operator_is_found_without_its_folder_as_the_model_s_file_calls_it(report, op):
    assert {node.op for node in explain(report, op=op).nodes} == {"nn.relu"}


def test_what_launches_no_kernel_says_so(report):
    free = copy.deepcopy(report)
    graph = free["functions"][0]["graph"]
    # As an annotation of a device is one.
    graph["nodes"].append({**graph["nodes"][-1], "index": 99, "op": "on_device", "name": ""})
    graph["nodes"][-1]["is_kernel"] = False
    told = explain(free, node=99)
    assert told.nodes[0].part is None
    assert explain_lines(told, is_long=True)[-2:] == [
        "node 99: on_device float32[2, 4]",
        "  launches no kernel and is in no part: there is nothing to decide for it; the nearest "
        "calls are 7, 8, 9",
    ]


@pytest.mark.parametrize(
    ("ratio", "says"),
    [
        ((1.5, 1.45, 1.6), "lost to collage by 50.0 [45.0, 60.0] % end to end"),
        ((2.5, 2.4, 2.6), "takes 2.50 [2.40, 2.60] times as long as collage end to end"),
        ((36.0, 35.0, 37.1), "takes 36.0 [35.0, 37.1] times as long as collage end to end"),
        ((2.04, 2.01, 2.07), "takes 2.04 [2.01, 2.07] times as long as collage end to end"),
        ((1234.0, 1180.0, 1290.0), "takes 1234 [1180, 1290] times as long as collage end to end"),
        (
            (2.04, 0.0, None),
            "takes 2.04 times as long as collage end to end (too few rounds to be sure)",
        ),
    ],
)
def test_a_plan_takes_so_many_percent_or_times_longer_told_with_as_many_decimals(
    slower, ratio, says
):
    report = copy.deepcopy(slower)
    [row] = [row for row in report["plans"] if row["name"] == "tvm"]
    row["ratio_to_chosen"] = dict(zip(("value", "low", "high"), ratio, strict=True))
    told = explain(report).plans[0]
    assert told.text == f"tvm {says}." and told.places


def test_a_plan_that_lost_is_told_by_how_much_and_where(slower):
    told = explain(slower)
    [row] = told.plans
    assert row.text == "tvm lost to collage by 10.0 [10.0, 10.0] % end to end."
    assert row.places[0].ops == ("nn.relu", "sigmoid")
    lines = explain_lines(told, is_long=False)
    first, second = lines[lines.index(row.text) + 1 :][:2]
    assert first.startswith("  mostly at nn.relu, sigmoid (2 operators, nodes 5, 6)")
    assert second.startswith("  then at ")
    assert first.endswith(f": 19 s (tvm) there, 11 s ({NAME}, tvm) here, each part alone")


def test_another_plan_is_told_beside_what_ships_alone(result):
    report = compared(result, collage=1.0, tvm=1.1, **{NAME: 1.2})
    assert len(explain(report).plans) == 2
    told = explain(report, "tvm")
    assert [row.plan for row in told.plans] == ["tvm"]
    lines = explain_lines(told, is_long=False)
    assert lines[2] == "tvm lost to collage by 10.0 [10.0, 10.0] % end to end."
    head = "Parts of plan tvm, the dearest first, and what collage has there."
    parts = lines[next(k for k, line in enumerate(lines) if line.startswith(head)) :]
    assert not any(line.startswith("  not ") or "Reasons" in line for line in parts)
    head = next(k for k, line in enumerate(parts) if line.startswith("tvm: nn.relu, sigmoid "))
    assert parts[head + 1] == "  collage: tvm, 1 operator, node 6, 10 s"
    assert parts[head + 2] == f"  collage: {NAME}, 1 operator, node 5, 1 s"
    same = next(k for k, line in enumerate(parts) if line.startswith("tvm: sort "))
    assert parts[same + 1] == "  collage: the same"
    # A backend's reasons are told if they are asked for.
    lines = lines_of(report, "tvm", backend=NAME)
    assert any(line.startswith(f"  not {NAME}: ") for line in lines)
    [first, _] = told.nodes[:2]
    lines = lines_of(report, "tvm", node=first.node)
    assert any(line.startswith("  in collage, which ships, ") for line in lines)


def test_reasons_are_about_the_plan_that_is_explained(result, report):
    """Not about the parts that the op-level plan has there."""
    shipped = compared(result, tvm=1.0, collage=1.1)
    told = explain(shipped, "tvm")
    assert not told.is_op_level and explain(shipped).is_op_level
    first = next(each for each in told.nodes if each.op == "nn.relu")
    lines = lines_of(shipped, "tvm", node=first.node, backend=NAME)
    assert lines[1:-1] == [
        "  tvm runs it: 19 s for 2 operators, nodes 5, 6",
        f"  {NAME}: 8 s less in all, with its best candidate for this: 11 s for what takes 19 s "
        "here",
        "    1 s for 1 operator, node 5",
        "    10 s for the other operator of its part, on tvm",
        "    by parts alone it is faster, but plans ship by what they take end to end",
    ]
    [exp] = explain(shipped, "tvm", op="exp").nodes
    [row] = [row for row in exp.backends if row.backend == NAME]
    assert row.instead is None and row.reason.why == "refused", "is no matter of a plan"


def test_what_is_doubtful_of_the_rest_of_a_part_is_marked(result):
    shipped = compared(result, tvm=1.0, collage=1.1)
    for row in shipped["functions"][0]["graph"]["costed"]:
        row["cost"]["flags"] = ["estimated"]
    lines = lines_of(shipped, "tvm", op="nn.relu", backend=NAME)
    assert "    10 s (estimated) for the other operator of its part, on tvm" in lines


def test_transitions_are_told_where_the_plan_is_charged_for_them(report):
    charged = copy.deepcopy(report)
    [relu, _] = explain(report, op="nn.relu").nodes
    # Two parts read the value in another layout.
    charged["functions"][0]["transitions"] = [{"node": relu.node, "seconds": 0.25}] * 2
    lines = lines_of(charged, node=relu.node)
    says = "    without transitions of layouts; the plan is charged 0.5 s for those there"
    assert says in lines
    assert says not in lines_of(charged, "tvm", node=relu.node)


def test_a_cheaper_place_says_why_no_plan_has_it(report):
    cheap = copy.deepcopy(report)
    for row in cheap["functions"][0]["graph"]["costed"]:
        row["cost"]["seconds"] = 0.1 if len(row["nodes"]) == 2 else row["cost"]["seconds"]
    says = {True: "no plan with it costs less in all: ", False: "the search ended before it had "}
    for is_optimal, text in says.items():
        cheap["functions"][0]["is_optimal"] = is_optimal
        lines = lines_of(cheap, backend="tvm")
        assert any(" less: " in line and text in line for line in lines)


def replayed(source, plan):
    """The JSON values of a replay that ships this plan of another report."""
    nothing = {"plans": [], "costs": {}, "functions": [], "guard_skipped": "it was decided before"}
    replay = {**source, **nothing, "plan": plan, "decision": None}
    return record(replay).with_search_of(record(source)).to_json()


def test_a_replay_of_another_plan_is_told_beside_the_plan_that_was_decided_for(result):
    report = replayed(compared(result, collage=1.0, tvm=1.1, **{NAME: 1.2}), "tvm")
    told = explain(report, "tvm")
    texts = [
        "tvm lost to collage by 10.0 [10.0, 10.0] % end to end.",
        f"{NAME} lost to collage by 20.0 [20.0, 20.0] % end to end.",
    ]
    assert told.ships == "tvm" and [row.text for row in told.plans] == texts
    there = told.plans[0].places[0].there
    assert {part.backend for part in there} == {"tvm"}
    rows = explain(report).plans
    assert [row.text for row in rows] == texts[:1], "why what ships is not what was decided for"


def test_a_replay_tells_what_was_measured_when_it_was_decided(result):
    source = compared(result, collage=1.0, tvm=1.1)
    source["costs"] = {**source["costs"], "busy": 3}
    replay = replayed(source, "collage")
    for each in (replay, replayed(replay, "collage")):
        lines = lines_of(each)
        assert lines[1] == "How fast it is was not measured: it was decided before."
        assert lines[2].startswith(
            "A replay measures nothing. What follows was measured when that was decided, and plan "
            "collage shipped. It takes 1 ms a run"
        )
        assert "tvm lost to collage by 10.0 [10.0, 10.0] % end to end." in lines
        assert lines[-1].startswith("Doubtful: 3 costs")


def test_a_cost_that_was_not_asked_for_is_said_to_be_that(report):
    other = copy.deepcopy(report)
    for reason in other["functions"][0]["graph"]["reasons"]:
        reason.update(why="not_measured", message="even if it took no time")
    lines = lines_of(other)
    assert f"  not {NAME}: its cost was not asked for: even if it took no time" in lines


def test_a_plan_that_was_not_compared_says_so(result):
    report = compared(result, collage=1.0, **{NAME: 1.1})
    lines = lines_of(report, "tvm")
    assert lines[2] == "tvm was not measured beside collage."


def test_a_node_s_answer_comes_first(result):
    report = {**compared(result, collage=1.0, tvm=1.1), "costs": {"busy": 1}}
    for backend in (None, NAME):
        told = explain(report, op="sort", backend=backend)
        lines = explain_lines(told, is_long=True)
        assert lines[0].startswith("node ") and lines[-1].startswith("Doubtful: 1 costs")
        assert not any("lost to" in line for line in lines)


def test_nothing_is_cut_of_what_is_asked_for_whole(monkeypatch, slower):
    monkeypatch.setattr(lines_module, "MOST_REASONS", 0)
    told = explain(slower, "tvm", backend=NAME)
    text = "\n".join(explain_lines(told, is_long=False))
    assert f"  not {NAME}: 1 more: --all tells all" in text
    text = "\n".join(explain_lines(told, is_long=False, is_whole=True))
    assert "more: --all" not in text and text.count(f"  not {NAME}: ") == 5


def test_a_plan_that_no_file_holds_is_told_without_places(slower):
    report = copy.deepcopy(slower)
    seen = report["placements"]
    seen["plans"] = [row for row in seen["plans"] if row["plan"] != "tvm"]
    [row] = explain(report).plans
    assert row.text.startswith("tvm lost to collage by 10.0 [") and not row.places


def test_plans_that_failed_or_are_no_slower_say_so(result):
    failed = Comparison("dnnl", Cost.failed("crashed", "signal 11"))
    faster = Comparison("collage", Cost.given(0.9), samples=(0.9,) * 9)
    ships = Comparison("tvm", Cost.given(1.0), samples=(1.0,) * 9)
    same = dataclasses.replace(ships, name="other", same_as="tvm")
    unbuilt = Comparison("mkl", Cost.failed("unknown", "not built: another is faster"))
    guard = GuardResult([faster, ships, failed, unbuilt, same], "tvm", {})
    report = dataclasses.replace(result, guard=guard, plan="tvm").to_json()
    texts = [row.text for row in explain(report, "tvm").plans]
    assert texts == [
        "collage is no slower than tvm, which is simpler: -10.0 % end to end.",
        "dnnl failed: crashed: signal 11.",
        "mkl: not built: another is faster.",
        "other is the same as tvm.",
    ]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"node": 999}, "there is no node 999: the graph's nodes are 0 to 9"),
        (
            {"node": 3},
            "node 3 is the name of an operator or a function, no call; the nearest calls",
        ),
        ({"node": 0}, "node 0 is an input, no call; the nearest calls are 5, 6, 7: `collage"),
        ({"node": -1}, "there is no node -1: the graph's nodes are 0 to 9"),
        ({"op": "nn.dense"}, "no node is nn.dense: it is of another name in TVM, or was folded"),
        ({"op": "nn.dense"}, "the operators are exp, nn.relu, sigmoid, sort"),
        ({"op": "exp", "node": 1}, "the graph has no node 1 that is exp"),
        ({"backend": "nope"}, f"no backend 'nope' in the search; it had {NAME}, tvm"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(report, asked, says):
    with pytest.raises(OptionError) as caught:
        explain(report, **asked)
    assert says in str(caught.value)


def test_another_plan_is_refused(report):
    with pytest.raises(UnknownPlanError, match="no plan 'nope': the plans are tvm, "):
        explain(report, "nope")


def without(report, name):
    del report[name]


def no_kernels(report):
    for node in report["functions"][0]["graph"]["nodes"]:
        node["is_kernel"] = False


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda report: without(report, "placements"), "make it again"),
        (lambda report: report["functions"].clear(), "the report tells of no search"),
        (
            lambda report: (report["functions"].clear(), report.update(ended_early="interrupted")),
            "was not finished: interrupted; compile again",
        ),
        (no_kernels, "no operator that launches a kernel"),
        (
            lambda report: report["functions"][0].update(skipped="it has no operator"),
            "no function was searched, .*: @main: it has no op",
        ),
        (
            lambda report: report["functions"][0]["graph"]["costed"].clear(),
            "damaged: a reason names candidate",
        ),
    ],
)
def test_a_report_that_cannot_be_explained_says_why(report, spoil, says):
    spoilt = copy.deepcopy(report)
    spoil(spoilt)
    # Whatever is asked of one without a search, it is no fault of that.
    is_searched = "no function" not in says
    for asked in [{}] if is_searched else [{}, {"node": 0}, {"op": "exp"}, {"backend": "nope"}]:
        with pytest.raises(FileError, match=says):
            explain(spoilt, **asked)


def layers_of(report):
    """The parts of a report's plans over its function."""
    report = record(report)
    [function] = report.functions
    return PlanParts(report, function)


def test_plans_differ_where_their_parts_do(report, result):
    layers = layers_of(report)
    assert layers.differences("collage", "collage") == []
    # On TVM sigmoid is one kernel with the relu before it, so the plans differ there in both.
    found = layers.differences("collage", "tvm")
    assert {op for each in found for op in each.ops} >= {"nn.relu"}
    assert all("sort" not in each.ops for each in found)
    kernels = {node.index for node in result.partitioned[0].graph.nodes if node.is_kernel}
    for plan in ("collage", "tvm"):
        held = [node for part in layers.parts(plan) for node in part.nodes if node in kernels]
        assert sorted(held) == sorted(kernels)


@pytest.mark.parametrize("plan", ["collage", "tvm"])
def test_explanations_and_pictures_give_tvm_the_same_kernels(report, result, plan):
    layers, report = layers_of(report), record(report)
    told = {(part.nodes, part.seconds) for part in layers.parts(plan) if part.backend == "tvm"}
    boxes = box_graph(report, report.functions[0], plan).boxes
    assert told == {(b.nodes, b.seconds) for b in boxes if b.backend == "tvm"} != set()
