# SPDX-License-Identifier: Apache-2.0
"""However a function is written, with lets or without, with tuples that are taken apart again: the
partitioner sees the same graph, and finds the same plan."""

import numpy as np
import pytest
import tvm
from relay_text import assert_equal, graph_rows, make_backend, parse, part_text, partition
from tvm import relay
from tvm.relay.collage import MockCostEstimator, candidates, dataflow_graph
from tvm.relay.collage.plans.placement import PartCost, PlacedPart
from tvm.relay.collage.plans.placement.replay import rewrite
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.annotation import on_device

NAME = "names_test"
CHAIN = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))
CONV = "nn.conv2d({}, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3])"


def takes(call):
    """A predicate that looks at what the matched call reads: a variable has no operator."""
    return call.args[0].op.name == "add"


@pytest.fixture(scope="module")
def backend():
    return make_backend(
        NAME, [(f"{NAME}.chain", CHAIN, takes), (f"{NAME}.relu", is_op("nn.relu")(wildcard()))]
    )


class Transitions(MockCostEstimator):
    """Costs by counted calls, and 5 s for each value that changes its layout."""

    has_transitions = True

    def transition_seconds(self, types, target):
        return [5.0 for _ in types]


def planned(mod, backend):
    estimator = Transitions({"llvm": 10, NAME: 9})
    result = partition(mod, [backend], estimator)
    [report] = estimator.reports
    assert report.is_optimal
    parts = sorted((part.label, part.cost.seconds) for part in report.parts)
    charged = sorted(moved.seconds for moved in report.transitions)
    assert sum(seconds for _, seconds in parts) + sum(charged) == pytest.approx(report.seconds)
    return report.seconds, parts, charged, result


def residual(depth=4):
    x = relay.var("x", shape=(1, 8, 6, 6))
    weight = relay.const(np.ones((8, 8, 3, 3), "float32"))
    value = x
    for _ in range(depth):
        conv = relay.nn.conv2d(value, weight, padding=(1, 1), channels=8, kernel_size=(3, 3))
        value = relay.nn.relu(relay.add(conv, value))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], value)))


def test_the_plan_of_a_normal_form_is_that_of_the_graph(backend):
    seconds, parts, charged, result = planned(residual(), backend)
    normal = relay.transform.InferType()(relay.transform.ToANormalForm()(residual()))
    assert "let" in normal.astext(False)
    found = planned(normal, backend)
    assert found[:3] == (seconds, parts, charged) and charged
    tvm.ir.assert_structural_equal(found[3], result)


def texts(text):
    """What the partitioner sees of each node, and the operators that it places, by scope."""
    rows = graph_rows(parse(text)["main"])
    scopes = {}
    for row in rows:
        if row[4]:
            scopes.setdefault(row[3], []).append(row[0].split(" = ")[1].split("(")[0])
    return [row[0] for row in rows], sorted(scopes.values())


def test_what_a_pure_let_binds_is_read_without_it():
    rows, scopes = texts("def @main(%x: $T) { let %a = tanh(%x); let %b = exp(%a); add(%a, %b) }")
    assert "%8 = add(%2, %5)" in rows and "%3 = var a" in rows and "%9 = left_out Let" in rows
    assert scopes == [["tanh", "exp", "add"]]


def test_an_effect_stays_where_it_is():
    """The read must not move past the write."""
    text = """def @main(%x: $T) {
      let %r = ref(nn.relu(%x));
      let %before = add(ref_read(%r), %x);
      let %u = ref_write(%r, tanh(%x));
      let %after = exp(%before);
      multiply(%after, ref_read(%r))
    }"""
    rows, _ = texts(text)
    assert sum(" = other Let(" in row for row in rows) == 3  # but for %after's
    inlined = text.replace("let %after = exp(%before);", "").replace("%after", "exp(%before)")
    assert_equal(partition(parse(text), [], {"llvm": 1}), inlined)


def test_what_a_loop_reads_is_not_computed_in_each_of_its_rounds():
    text = """def @main(%x: $T, %n: int32) {
      let %w = exp(%x);
      let %loop: fn(int32, $T) -> $T = fn(%i: int32, %z: $T) -> $T {
        if (greater(%i, 0)) { let %s = add(%z, %w); %loop(subtract(%i, 1), tanh(%s)) } else { %z }
      };
      %loop(%n, nn.relu(%w))
    }"""
    rows, scopes = texts(text)
    assert sum(" = other Let(" in row for row in rows) == 2
    assert [sorted(ops) for ops in scopes if "tanh" in ops] == [
        ["add", "call_other", "subtract", "tanh"]
    ]


def test_what_a_branch_reads_stays_outside_of_it():
    text = """def @main(%c: bool, %x: $T) {
      let %a = exp(%x);
      let %b = tanh(%a);
      if (%c) { nn.relu(%a) } else { add(%a, %b) }
    }"""
    rows, scopes = texts(text)
    assert sum(" = other Let(" in row for row in rows) == 2
    assert ["nn.relu"] in scopes and ["add"] in scopes


def test_the_search_charges_what_the_report_says_for_a_value_that_a_branch_reads(backend):
    text = f"""def @main(%c: bool, %x: Tensor[(1, 8, 6, 6), float32],
                          %w: Tensor[(8, 8, 3, 3), float32]) {{
      let %a = {CONV.format("%x")};
      if (%c) {{ nn.relu(%a) }} else {{ {CONV.format("%a")} }}
    }}"""
    _, _, charged, _ = planned(parse(text), backend)
    assert len(charged) >= 2


def test_a_variable_on_a_device_of_its_own_keeps_its_let():
    x = relay.var("x", shape=(2, 4))
    device = tvm.target.VirtualDevice(tvm.cuda())
    value = relay.Var("a", relay.TensorType((2, 4)))
    for a, is_kept in (
        (value, False),
        (relay.expr.VarWithFields(value, None, None, device, None), True),
    ):
        let = relay.Let(a, relay.tanh(x), relay.exp(on_device(a, device)))
        mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], let)))
        [row] = [
            row for row in graph_rows(mod["main"]) if row[0].endswith(" Let") or " Let(" in row[0]
        ]
        assert row[4] == is_kept


def test_a_projection_of_a_tuple_that_is_written_out_is_its_field():
    text = "def @main(%x: $T) { %0 = tanh(%x); %1 = (%0, (%x, %0)); %2 = %1.1; add(%1.0, %2.0) }"
    rows, scopes = texts(text)
    assert rows[-1].endswith(" = add(%3, %0)") and scopes == [["tanh", "add"]]
    plain = "def @main(%x: $T) { add(tanh(%x), %x) }"
    assert_equal(partition(parse(text), [], {"llvm": 1}), plain)


def test_a_tuple_with_an_effect_in_it_stays_whole():
    text = "def @main(%x: $T) { %0 = ref(%x); %1 = (ref_write(%0, tanh(%x)), %x); exp(%1.1) }"
    rows, _ = texts(text)
    assert any(" = projection 1(" in row for row in rows)


def pairs(count, between=lambda value: value):
    x = relay.var("x", shape=(2, 4))
    value = x
    for _ in range(count):
        value = relay.TupleGetItem(relay.Tuple([between(value)]), 0)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(value)))
    return relay.transform.InferType()(mod)


def test_tuples_that_are_taken_apart_again_cost_nothing(backend):
    """All runs of them were candidates: 502,500 of 1,000."""
    assert len(candidates(pairs(1000), ["llvm"])) == 2  # TVM's and the host's exp
    plain = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([x := relay.var("x", shape=(2, 4))], relay.exp(x)))
    )
    assert_equal(partition(pairs(1000), [backend], {"llvm": 1, NAME: 1}), plain)


def test_candidates_grow_with_the_calls_between_tuples():
    few, many = (len(candidates(pairs(n, relay.nn.relu), ["llvm"])) for n in (100, 200))
    assert few < many < 2.2 * few


LET = "def @main(%x: $T) { let %a = nn.relu(%x); let %t = (%a, %x); let %b = exp(%t.0); tanh(%b) }"
UNKNOWN = PartCost("unknown", None, "")


def test_a_placement_of_before_may_hold_nodes_that_name_values(backend):
    """Lets, tuples and projections were parts of the host, or of the part around them."""
    mod = parse(LET)
    graph = dataflow_graph(mod["main"])
    placed = [node.index for node in graph if node.is_placeable]
    names = [node.index for node in graph if node.type == "left_out"]
    assert len(placed) == 3 and len(names) == 5
    parts = [PlacedPart("host", "host", "host()", (index,), (), False, UNKNOWN) for index in names]
    nodes = (placed[0], placed[1])
    parts.append(PlacedPart(NAME, "test", f"{NAME}()", nodes, (), True, UNKNOWN))
    result = rewrite(mod, {"main": parts})
    assert_equal(
        result,
        part_text(NAME, "nn_relu_exp", "exp(nn.relu(%p))")
        + f"def @main(%x: $T) -> $T {{ tanh(@collage_{NAME}_nn_relu_exp(%x)) }}",
    )
