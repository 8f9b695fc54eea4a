# SPDX-License-Identifier: Apache-2.0
"""collage.refusals: matches that became no candidate, and who said no."""

import pytest
from relay_text import make_backend, parse
from tvm.relay import collage
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "refusals_test"


def small(expr):
    return "it has fewer than 9 elements"


@pytest.fixture(scope="module")
def targets():
    relu = is_op("nn.relu")(wildcard())
    table = [
        (f"{NAME}.relu", relu),
        (f"{NAME}.exp", is_op("exp")(wildcard()), small),
        (f"{NAME}.exp_relu", is_op("nn.relu")(is_op("exp")(wildcard())), lambda expr: False),
        (f"{NAME}.abs", is_op("abs")(wildcard()), lambda expr: 1 // 0),
    ]
    return ["llvm", make_backend(NAME, table)]


def test_each_refusal_names_pattern_operators_and_reason(targets):
    mod = parse("def @main(%x: $T) { nn.relu(exp(abs(%x))) }")
    rows = {row.rule: row for row in collage.refusals(mod, targets)}
    assert {rule: (row.ops, row.reason) for rule, row in rows.items()} == {
        f"{NAME}.exp": (("exp",), "it has fewer than 9 elements"),
        f"{NAME}.exp_relu": (("exp", "nn.relu"), "its predicate refused"),
        f"{NAME}.abs": (
            ("abs",),
            "unsupported: its predicate raised ZeroDivisionError("
            "'integer division or modulo by zero')",
        ),
    }
    graph = collage.dataflow_graph(mod["main"])
    row = rows[f"{NAME}.exp"]
    assert row.backend == NAME and [graph[k].name for k in row.nodes] == ["exp"]
    assert row.Summary() == f"{NAME}.exp does not take exp: it has fewer than 9 elements"


def test_what_is_taken_or_never_matched_is_no_refusal(targets):
    mod = parse("def @main(%x: $T) { tanh(nn.relu(%x)) }")
    assert collage.refusals(mod, targets) == collage.refusals(mod["main"], targets) == []


def test_what_is_no_function_is_an_error(targets):
    with pytest.raises(collage.ModuleError, match="expected a relay.Function, got str"):
        collage.refusals("mod", targets)
