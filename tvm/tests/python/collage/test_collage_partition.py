# SPDX-License-Identifier: Apache-2.0
"""The pass: text before and after, modules of every kind, estimators that fail or misbehave."""

import dataclasses

import numpy as np
import pytest
import tvm
from measure_fakes import wait_for_cpus
from relay_text import (
    assert_equal,
    assert_same_outputs,
    count_calls,
    make_backend,
    parse,
    partition,
)
from tvm import relay
from tvm.relay.collage import CostEstimator, MockCostEstimator, rules
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.machine import cpu_lock
from tvm.relay.collage.measure import STATUSES, Cost
from tvm.relay.collage.plans.placement.replay import placed_parts
from tvm.relay.collage.views.function_report import CostsAsked
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.prelude import Prelude
from tvm.target import Target

NAME = "pass_test"
TABLE = [
    (f"{NAME}.relu", is_op("nn.relu")(wildcard())),
    (f"{NAME}.add", is_op("add")(wildcard(), wildcard())),
    (f"{NAME}.exp", is_op("exp")(wildcard())),
    (f"{NAME}.concatenate", is_op("concatenate")(wildcard())),
]
CHEAP = {"llvm": 10, NAME: 1}
DEAR = {"llvm": 1, NAME: 10}
ALONE = [f"{NAME}.NoFusion"]

RELU_PART = f"""
def @collage_{NAME}_nn_relu(%p: $T, Primitive=1, Compiler="{NAME}",
    global_symbol="collage_{NAME}_nn_relu") -> $T {{
  %0 = fn (%q: $T, Composite="{NAME}.relu") -> $T {{ nn.relu(%q) }};
  %0(%p)
}}
"""


@pytest.fixture(scope="module")
def backend():
    return make_backend(NAME, TABLE)


def partitioned(mod, backend, costs=CHEAP, **options):
    """Partition and check what must hold of any result: typed, same outputs, each node once."""
    mod = parse(mod) if isinstance(mod, str) else mod
    result = partition(mod, [backend], costs, **options)
    assert count_calls(result) == count_calls(mod)
    assert_same_outputs(mod, result)
    return result


def part_names(mod):
    return sorted(var.name_hint for var in mod.get_global_vars() if "collage_" in var.name_hint)


# Text before and after.


def test_a_single_op_goes_to_the_cheaper_target(backend):
    before = "def @main(%x: $T) -> $T { nn.relu(%x) }"
    assert_equal(partitioned(before, backend, DEAR), before)
    assert_equal(
        partitioned(before, backend),
        RELU_PART + f"def @main(%x: $T) -> $T {{ @collage_{NAME}_nn_relu(%x) }}",
    )


def test_equal_costs_leave_the_module_as_it_was(backend):
    before = "def @main(%x: $T) -> $T { nn.relu(%x) }"
    assert_equal(partitioned(before, backend, {"llvm": 1, NAME: 1}), before)


def test_a_composite_of_several_calls_is_a_nested_function():
    name = "pass_test_conv"
    chain = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))
    target = make_backend(name, [(f"{name}.add_relu", chain)])
    result = partitioned(
        "def @main(%x: $T, %y: $T) -> $T { tanh(nn.relu(add(%x, %y))) }",
        target,
        {"llvm": 10, name: 1},
    )
    assert_equal(
        result,
        f"""
        def @collage_{name}_add_nn_relu(%a: $T, %b: $T, Primitive=1, Compiler="{name}",
            global_symbol="collage_{name}_add_nn_relu") -> $T {{
          %0 = fn (%p: $T, %q: $T, Composite="{name}.add_relu") -> $T {{
            nn.relu(add(%p, %q))
          }};
          %0(%a, %b)
        }}
        def @main(%x: $T, %y: $T) -> $T {{ tanh(@collage_{name}_add_nn_relu(%x, %y)) }}
        """,
    )


# Text -> the parts, and options of the pass.
PARTS = {
    "a diamond": (
        "def @main(%x: $T) -> $T { %0 = nn.relu(%x); add(exp(%0), nn.relu(%0)) }",
        ["nn_relu_exp_nn_relu_add"],
    ),
    # tanh is TVM's: one part with both relus around it would need its own result.
    "no cycle": (
        "def @main(%x: $T) -> $T { %0 = nn.relu(%x); add(tanh(%0), %0) }",
        ["add", "nn_relu"],
    ),
    "tuples": (
        """def @main(%t: ($T, $T)) -> ($T, Tensor[(4, 4), float32]) {
          %0 = nn.relu(%t.0);
          %1 = (%0, %t.1);
          (%0, concatenate(%1))
        }""",
        ["concatenate", "nn_relu"],
        {"byoc_fusion_style": ALONE},
    ),
    "nested tuples": (
        """def @main(%t: (($T, $T), $T)) {
          %0 = %t.0;
          %1 = %0.1;
          ((nn.relu(%1), (exp(%1), %t.1)), %t)
        }""",
        ["exp", "nn_relu"],
        {"byoc_fusion_style": ALONE},
    ),
    "one value as several outputs": (
        "def @main(%x: $T) { %0 = nn.relu(%x); (%0, %0, %x, (%0, sort(%0))) }",
        ["nn_relu"],
    ),
    "a name that is taken": (
        f"""
        def @collage_{NAME}_nn_relu(%x: $T) -> $T {{ tanh(%x) }}
        def @main(%x: $T) -> $T {{ nn.relu(@collage_{NAME}_nn_relu(%x)) }}
        """,
        ["nn_relu", "nn_relu_1"],
    ),
    "two functions": (
        """
        def @helper(%x: $T) -> $T { nn.relu(tanh(%x)) }
        def @main(%x: $T) -> $T { exp(@helper(%x)) }
        """,
        ["exp", "nn_relu"],
    ),
    "a function that is not called": (
        "def @other(%x: $T) -> $T { nn.relu(%x) }\ndef @main(%x: $T) -> $T { exp(%x) }",
        ["exp", "nn_relu"],
    ),
    "lets": (
        """def @main(%x: $T) -> $T {
          let %a = nn.relu(%x);
          let %b = tanh(%a);
          let %c = exp(%b);
          add(%c, %a)
        }""",
        ["exp_add", "nn_relu"],
    ),
    "unused parameters and lets": (
        "def @main(%x: $T, %u: $T) { let %z = exp(%u); nn.relu(%x) }",
        ["exp", "nn_relu"],
    ),
    "closures": (
        """def @main(%x: $T) -> $T {
          %0 = exp(%x);
          let %f = fn(%z: $T) -> $T { nn.relu(add(%z, %0)) };
          %f(%f(%0))
        }""",
        ["add_nn_relu", "exp"],
    ),
    "a closure as argument": (
        """
        def @twice(%f: fn ($T) -> $T, %x: $T) -> $T { %f(%f(%x)) }
        def @main(%x: $T) -> $T {
          %0 = fn (%y: $T) -> $T { nn.relu(add(%y, %x)) };
          @twice(%0, %x)
        }
        """,
        ["add_nn_relu"],
    ),
    "recursion": (
        """def @main(%x: $T, %n: int32) -> $T {
          let %loop: fn(int32, $T) -> $T = fn(%i: int32, %z: $T) -> $T {
            if (greater(%i, 0)) { %loop(subtract(%i, 1), add(%z, nn.relu(%z))) } else { exp(%z) }
          };
          %loop(%n, nn.relu(%x))
        }""",
        ["exp", "nn_relu", "nn_relu_add"],
    ),
    "mutual recursion": (
        """
        def @even(%n: int32, %x: $T) -> $T {
          if (greater(%n, 0)) { @odd(subtract(%n, 1), nn.relu(%x)) } else { exp(%x) }
        }
        def @odd(%n: int32, %x: $T) -> $T {
          if (greater(%n, 0)) { @even(subtract(%n, 1), add(%x, %x)) } else { %x }
        }
        def @main(%n: int32, %x: $T) -> $T { @even(%n, exp(%x)) }
        """,
        ["add", "exp", "exp_1", "nn_relu"],
    ),
    "dynamic shapes": (
        "def @main(%x: Tensor[(?, 4), float32]) { nn.relu(tanh(%x)) }",
        ["nn_relu"],
    ),
    "what only TVM has": ("def @main(%x: $T) -> $T { nn.relu(sort(%x)) }", ["nn_relu"]),
    "a parameter": ("def @main(%x: $T) -> $T { %x }", []),
    "a field of a parameter": ("def @main(%t: ($T, $T)) -> $T { %t.1 }", []),
    "an empty tuple": ("def @main(%x: $T) -> ($T, ()) { (%x, ()) }", []),
    "a constant": ("def @main() -> float32 { 1f }", []),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_modules_of_every_kind(backend, name):
    text, parts, *options = PARTS[name]
    result = partitioned(text, backend, **(options[0] if options else {}))
    assert part_names(result) == [f"collage_{NAME}_{part}" for part in parts]
    if not parts:
        assert_equal(result, text)


def test_the_same_value_twice_as_argument_is_one_parameter(backend):
    result = partitioned("def @main(%x: $T) { add(%x, %x) }", backend)
    assert_equal(
        result,
        f"""
        def @collage_{NAME}_add(%p: $T, Primitive=1, Compiler="{NAME}",
            global_symbol="collage_{NAME}_add") -> $T {{
          %0 = fn (%q: $T, Composite="{NAME}.add") -> $T {{ add(%q, %q) }};
          %0(%p)
        }}
        def @main(%x: $T) -> $T {{ @collage_{NAME}_add(%x) }}
        """,
    )


def symbols(mod):
    """What backends compile: the distinct global_symbols of parts."""
    return {str(mod[name].attrs["global_symbol"]) for name in part_names(mod)}


def test_equal_parts_share_a_symbol(backend):
    text = """
    def @helper(%x: $T) -> $T { nn.relu(tan(%x)) }
    def @main(%x: $T) -> $T { nn.relu(tanh(nn.relu(@helper(%x)))) }
    """
    result = partitioned(text, backend)
    name = f"collage_{NAME}_nn_relu"
    assert part_names(result) == [name, f"{name}_1", f"{name}_2"]
    assert symbols(result) == {name}


@pytest.mark.parametrize("second, count", [("add(%0, 2f)", 1), ("add(%0, 3f)", 2)])
def test_parts_that_constants_tell_apart_have_symbols_of_their_own(backend, second, count):
    text = f"def @main(%x: $T) -> $T {{ %0 = tanh(add(%x, 2f)); {second} }}"
    name = f"collage_{NAME}_add"
    assert symbols(partitioned(text, backend)) == {name, f"{name}_1"} - {f"{name}_{count}"}


def test_weights_that_differ_at_their_end_alone_are_told_apart(backend):
    values = np.zeros((2, 400), "float32")
    other = values.copy()
    other[-1, -1] = 1
    x = relay.var("x", shape=(2, 400))
    body = x
    for weight in (values, other, values):
        body = relay.tanh(relay.add(body, relay.const(weight)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    name = f"collage_{NAME}_add"
    assert symbols(partitioned(mod, backend)) == {name, f"{name}_1"}


def test_parts_of_other_shapes_are_told_apart(backend):
    text = """def @main(%x: $T, %y: Tensor[(3, 4), float32]) {
      (nn.relu(tanh(nn.relu(%x))), nn.relu(%y))
    }"""
    name = f"collage_{NAME}_nn_relu"
    assert symbols(partitioned(text, backend)) == {name, f"{name}_2"}


# Modules of every kind.


def test_a_part_never_reads_a_variable_before_its_let(backend):
    # relu feeds exp and add; joined with both it would stand before %a is bound.
    text = """def @main(%x: $T) -> $T {
      %0 = nn.relu(%x);
      let %u = exp(%0);
      let %a = tanh(%x);
      add(add(%0, %a), %u)
    }"""
    for merge_parts in (True, False):
        assert len(part_names(partitioned(text, backend, merge_parts=merge_parts))) == 1


def test_branches_are_partitioned_inside_and_stay_branches(backend):
    text = """def @main(%c: bool, %x: $T) -> $T {
      %0 = nn.relu(%x);
      if (%c) { exp(%0) } else { tanh(add(%0, %x)) }
    }"""
    result = partitioned(text, backend)
    assert len(part_names(result)) == 3
    assert isinstance(result["main"].body, relay.If)


def test_references(backend):
    text = """def @main(%x: $T) -> $T {
      let %r = ref(nn.relu(%x));
      let %u = ref_write(%r, exp(%x));
      add(ref_read(%r), nn.relu(%x))
    }"""
    result = partition(parse(text), [backend], CHEAP)
    assert count_calls(result) == count_calls(parse(text)) and len(part_names(result)) == 3


def test_match_clauses_bind_their_own_variables(backend):
    prelude = Prelude(tvm.IRModule())
    _, cons, nil = prelude.mod.get_type("List")
    some = lambda *patterns: relay.PatternConstructor(cons, list(patterns))  # noqa: E731
    x, head, other = relay.var("x", shape=(2, 4)), relay.var("h"), relay.var("t")
    matched = cons(relay.nn.relu(x), cons(relay.exp(x), nil()))
    clauses = [
        relay.Clause(
            some(relay.PatternWildcard(), some(relay.PatternVar(head), relay.PatternWildcard())),
            relay.nn.relu(relay.tanh(head)),
        ),
        relay.Clause(some(relay.PatternVar(other), relay.PatternWildcard()), other),
        relay.Clause(relay.PatternWildcard(), relay.exp(x)),
    ]
    mod = tvm.IRModule({}, prelude.mod.type_definitions)
    mod["main"] = relay.Function([x], relay.Match(matched, clauses))
    result = partitioned(relay.transform.InferType()(mod), backend)
    assert len(part_names(result)) == 4


def test_functions_that_are_partitioned_already_stay_closed(backend):
    text = f"""
    def @theirs(%p: $T, Primitive=1, Compiler="{NAME}", global_symbol="theirs") -> $T {{
      nn.relu(%p)
    }}
    def @main(%x: $T) -> $T {{
      %0 = fn (%z: $T, Primitive=1) -> $T {{ nn.relu(%z) }};
      exp(%0(@theirs(%x)))
    }}
    """
    mod = parse(text)
    result = partition(mod, [backend], CHEAP)
    assert part_names(result) == [f"collage_{NAME}_exp"]
    assert tvm.ir.structural_equal(result["theirs"], mod["theirs"])


def test_partitioning_twice_changes_nothing_more(backend):
    once = partition(parse("def @main(%x: $T) { tanh(nn.relu(%x)) }"), [backend], CHEAP)
    assert_equal(partition(once, [backend], CHEAP), once)


def test_the_input_module_is_not_changed_and_may_be_empty(backend):
    mod = parse("def @main(%x: $T) -> $T { nn.relu(%x) }")
    before = mod.astext(False)
    partition(mod, [backend], CHEAP)
    assert mod.astext(False) == before
    assert len(partition(tvm.IRModule(), [backend], CHEAP).functions) == 0


def test_tvm_alone_leaves_every_module_as_it_is():
    text = "def @main(%x: $T) -> $T { nn.relu(tanh(%x)) }"
    estimator = MockCostEstimator({"llvm": 1})
    assert_equal(partition(parse(text), [], estimator), text)
    assert estimator.reports[0].parts


# What the estimator is told and may answer.


def test_the_report_says_what_runs_where_and_what_it_costs(backend):
    estimator = MockCostEstimator(CHEAP)
    partition(parse("def @main(%x: $T) { %0 = tanh(nn.relu(%x)); (%0, %x) }"), [backend], estimator)
    [report] = estimator.reports
    assert report.function == "main" and report.is_optimal and not report.cuts
    assert report.seconds == 11.0 and not report.failed
    # tanh and relu on llvm, alone and fused, relu on the backend; a mock is asked for all at once.
    assert report.costs == CostsAsked(candidates=4, distinct=4, asked=4, rounds=1)
    rows = [(p.backend, p.ops, p.cost.status, p.cost.seconds, p.is_kernel) for p in report.parts]
    assert rows == [
        (NAME, "nn.relu", "measured", 1.0, True),
        ("llvm", "tanh", "measured", 10.0, True),
        ("host", "", "estimated", 0.0, False),
    ]


class Answers(CostEstimator):
    """Gives each candidate of NAME what it was made with, those of the host a second."""

    def __init__(self, answer, host=Cost.given(1.0)):  # noqa: B008 - it is frozen
        super().__init__()
        self.answer, self.host = answer, host
        self.asked = []

    def estimate_batch(self, mods, targets, labels):
        self.asked += labels
        return [self.answer if t.kind.name == NAME else self.host for t in targets]


@pytest.mark.parametrize("status", sorted(set(STATUSES) - {"measured", "estimated"}))
def test_a_candidate_without_a_cost_loses_and_is_reported(backend, status):
    estimator = Answers(Cost.failed(status, "the reason"))
    text = "def @main(%x: $T) -> $T { nn.relu(%x) }"
    assert_equal(partition(parse(text), [backend], estimator), text)
    [failed] = estimator.reports[0].failed
    assert failed.label == f"{NAME}(nn.relu)"
    assert failed.cost == PartCost(status, None, "the reason")


def test_a_report_says_how_many_costs_were_asked_for_of_how_many(backend):
    estimator = Answers(Cost.given(1.0), host=Cost.given(10.0))
    text = "def @main(%x: $T) -> $T { nn.relu(tanh(nn.relu(exp(%x)))) }"
    partition(parse(text), [backend], estimator)
    costs = estimator.reports[0].costs
    assert costs.candidates == costs.distinct + 2, "relu alone, on either target, is there twice"
    assert costs.asked == len(estimator.asked) <= costs.distinct and costs.rounds > 1


CHAIN = "def @main(%x: $T) -> $T { nn.relu(tanh(nn.relu(exp(%x)))) }"


def test_after_the_time_limit_only_single_operators_of_tvm_are_asked_for(backend):
    estimator = Answers(Cost.given(1.0), host=Cost.given(10.0))
    partition(parse(CHAIN), [backend], estimator, time_limit=1e-6)
    assert sorted(estimator.asked) == ["llvm(exp)", "llvm(nn.relu)", "llvm(tanh)"]
    [report] = estimator.reports
    assert sorted(part.label for part in report.parts if part.cost.status == "measured") == [
        "llvm(exp)", "llvm(nn.relu)", "llvm(nn.relu)", "llvm(tanh)",
    ]  # fmt: skip
    given_up = report.costs.distinct - report.costs.asked
    assert not report.is_optimal
    line = f"search: limit of its time cut {given_up} distinct candidates"
    assert [text for text in report.cuts if line in text], report.cuts


def test_after_the_time_limit_operators_that_tvm_has_no_candidate_for_are_asked_for(backend):
    other = make_backend("only_sort", [("only_sort.sort", is_op("sort")(wildcard()))])
    estimator = Answers(Cost.given(1.0), host=Cost.given(10.0))
    text = "def @main(%x: $T) { nn.relu(sort(nn.relu(%x))) }"
    partition(parse(text), [backend, other], estimator, time_limit=1e-6)
    assert sorted(estimator.asked) == ["llvm(nn.relu)", "only_sort(sort)"]


@pytest.mark.parametrize("seconds", [0.0, 1e6])
def test_time_enough_cuts_nothing(backend, seconds):
    estimator = Answers(Cost.given(1.0), host=Cost.given(10.0))
    partition(parse(CHAIN), [backend], estimator, time_limit=seconds)
    assert any("," in label for label in estimator.asked)
    assert estimator.reports[0].is_optimal and not estimator.reports[0].cuts


def test_waiting_for_another_search_takes_none_of_the_time(backend, tmp_path, monkeypatch):
    monkeypatch.setenv(cpu_lock.VARIABLE, str(tmp_path))

    class Waits(Answers):
        def estimate_batch(self, mods, targets, labels):
            if not self.asked:
                wait_for_cpus(1.0)
            return super().estimate_batch(mods, targets, labels)

    estimator = Waits(Cost.given(1.0), host=Cost.given(10.0))
    partition(parse(CHAIN), [backend], estimator, time_limit=0.9)
    assert any("," in label for label in estimator.asked)
    assert not estimator.reports[0].cuts


def test_what_is_known_when_the_time_is_over_still_counts(backend):
    """Fused kernels answered in the first round stay in the plan."""
    estimator = MockCostEstimator(CHEAP)
    wanted = partition(parse(CHAIN), [backend], MockCostEstimator(CHEAP))
    found = partition(parse(CHAIN), [backend], estimator, time_limit=1e-6)
    tvm.ir.assert_structural_equal(found, wanted)
    assert estimator.reports[0].is_optimal, "a mock answers all at once"


def test_an_estimate_counts_as_a_cost(backend):
    text = "def @main(%x: $T) -> $T { nn.relu(%x) }"
    result = partition(parse(text), [backend], Answers(Cost.estimated(0.5, "a guess")))
    assert len(part_names(result)) == 1


def test_when_every_candidate_fails_the_host_keeps_the_kernel(backend):
    failed = Cost.failed("run_failed", "broken")
    estimator = Answers(failed, host=failed)
    text = "def @main(%x: $T) -> $T { exp(nn.relu(%x)) }"
    assert_equal(partition(parse(text), [backend], estimator), text)
    [report] = estimator.reports
    left = PartCost("estimated", 0.0, "no candidate with a cost fits: left to the host target")
    assert [(part.backend, part.cost) for part in report.parts] == [("host", left)] * 2
    assert len(report.failed) >= 4


def test_where_candidates_feed_each_other_the_host_keeps_as_few_kernels_as_can_be():
    """Each of two parts needs a result of the other, and TVM has a cost for abs alone."""
    name = "cycle_test"
    tvm.get_global_func("collage.RegisterTargetKind")(name, 1)

    def find(graph):
        at = {node.op: node.index for node in graph if node.op}
        return [[at["nn.relu"], at["exp"]], [at["tanh"], at["sigmoid"]]]

    class AbsAlone(CostEstimator):
        has_transitions = False

        def estimate_batch(self, mods, targets, labels):
            known = {"llvm(abs)": 1.0, f"{name}(nn.relu, exp)": 2.0, f"{name}(tanh, sigmoid)": 3.0}
            broken = Cost.failed("run_failed", "broken")
            return [Cost.given(known[label]) if label in known else broken for label in labels]

    estimator = AbsAlone()
    rules.set_partition_rule(name, rules.Primitive(rules.Custom("mine", find)))
    try:
        text = """def @main(%x: $T, %y: $T) {
          %0 = nn.relu(%x);
          %1 = tanh(%y);
          %2 = abs(%0);
          (%0, %1, %2, exp(%1), sigmoid(%2))
        }"""
        partition(parse(text), [Target(name)], estimator)
    finally:
        rules.set_partition_rule(name, None)
    [report] = estimator.reports
    kernels = [part for part in report.parts if part.is_kernel]
    left = PartCost("estimated", 0.0, "no candidate with a cost fits: left to the host target")
    assert {part.label: part.cost for part in kernels} == {
        f"{name}(nn.relu, exp)": PartCost("measured", 2.0, ""),
        "llvm(abs)": PartCost("measured", 1.0, ""),
        "host(tanh)": left,
        "host(sigmoid)": left,
    }
    assert report.is_optimal and report.seconds == report.lower_bound_seconds == 3.0


def test_what_makes_a_cost_doubtful_comes_back_as_data(backend):
    noisy = Cost("measured", 1.0, 0.5, 1.5, load=0.5, unverified=True, message='why \ud83d\n\t"x"')
    estimator = Answers(noisy, host=Cost.given(10.0))
    partition(parse("def @main(%x: $T) -> $T { nn.relu(%x) }"), [backend], estimator)
    [part] = estimator.reports[0].parts
    assert part.cost.flags == ("noisy", "busy", "unverified") == noisy.flags
    assert part.cost.message == 'why \ufffd\n\t"x"'
    [placed] = placed_parts(estimator.reports[0].placement)
    assert placed.cost == part.cost


def test_words_of_a_message_make_no_cost_doubtful(backend):
    words = "noisy: the machine was busy; not verified: no outputs"
    told = dataclasses.replace(Cost.given(1.0), message=words)
    estimator = Answers(told, host=Cost.given(10.0))
    partition(parse("def @main(%x: $T) -> $T { nn.relu(%x) }"), [backend], estimator)
    [part] = estimator.reports[0].parts
    assert (part.cost.message, part.cost.flags) == (words, ())


def test_too_few_answers(backend):
    class Silent(CostEstimator):
        def estimate_batch(self, mods, targets, labels):
            return []

    mod = parse("def @main(%x: $T) -> $T { nn.relu(%x) }")
    with pytest.raises(ValueError) as caught:
        partition(mod, [backend], Silent())
    assert "the cost estimator was asked for" in str(caught.value)
    assert str(caught.value).endswith("costs and gave 0")


def test_what_an_estimator_raises_comes_through_as_itself(backend):
    class Mine(Exception):
        pass

    class Raises(CostEstimator):
        def estimate_batch(self, mods, targets, labels):
            raise Mine("no device today")

    mod = parse("def @main(%x: $T) -> $T { nn.relu(%x) }")
    with pytest.raises(Mine, match="no device today"):
        partition(mod, [backend], Raises())


def test_an_ill_typed_module_is_tvms_own_error(backend):
    x, y = relay.var("x", shape=(2, 4)), relay.var("y", shape=(5, 7))
    mod = tvm.IRModule({relay.GlobalVar("main"): relay.Function([x, y], relay.add(x, y))})
    with pytest.raises(tvm.error.DiagnosticError):
        partition(mod, [backend], CHEAP)
