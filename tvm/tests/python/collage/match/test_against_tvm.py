# SPDX-License-Identifier: Apache-2.0
"""Our matcher against TVM's own on random pairs of pattern and function: the same roots match, and
each part of the pattern stands for the same expressions. Where TVM ends with an internal error
ours still answers; what differs on purpose is below, one test each (docs/rules.md).

COLLAGE_MATCH_PAIRS sets how many pairs (1,000 without it), COLLAGE_MATCH_SEED the first seed.
"""

import collections
import os

import pytest
import tvm
from random_patterns import RandomPattern
from random_relay import RandomFunction
from relay_text import parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.relay_util.walk import nodes_of
from tvm.relay.dataflow_pattern import (
    DFPatternCallback,
    ExprPattern,
    FunctionPattern,
    WildcardPattern,
    dominates,
    is_op,
    rewrite,
    wildcard,
)

PAIRS = int(os.environ.get("COLLAGE_MATCH_PAIRS", "1000"))
SEED = int(os.environ.get("COLLAGE_MATCH_SEED", "0"))
PATTERNS_PER_FUNCTION = 10

LEAVES = (tvm.ir.Op, relay.Var, relay.Constant)

# What TVM ends with instead of an answer: operators and open sub-expressions have no type for it,
# it compares lists with what is none, reassociates calls whose arguments were not given, and cannot
# bind a part of a dominator's path once more outside of it.
TVM_ERRORS = (
    *("checked_type_.defined()", "free variables", "IndexError", "expected Object but got"),
    *("memo_[pattern].size() == 1", "Unsupported type code in Pattern Node"),
)


def tvm_says(pattern, expr):
    """Return TVM's answer for that root; None where it ends with one of the errors above."""
    try:
        return bool(pattern.match(expr))
    except tvm.TVMError as error:
        message = str(error).strip().splitlines()[-1]
        assert any(known in message for known in TVM_ERRORS), message
        return None


def matches_by_root(pattern, function):
    """Return the first match of each root: TVM's matcher looks for no other."""
    first = {}
    for match in collage.find_matches(pattern, function):
        first.setdefault(match.expr().handle.value, match)
    return first


def match_alone(pattern, expr):
    """Match one root with nothing below it, as TVM does."""
    function = relay.Function(relay.analysis.free_vars(expr), expr)
    return matches_by_root(pattern, function).get(expr.handle.value)


class Pair:
    """A typed function with its expressions, and a pattern that describes one of them."""

    def __init__(self, seed, number, function):
        self.seed, self.number, self.function = seed, number, function
        self.exprs = nodes_of(function.body)
        self.made = RandomPattern(seed * PATTERNS_PER_FUNCTION + number, self.exprs)
        wholes = [expr for expr in self.exprs if not isinstance(expr, LEAVES)] or self.exprs
        about = wholes[-1 - int(self.made.random.expovariate(0.2)) % len(wholes)]
        # What matches anything, or one expression, tells little.
        while isinstance(pattern := self.made.describe(about, 5), (WildcardPattern, ExprPattern)):
            pass
        self.pattern = pattern
        self.matches = matches_by_root(pattern, function)

    def __str__(self):
        entry = tvm.get_global_func("collage.MakePatternEntry")(
            "any", "any", self.pattern, None, None
        )
        text = tvm.get_global_func("collage.rules.Summary")(entry)
        return (
            f"COLLAGE_MATCH_SEED={self.seed}, pattern {self.number} of the function:\n"
            f"{text}\n{self.function.astext(False)}"
        )


@pytest.fixture(scope="module")
def pairs():
    made = []
    for seed in range(SEED, SEED + PAIRS // PATTERNS_PER_FUNCTION):
        function = RandomFunction(seed).build(2 + seed % 12)
        made += [Pair(seed, number, function) for number in range(PATTERNS_PER_FUNCTION)]
    return made


KINDS = {
    *("Alt", "Attr", "Call", "Constant", "DataType", "Dominator", "Expr", "Function", "If", "Let"),
    *("Shape", "Tuple", "TupleGetItem", "Type", "Var", "Wildcard"),
}


def kind_of(pattern):
    return type(pattern).__name__.removesuffix("Pattern")


def test_the_same_roots_match(pairs):
    answers, kinds = collections.Counter(), collections.Counter()
    for pair in pairs:
        for index, expr in enumerate(pair.exprs):
            if isinstance(expr, tvm.ir.Op) and pair.made.has_types:
                continue  # TVM has no types of operators
            match = pair.matches.get(expr.handle.value)
            if pair.made.has_dominator:
                # Whether all ways meet depends on who reads what.
                match = match_alone(pair.pattern, expr)
            theirs = tvm_says(pair.pattern, expr)
            answers[theirs] += 1
            if theirs is None:
                continue
            assert (match is not None) == theirs, f"TVM says {theirs} at root {index} of {pair}"
            if match:
                kinds.update({kind_of(part) for part in match.bindings})
    print(f"\nTVM's answers: {dict(answers)}; kinds of pattern in matches: {dict(kinds)}")
    assert min(answers[True], answers[False]) > PAIRS / 2
    assert answers[None] < answers[True]
    assert {kind for kind, count in kinds.items() if count > PAIRS / 500} == KINDS


PARTS = {
    "Alt": ("left", "right"),
    "Attr": ("pattern",),
    "Call": ("op", "args"),
    "DataType": ("pattern",),
    "Dominator": ("parent", "path", "child"),
    "Function": ("params", "body"),
    "If": ("cond", "true_branch", "false_branch"),
    "Let": ("var", "value", "body"),
    "Shape": ("pattern",),
    "Tuple": ("fields",),
    "TupleGetItem": ("tuple",),
    "Type": ("pattern",),
}


def parts_of(patterns):
    """Return every part of those patterns; TVM binds some of its own beside them."""
    parts, stack = set(), list(patterns)
    while stack:
        item = stack.pop()
        if isinstance(item, tvm.ir.Array):
            stack.extend(item)
        elif item is not None and item not in parts:
            parts.add(item)
            stack.extend(getattr(item, name) for name in PARTS.get(kind_of(item), ()))
    return parts


class Recorder(DFPatternCallback):
    """Keeps what TVM binds at each root that it takes, and changes nothing."""

    def __init__(self, pattern):
        super().__init__(rewrite_once=True)
        self.pattern = pattern
        self.found = []

    def callback(self, pre, post, node_map):
        self.found.append((pre, dict(node_map.items())))
        return post


def test_each_part_stands_for_the_same_expressions(pairs):
    num_matches, num_bindings = 0, 0
    for pair in pairs:
        recorder = Recorder(pair.pattern)
        try:
            rewrite(recorder, pair.function.body)
        except tvm.TVMError as error:
            assert any(known in str(error) for known in TVM_ERRORS), error
            continue
        for root, bindings in recorder.found:
            match = pair.matches.get(root.handle.value)
            assert match is not None, f"TVM alone takes {root} of {pair}"
            num_matches += 1
            theirs = bindings.keys() & parts_of([pair.pattern, *pair.made.made])
            assert match.bindings.keys() == theirs, f"at {root} of {pair}"
            for part in theirs:
                # What TVM never visits again after matching it hands over as null.
                if None in (exprs := list(bindings[part])):
                    continue
                ours = list(dict.fromkeys(map(match.graph.expr, match.bindings[part])))
                # On a path TVM binds a node once for each way, an operator once for each call.
                once = list(dict.fromkeys(exprs))
                assert ours == once, f"{part} is {ours}, not {once} at {root} of {pair}"
                num_bindings += 1
    print(f"\n{num_matches} matches, {num_bindings} bindings")
    assert num_matches > PAIRS / 3
    assert num_bindings > 3 * num_matches


# What differs on purpose.

X, Y = relay.var("x", shape=(2, 4)), relay.var("y", shape=(2, 4))


def we_say(pattern, body):
    function = relay.Function(relay.analysis.free_vars(body), body)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    graph = collage.dataflow_graph(mod["main"])
    return any(match.root == graph.result for match in collage.find_matches(pattern, graph))


ERRORS = {
    "a list against a number": (
        is_op("nn.softmax")(wildcard()).has_attr({"axis": [1]}),
        relay.nn.softmax(X, axis=1),
        False,
    ),
    "a number against a type": (
        is_op("cast")(wildcard()).has_attr({"dtype": 1}),
        relay.cast(X, "int8"),
        False,
    ),
    "null": (
        is_op("nn.dense")(wildcard(), wildcard()).has_attr({"units": 1}),
        relay.nn.dense(X, Y),
        False,
    ),
    "a boolean of an operator": (
        is_op("add").has_attr({"TOpIsStateful": False})(wildcard(), wildcard()),
        relay.add(X, Y),
        True,
    ),
    "a function of an operator": (
        is_op("add").has_attr({"FTVMCompute": 1})(wildcard(), wildcard()),
        relay.add(X, Y),
        False,
    ),
    "reassociation of arguments not given": (is_op("divide")(None), relay.multiply(X, Y), False),
}


@pytest.mark.parametrize("case", ERRORS)
def test_where_tvm_ends_with_an_internal_error_ours_answers(case):
    pattern, body, expected = ERRORS[case]
    with pytest.raises(tvm.TVMError, match="InternalError"):
        pattern.match(body)
    assert we_say(pattern, body) == expected


def test_sizes_are_compared_by_value_whatever_their_integer_type():
    long = [tvm.tir.IntImm("int64", dim) for dim in (2, 4)]
    for pattern in (
        wildcard().has_shape(long),
        wildcard().has_type(relay.TensorType(long, "float32")),
    ):
        assert not pattern.match(relay.tanh(X))
        assert we_say(pattern, relay.tanh(X))


def test_a_real_attribute_of_a_function_may_be_boxed():
    function = relay.Function([X], relay.tanh(X)).with_attr("scale", 1.5)
    pattern = FunctionPattern(None, wildcard()).has_attr({"scale": 1.5})
    assert not pattern.match(function)
    assert we_say(pattern, function)
    other = FunctionPattern(None, wildcard()).has_attr({"scale": 2.5})
    assert not we_say(other, function)


def test_functions_that_a_backend_has_already_stay_closed():
    pattern = FunctionPattern(None, is_op("tanh")(wildcard()))
    function = relay.Function([X], relay.tanh(X))
    assert pattern.match(function) and we_say(pattern, function)
    taken = function.with_attr("Compiler", "a_backend")
    assert pattern.match(taken) and not we_say(pattern, taken)


def test_a_reader_outside_the_root_counts_as_in_rewrite_but_not_in_match():
    pattern = dominates(is_op("tanh")(wildcard()), is_op("exp")(wildcard()), is_op("abs")(None))
    mod = parse("def @main(%x: $T) { %0 = tanh(%x); %1 = exp(%0); %2 = abs(%1); add(%2, exp(%1)) }")
    main = mod["main"]
    root = main.body.args[0]
    assert pattern.match(root)
    assert match_alone(pattern, root)
    recorder = Recorder(pattern)
    rewrite(recorder, main.body)
    assert recorder.found == []
    assert collage.find_matches(pattern, main) == []


def test_a_path_up_from_a_match_goes_through_what_is_matched_too():
    def says(matched):
        clause = relay.adt.Clause(relay.adt.PatternWildcard(), relay.exp(relay.tanh(X)))
        body = relay.adt.Match(matched, [clause], complete=False)
        return pattern.match(body), we_say(pattern, body)

    pattern = dominates(is_op("tanh")(wildcard()), is_op("exp")(wildcard()), wildcard())
    assert says(Y) == (True, False)


def test_a_node_on_several_ways_of_a_path_is_bound_once():
    path = is_op("exp")(wildcard()) | is_op("add")(wildcard(), wildcard())
    pattern = dominates(is_op("tanh")(wildcard()), path, is_op("abs")(wildcard()))
    mod = parse("def @main(%x: $T) { %0 = tanh(%x); %1 = exp(%0); %2 = add(%1, %1); abs(%2) }")
    recorder = Recorder(pattern)
    rewrite(recorder, mod["main"].body)
    [(_, theirs)] = recorder.found
    assert len(theirs[path]) == 3
    [match] = collage.find_matches(pattern, mod["main"])
    assert len(match.bindings[path]) == 2


def test_a_wildcard_that_leads_back_matches_chains_of_any_length_and_ends():
    more = wildcard()
    chain = is_op("nn.relu")(more | is_op("tanh")(wildcard()))
    more.redirect_to(chain)
    body = relay.nn.relu(relay.nn.relu(relay.nn.relu(relay.tanh(X))))
    for root in (body, body.args[0], relay.nn.relu(relay.exp(X)), relay.exp(X)):
        for entry in (chain, more):
            assert we_say(entry, root) == entry.match(root)
    # Without a step up TVM would never end.
    endless = wildcard()
    endless.redirect_to(endless | is_op("tanh")(wildcard()))
    assert we_say(endless, relay.tanh(X))
    assert not we_say(endless, relay.exp(X))
