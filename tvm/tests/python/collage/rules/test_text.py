# SPDX-License-Identifier: Apache-2.0
"""Each rule and each combiner: a Relay text before and after, and one where it must not fire.

The rule is that of a target kind for which every part is much cheaper than for TVM.
"""

import functools

import pytest
import tvm
from relay_text import (
    HOST,
    assert_equal,
    assert_same_outputs,
    composite_text,
    make_backend,
    parse,
    part_text,
    partition,
    rule_of,
)
from tvm.relay import collage
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.rules import (
    ByKind,
    Combine,
    Composite,
    Constants,
    Custom,
    DFPattern,
    Glue,
    Host,
    JoinAnything,
    OnlyValid,
    OpCallByKind,
    OpPredicate,
    Primitive,
    Region,
    TupleArg,
    TupleProjection,
    Union,
)
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op import OpPattern
from tvm.target import Target

K = "text_test"  # the target kind
CONV = "Tensor[(1, 4, 8, 8), float32]"


def taken(text, rule, **options):
    """The module after the pass, the kind having that rule."""
    mod = parse(text)
    with rule_of(K, rule):
        result = partition(mod, [Target(K)], {HOST: 100, K: 1}, **options)
    assert_same_outputs(mod, result)
    return result


part = functools.partial(part_text, K)


def main(body, result="$T"):
    """The text of main, of one tensor; of a type that is left to be found where result is empty."""
    return f"def @main(%x: $T) {result and '-> ' + result} {{ {body} }}"


def call(ops, args="%x"):
    return f"@collage_{K}_{ops}({args})"


def op(name):
    return DFPattern(name, is_op(name)(wildcard()))


def ops(*names):
    return OpPredicate("these", lambda expr: expr.op.name in names)


RELU_TANH = DFPattern("relu_tanh", is_op("tanh")(is_op("nn.relu")(wildcard())))
CHAIN = main("exp(tanh(nn.relu(%x)))")
DIAMOND = main("%0 = nn.relu(%x); add(tanh(%0), exp(%0))")
CONVOLVED = f"""def @main(%x: {CONV}, %w: Tensor[(4, 4, 1, 1), float32]) -> {CONV} {{
  nn.relu(nn.conv2d(%x, %w, padding=[0, 0, 0, 0]))
}}"""
CONV_PARAMS = f"%x: {CONV}, %w: Tensor[(4, 4, 1, 1), float32]"
REDUCED = main("sum(exp(%x), axis=[1])", "Tensor[(2), float32]")
CONCATENATED = """def @main(%x: $T) -> Tensor[(4, 4), float32] {
  %0 = (tanh(%x), exp(%x));
  concatenate(%0)
}"""
CONCATENATED_BY_ONE = (
    part(
        "tanh_exp_concatenate",
        "%0 = (tanh(%p), exp(%p)); concatenate(%0)",
        result="Tensor[(4, 4), float32]",
    )
    + "def @main(%x: $T) -> Tensor[(4, 4), float32] "
    + f"{{ {call('tanh_exp_concatenate')} }}"
)
SPLIT = """def @main(%x: $T) -> Tensor[(1, 4), float32] {
  %0 = split(%x, indices_or_sections=2);
  nn.relu(%0.1)
}"""
POOL = "nn.max_pool2d({}, pool_size=[1, 1], padding=[0, 0, 0, 0])"

CASES = {
    "DFPattern": (
        Primitive(RELU_TANH),
        CHAIN,
        part("nn_relu_tanh", "tanh(nn.relu(%p))") + main(f"exp({call('nn_relu_tanh')})"),
    ),
    "OpCallByKind": (
        Primitive(OpCallByKind()),
        main("nn.relu(%x)"),
        part("nn_relu", "nn.relu(%p)") + main(call("nn_relu")),
    ),
    "OpPredicate": (
        Primitive(ops("tanh")),
        CHAIN,
        part("tanh", "tanh(%p)") + main(f"exp({call('tanh', 'nn.relu(%x)')})"),
    ),
    "Glue": (
        # The tuple and both of its fields are one part only because the tuple is.
        Primitive(Region(Union(ops("tanh", "exp", "concatenate"), Glue()), keep_parts=False)),
        CONCATENATED,
        CONCATENATED_BY_ONE,
    ),
    "Host": (
        Primitive(Host()),
        main("nn.relu(%x)"),
        part("nn_relu", "nn.relu(%p)") + main(call("nn_relu")),
    ),
    "Custom": (
        Primitive(Custom("ends", lambda graph: [[n.index] for n in graph if n.op == "exp"])),
        CHAIN,
        part("exp", "exp(%p)") + main(call("exp", "tanh(nn.relu(%x))")),
    ),
    "Composite": (
        Primitive(Composite("k.relu_tanh", RELU_TANH)),
        CHAIN,
        part("nn_relu_tanh", composite_text("k.relu_tanh", "tanh(nn.relu(%q))"))
        + main(f"exp({call('nn_relu_tanh')})"),
    ),
    "Composite with attributes": (
        Primitive(Composite("k.relu", op("nn.relu"), lambda expr: {"rank": len(expr.args)})),
        main("nn.relu(%x)"),
        part(
            "nn_relu", '%0 = fn (%q: $T, Composite="k.relu", rank=1) -> $T { nn.relu(%q) }; %0(%p)'
        )
        + main(call("nn_relu")),
    ),
    "Composite outside Primitive": (
        Composite("k.relu_tanh", RELU_TANH, lambda expr: {"fast": 1}),
        CHAIN,
        """def @main(%x: $T) -> $T {
          %0 = fn (%q: $T, Composite="k.relu_tanh", fast=1) -> $T { tanh(nn.relu(%q)) };
          exp(%0(%x))
        }""",
    ),
    "Composites in TVM's flow": (
        # RFC 0062: a library call joined with what TVM would fuse to it, neither of them wrapped.
        Combine(Union(Composite("k.relu", op("nn.relu")), op("tanh")), [JoinAnything()]),
        CHAIN,
        """def @main(%x: $T) -> $T {
          %0 = fn (%q: $T, Composite="k.relu") -> $T { nn.relu(%q) };
          exp(tanh(%0(%x)))
        }""",
    ),
    "Union": (
        Primitive(Union(op("nn.relu"), op("exp"))),
        CHAIN,
        part("nn_relu", "nn.relu(%p)")
        + part("exp", "exp(%p)")
        + main(call("exp", "tanh(" + call("nn_relu") + ")")),
    ),
    "OnlyValid": (
        Primitive(OnlyValid(Union(RELU_TANH, op("exp")), max_depth=1)),
        CHAIN,
        part("exp", "exp(%p)") + main(call("exp", "tanh(nn.relu(%x))")),
    ),
    "Combine by kind: a convolution with what follows": (
        Primitive(
            Combine(OpCallByKind(), [ByKind(OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.BROADCAST)])
        ),
        CONVOLVED,
        part(
            "nn_conv2d_nn_relu",
            "nn.relu(nn.conv2d(%x, %w, padding=[0, 0, 0, 0]))",
            CONV_PARAMS,
            CONV,
        )
        + f"def @main({CONV_PARAMS}) -> {CONV} {{ {call('nn_conv2d_nn_relu', '%x, %w')} }}",
    ),
    "Combine by kind: broadcast into a reduction": (
        Primitive(Combine(OpCallByKind(), [ByKind(OpPattern.BROADCAST, OpPattern.COMM_REDUCE)])),
        REDUCED,
        part("exp_sum", "sum(exp(%p), axis=[1])", result="Tensor[(2), float32]")
        + main(call("exp_sum"), "Tensor[(2), float32]"),
    ),
    "Combine by kind: injective calls": (
        Primitive(Combine(OpCallByKind(), [ByKind(OpPattern.INJECTIVE, OpPattern.INJECTIVE)])),
        main("nn.relu(reshape(%x, newshape=[8]))", "Tensor[(8), float32]"),
        part("reshape_nn_relu", "nn.relu(reshape(%p, newshape=[8]))", result="Tensor[(8), float32]")
        + main(call("reshape_nn_relu"), "Tensor[(8), float32]"),
    ),
    "Combine, TupleArg": (
        Primitive(Combine(OpCallByKind(), [TupleArg()])),
        CONCATENATED,
        CONCATENATED_BY_ONE,
    ),
    "Combine, TupleProjection": (
        Primitive(Combine(ops("split"), [TupleProjection()])),
        SPLIT,
        part(
            "split", "%0 = split(%p, indices_or_sections=2); %0.1", result="Tensor[(1, 4), float32]"
        )
        + main(f"nn.relu({call('split')})", "Tensor[(1, 4), float32]"),
    ),
    "Combine, JoinAnything": (
        Primitive(Combine(OpCallByKind(), [JoinAnything()])),
        f"def @main(%x: {CONV}) -> {CONV} {{ {POOL.format('nn.relu(%x)')} }}",
        part("nn_relu_nn_max_pool2d", POOL.format("nn.relu(%p)"), f"%p: {CONV}", CONV)
        + f"def @main(%x: {CONV}) -> {CONV} {{ {call('nn_relu_nn_max_pool2d')} }}",
    ),
    "Constants are their readers'": (
        # Two parts read the constant; each has its own, with any combiner or none.
        Primitive(Combine(ops("add", "multiply"), [Constants()])),
        main("%0 = tanh(add(%x, 2f)); multiply(%0, 2f)"),
        part("add", "add(%p, 2f)")
        + part("multiply", "multiply(%p, 2f)")
        + main(call("multiply", "tanh(" + call("add") + ")")),
    ),
    "DFPattern: the second order of a sum's arguments is the cheaper one": (
        Primitive(
            Union(
                DFPattern("sum", is_op("add")(is_op("exp")(wildcard()), wildcard())),
                DFPattern("relu_exp", is_op("exp")(is_op("nn.relu")(wildcard()))),
            )
        ),
        main("%0 = exp(nn.relu(%x)); add(%0, exp(%x))"),
        part("nn_relu_exp", "exp(nn.relu(%p))")
        + part("exp_add", "add(%p, exp(%q))", "%p: $T, %q: $T")
        + main(call("exp_add", call("nn_relu_exp") + ", %x")),
    ),
    "Region": (
        Primitive(Region(ops("nn.relu", "tanh", "exp", "add"), keep_parts=False)),
        DIAMOND,
        part("nn_relu_tanh_exp_add", "%0 = nn.relu(%p); add(tanh(%0), exp(%0))")
        + main(call("nn_relu_tanh_exp_add")),
    ),
    "Region of several values": (
        Primitive(Region(ops("nn.relu", "tanh", "exp"), keep_parts=False)),
        DIAMOND,
        part("nn_relu_tanh_exp", "%0 = nn.relu(%p); (tanh(%0), exp(%0))", result="($T, $T)")
        + f"""def @main(%x: $T) -> $T {{
          %1 = {call("nn_relu_tanh_exp")};
          add(%1.0, %1.1)
        }}""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name):
    rule, before, after = CASES[name]
    assert_equal(taken(before, rule), after)


# Rule, and a text that it leaves as it is.
NEGATIVES = {
    "DFPattern: another op between": (Primitive(RELU_TANH), main("tanh(exp(nn.relu(%x)))")),
    "DFPattern: a predicate refuses": (
        Primitive(DFPattern("relu", is_op("nn.relu")(wildcard()), lambda expr: "too small")),
        CHAIN,
    ),
    "DFPattern: a value of the middle is used elsewhere too": (
        Primitive(Combine(RELU_TANH, [])),
        DIAMOND,
    ),
    "OpCallByKind: an opaque op": (Primitive(OpCallByKind()), main("sort(%x)")),
    "OpPredicate: other ops": (Primitive(ops("log")), CHAIN),
    "Glue: no tuple": (Primitive(Glue()), CHAIN),
    "Host: not wrapped, so TVM's": (Host(), CHAIN),
    "Custom: nothing": (Primitive(Custom("none", lambda graph: [])), CHAIN),
    "Composite: neither in it nor around it is anything else": (
        Primitive(Composite("k.log", op("log"))),
        CHAIN,
    ),
    "Primitive: without it nothing is handed over": (op("nn.relu"), CHAIN),
    "Union of nothing": (Primitive(Union()), CHAIN),
    "OnlyValid: too deep": (Primitive(OnlyValid(RELU_TANH, max_depth=1)), CHAIN),
    "OnlyValid: two values": (Primitive(OnlyValid(RELU_TANH, max_exits=1)), DIAMOND),
    "OnlyValid: a tap": (Primitive(OnlyValid(RELU_TANH, allow_taps=False)), DIAMOND),
    "Region: a lone part is none": (Primitive(Region(op("exp"), keep_parts=False)), CHAIN),
    "Region: a path would leave and come back": (
        Primitive(Region(ops("nn.relu", "add"), keep_parts=False)),
        DIAMOND,
    ),
}


@pytest.mark.parametrize("name", NEGATIVES)
def test_left_alone(name):
    rule, text = NEGATIVES[name]
    assert_equal(taken(text, rule), text)


def sets(text, rule):
    """What the rule could take: ops of each candidate, composites in brackets."""
    with rule_of(K, Primitive(rule)):
        found = collage.candidates(parse(text), [HOST, K])
    return [
        " ".join(
            [c.sub_graph.graph[i].op or c.sub_graph.graph[i].type for i in sorted(inside)]
            + [f"[{nested.composite}]" for nested in c.sub_graph.nested]
        )
        for c in found
        if c.backend == K
        for inside in [c.sub_graph.inside]
    ]


SINGLES = ["nn.relu", "tanh", "exp"]


@pytest.mark.parametrize(
    "combiner, text, joined, apart",
    [
        (
            ByKind(OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.BROADCAST),
            "def @main(%x: $T, %w: $T) { exp(nn.dense(nn.relu(%x), %w, units=None)) }",
            "nn.dense exp",
            "nn.relu nn.dense",
        ),
        (
            ByKind(OpPattern.BROADCAST, OpPattern.COMM_REDUCE),
            main("nn.relu(sum(exp(%x), axis=[1]))", ""),
            "exp sum",
            "sum nn.relu",
        ),
        (
            ByKind(OpPattern.INJECTIVE, OpPattern.INJECTIVE),
            "def @main(%x: $T, %w: $T) "
            "{ nn.dense(reshape(nn.relu(%x), newshape=[2, 4]), %w, units=None) }",
            "nn.relu reshape",
            "nn.relu reshape nn.dense",
        ),
        (
            TupleArg(),
            main("%0 = (tanh(%x), %x); exp(concatenate(%0))", ""),
            "tanh tuple concatenate",
            "concatenate exp",
        ),
        (TupleProjection(), SPLIT, "split projection", "split projection nn.relu"),
        (JoinAnything(), main("tanh(sort(exp(nn.relu(%x))))", ""), "nn.relu exp", "exp sort"),
    ],
    ids=["conv", "reduce", "injective", "tuple_arg", "projection", "anything"],
)
def test_what_a_combiner_joins_and_what_it_does_not(combiner, text, joined, apart):
    found = sets(text, Combine(OpCallByKind(), [combiner]))
    assert joined in found and apart not in found


def test_constants_joins_nothing():
    found = sets(CHAIN, Combine(OpCallByKind(), [Constants()]))
    assert sorted(found) == sorted(SINGLES)


def test_limits_of_combine():
    everything = [JoinAnything()]
    deep = sets(CHAIN, Combine(OpCallByKind(), everything, max_depth=2))
    assert "nn.relu tanh" in deep and "nn.relu tanh exp" not in deep
    assert "nn.relu tanh exp" in sets(CHAIN, Combine(OpCallByKind(), everything, max_depth=0))
    # relu's value goes two ways: with one exit it joins only as a whole.
    one = sets(DIAMOND, Combine(OpCallByKind(), everything))
    assert "nn.relu tanh exp" not in one and "nn.relu tanh exp add" in one
    two = sets(DIAMOND, Combine(OpCallByKind(), everything, max_exits=2))
    assert "nn.relu tanh exp" in two and "nn.relu tanh" not in two
    taps = sets(DIAMOND, Combine(OpCallByKind(), everything, max_exits=2, allow_taps=True))
    assert "nn.relu tanh" in taps


def test_the_option_max_exits_lets_a_candidate_give_several_values():
    text = "def @main(%x: $T) -> ($T, $T) { %0 = nn.relu(%x); (tanh(%0), exp(%0)) }"
    table = [(f"exits_test.{name}", is_op(name)(wildcard())) for name in SINGLES]
    backend = make_backend("exits_test", table)
    costs = {HOST: 100, "exits_test": 1}
    # A table alone: chosen parts that touch are joined after the search, so costs tell them apart.
    one, two = (MockCostEstimator(costs) for _ in range(2))
    partition(parse(text), [backend], one)
    result = partition(parse(text), [backend], two, max_exits=2)
    assert [len(e.reports[0].parts) for e in (one, two)] == [4, 2]
    assert_same_outputs(parse(text), result)


def test_what_max_exits_cuts_is_reported():
    text = main("%0 = nn.relu(%x); (tanh(%0), exp(%0), sigmoid(%0))", "")
    table = [(f"cuts_test.{name}", is_op(name)(wildcard())) for name in [*SINGLES, "sigmoid"]]
    estimator = MockCostEstimator({HOST: 100, "cuts_test": 1})
    partition(parse(text), [make_backend("cuts_test", table)], estimator, max_exits=2)
    assert "rule combine: limit max_exits cut 4" in estimator.reports[0].cuts


def test_tvm_gets_regions_by_option():
    pools = f"def @main(%x: {CONV}) {{ {POOL.format(POOL.format('%x'))} }}"

    def of_tvm(**options):
        config = {f"relay.collage.{key}": value for key, value in options.items()}
        with tvm.transform.PassContext(config=config):
            found = collage.candidates(parse(pools), [HOST])
        return [len(c.sub_graph) for c in found if c.backend == HOST]

    assert of_tvm() == [1, 1]
    assert of_tvm(tvm_regions=True) == [1, 1, 2]


def test_a_region_is_cut_where_its_work_is():
    text = """def @main(%x: $T, %w: Tensor[(4, 4), float32], %v: Tensor[(8, 4), float32]) {
      exp(exp(nn.dense(tanh(tanh(nn.dense(nn.relu(nn.relu(%x)), %w, units=None))), %v, units=None)))
    }"""
    whole = "nn.relu nn.relu nn.dense tanh tanh nn.dense exp exp"
    rule = OpCallByKind()
    assert sets(text, Region(rule, keep_parts=False)) == [whole]
    # The second product has the larger weight.
    once = sets(text, Region(rule, keep_parts=False, max_cuts=1))
    assert sorted(once) == sorted([whole, "nn.relu nn.relu nn.dense tanh tanh", "exp exp"])
    twice = sets(text, Region(rule, keep_parts=False, max_cuts=2))
    assert sorted(twice) == sorted([*once, "nn.relu nn.relu", "tanh tanh"])
