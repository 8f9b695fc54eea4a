# SPDX-License-Identifier: Apache-2.0
"""Python's views of the partitioner's data: graph, index sets, sub-graphs, candidates, specs."""

import numpy as np
import pytest
import tvm
from relay_text import HOST, assert_equal, make_backend, parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import OpKind, SubGraphConfig
from tvm.relay.collage.errors import ModuleError
from tvm.relay.collage.views import NestedSubGraph
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "views_test"

# Nodes: 0 x, 1 exp, 2 tanh, 3 relu (ops), 4 relu, 5 tanh, 6 exp, then add with its op, the result.
DIAMOND = "def @main(%x: $T) { %0 = nn.relu(%x); add(tanh(%0), exp(%0)) }"


@pytest.fixture(scope="module")
def backend():
    relu_add = is_op("add")(is_op("tanh")(wildcard()), wildcard())
    table = [(f"{NAME}.relu", is_op("nn.relu")(wildcard())), (f"{NAME}.tanh_add", relu_add)]
    return make_backend(NAME, table)


def diamond():
    graph = collage.dataflow_graph(parse(DIAMOND)["main"])
    calls = {node.op: node.index for node in graph if node.op}
    return graph, calls["nn.relu"], calls["tanh"], calls["exp"], calls["add"]


# DataflowGraph and Node.


def test_a_graph_shows_its_nodes_and_their_expressions():
    graph, relu, tanh, exp, add = diamond()
    assert graph.result == add and graph[add].is_result
    assert graph.placeable == {relu, tanh, exp, add}
    node = graph.node(relu)
    assert (node.type, node.op, node.kind) == ("call", "nn.relu", OpKind.ELEMWISE)
    assert node.inputs[1:] == (0,) and graph[node.inputs[0]].type == "op"
    assert node.outputs == (tanh, exp)
    assert (node.dominator, graph[tanh].dominator, graph[add].dominator) == (add, add, -1)
    assert [str(item) for item in node.types] == ["float32[2, 4]"]
    assert node.num_bytes == 2 * 4 * 4
    for index in (relu, tanh, exp, add):
        assert graph.expr(index).op.name == graph[index].op
    assert graph.function.params[0].same_as(graph.expr(0))
    assert graph.Summary() == f"graph of {len(graph)} nodes, 4 to place, 4 calls"
    assert node.Summary() == f"%{relu} = nn.relu(%0)"


def test_attributes_types_and_projections_are_plain_values():
    mod = parse(
        """def @main(%x: Tensor[(?, 4), float32]) {
          %0 = split(clip(%x, a_min=0f, a_max=6f), indices_or_sections=2, axis=1);
          %1 = %0.1;
          transpose(%1, axes=[1, 0])
        }"""
    )
    nodes = {node.op or node.type: node for node in collage.dataflow_graph(mod["main"])}
    assert nodes["clip"].attrs == {"a_min": 0.0, "a_max": 6.0}
    assert nodes["split"].attrs == {"indices_or_sections": 2, "axis": 1}
    assert nodes["transpose"].attrs["axes"] == [1, 0]
    assert nodes["split"].is_tuple and len(nodes["split"].types) == 2
    assert nodes["clip"].types[0].shape == (None, 4) and nodes["clip"].num_bytes == 0
    assert nodes["projection"].projection == 1 and nodes["projection"].is_placeable
    assert not nodes["var"].is_placeable


def test_names_and_numbers_come_through_as_they_are():
    name = 'quote " backslash \\ newline \n tab \t \u00e9'
    x = relay.var(name, shape=(2, 4))
    body = relay.clip(x, float("-inf"), 0.1)
    [var, _, clip] = collage.dataflow_graph(relay.Function([x], body))
    assert var.name == name and name in var.Summary()
    assert clip.attrs == {"a_min": float("-inf"), "a_max": 0.1}
    assert isinstance(var.num_bytes, int) and clip.is_result is True
    nodes = list(collage.dataflow_graph(relay.Function([x], relay.clip(x, 0, 6))))
    assert isinstance(nodes[-1].attrs["a_max"], float)
    strided = relay.strided_slice(x, [0, 0], [1, 2])
    attrs = list(collage.dataflow_graph(relay.Function([x], strided)))[-1].attrs
    assert attrs["begin"] == [0, 0] and attrs["axes"] is None


def test_the_structural_hash_tells_structure_from_weights_and_names():
    def hashes(text):
        graph = collage.dataflow_graph(parse(text)["main"])
        return graph.structural_hash, graph.weights_hash

    def with_weights(values):
        x = relay.var("x", shape=(4, 8))
        weights = relay.const(np.full((4, 8), values, "float32"))
        mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(x, weights)))
        graph = collage.dataflow_graph(relay.transform.InferType()(mod)["main"])
        return graph.structural_hash, graph.weights_hash

    assert hashes(DIAMOND) == hashes(DIAMOND.replace("%x", "%other"))
    assert hashes(DIAMOND)[0] != hashes(DIAMOND.replace("tanh", "abs"))[0]
    assert with_weights(1)[0] == with_weights(2)[0] and with_weights(1)[1] != with_weights(2)[1]
    assert all(len(text) == 16 and int(text, 16) >= 0 for text in hashes(DIAMOND))


def test_a_view_outlives_whatever_it_was_made_from():
    part = collage.dataflow_graph(parse(DIAMOND)["main"]).sub_graph([5])
    assert part.graph.expr(5).op.name in ("nn.relu", "tanh", "exp", "add")


def test_a_graph_of_what_is_no_function_or_a_node_outside_is_an_error():
    with pytest.raises(ModuleError, match=r"expected a relay\.Function, got IRModule"):
        collage.dataflow_graph(parse(DIAMOND))
    graph = diamond()[0]
    for index in (-1, len(graph)):
        with pytest.raises(IndexError, match=f"node {index} is not in the graph of"):
            graph.node(index)
        with pytest.raises(IndexError):
            graph.expr(index)


# IndexSet.


def test_an_index_set_is_a_frozenset_with_a_short_form():
    indexes = collage.IndexSet([9, 3, 4, 5, 0])
    assert indexes == {0, 3, 4, 5, 9} and indexes <= set(range(10))
    assert indexes.Summary() == repr(indexes) == "{0,3..5,9}"
    assert collage.IndexSet().Summary() == "{}"
    assert collage.IndexSet(range(0, 200, 2)).Summary() == "{0..198: 100 nodes}"


# SubGraph.


def test_a_sub_graph_knows_its_border():
    graph, relu, tanh, exp, add = diamond()
    part = graph.sub_graph([relu, tanh], {"label": [tanh]})
    assert part.inside == {relu, tanh} and len(part) == 2
    assert part.entries == {relu} and part.inputs == {0}
    assert part.exits == {relu, tanh} and part.outputs == {exp, add}
    assert part.nested == (NestedSubGraph("label", {tanh}, {}),)
    assert (part.kind, part.depth, part.has_taps) == (OpKind.ELEMWISE, 2, True)
    assert part.Summary() == f"{{{relu},{tanh}}} nn.relu+tanh [label]"


def test_constants_are_named_apart_from_inputs():
    x = relay.var("x", shape=(2, 4))
    body = relay.add(x, relay.const(np.ones((2, 4), "float32")))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    graph = collage.dataflow_graph(mod["main"])
    part = graph.sub_graph([graph.result])
    assert part.inputs == {0}
    assert [graph[index].type for index in part.constants] == ["const"]


def test_validity_names_the_limit_that_is_broken():
    graph, relu, tanh, exp, add = diamond()
    part = graph.sub_graph([relu, tanh])
    assert part.is_valid() and part.why_invalid() == ""
    for config, reason in (
        (SubGraphConfig(max_exits=1), "2 values are used outside, the limit is 1"),
        (SubGraphConfig(max_depth=1), "a path of 2 calls, the limit is 1"),
        (SubGraphConfig(allow_taps=False), "a value is used both inside and outside"),
    ):
        assert not part.is_valid(config)
        assert part.why_invalid(config) == reason
    hole = graph.sub_graph([relu, tanh, add])
    assert hole.why_invalid() == "a path leaves it and comes back"
    overlap = graph.sub_graph([relu, tanh], [("a", [relu, tanh]), ("a", [tanh])])
    assert overlap.why_invalid() == "its composites overlap or reach outside"


def test_a_config_says_its_limits():
    assert SubGraphConfig().Summary() == "no limit"
    config = SubGraphConfig(max_depth=4, max_exits=1, allow_taps=False)
    assert config.Summary() == "depth <= 4, exits <= 1, no taps"


def test_sub_graphs_are_equal_by_nodes_and_composites():
    graph, relu, tanh, *_ = diamond()
    part = graph.sub_graph([relu, tanh])
    assert part == graph.sub_graph([tanh, relu, tanh])
    assert len({part, graph.sub_graph([relu, tanh]), graph.sub_graph([relu])}) == 2
    assert part != graph.sub_graph([relu, tanh], {"label": [relu]})
    assert part != diamond()[0].sub_graph([relu, tanh]), "another function's nodes are others"


def test_nodes_that_no_partition_holds_are_refused_by_name():
    graph = diamond()[0]
    with pytest.raises(ValueError, match=r"^ValueError: %0 = var x cannot be placed|^%0 = var x"):
        graph.sub_graph([0])
    with pytest.raises(ValueError, match="node 99 is not in the graph of"):
        graph.sub_graph([99])


# PartitionSpec and CandidatePartition.


def test_specs_are_the_targets_and_the_host(backend):
    specs = collage.partition_specs([HOST, backend])
    assert [spec.name for spec in specs] == [HOST, NAME, "host"]
    assert [spec.is_external for spec in specs] == [False, True, False]
    assert specs[1].target.kind.name == NAME
    assert f"Composite({NAME}.relu" in specs[1].rule
    assert specs[1].Summary() == f"{NAME} (external): {specs[1].rule}"


def test_candidates_of_a_function_by_backend_and_rule(backend):
    mod = parse(DIAMOND)
    graph, relu, tanh, exp, add = diamond()
    found = collage.candidates(mod["main"], [HOST, backend])
    by_backend = {
        name: {c.sub_graph.inside for c in found if c.backend == name}
        for name in (HOST, NAME, "host")
    }
    assert by_backend["host"] == {frozenset({i}) for i in graph.placeable}
    assert {frozenset({relu}), frozenset({tanh, add})} <= by_backend[NAME]
    assert frozenset({exp}) not in by_backend[NAME]
    assert frozenset({relu, tanh, exp, add}) in by_backend[HOST]
    [single] = [c for c in found if c.backend == NAME and c.sub_graph.inside == {relu}]
    assert single.is_primitive and single.is_joinable and not single.is_free
    assert single.sub_graph.nested == (NestedSubGraph(f"{NAME}.relu", {relu}, {}),)
    assert single.spec.name == NAME and single.cost.status == "unknown"
    assert single.Summary() == f"{NAME} {{{relu}}} nn.relu [{NAME}.relu] by {single.rule}"


def test_candidates_cover_each_function_that_the_pass_would_partition(backend):
    mod = parse(
        """def @kernel(%x: $T, Primitive=1) -> $T { nn.relu(%x) }
           def @part(%x: $T) -> $T { tanh(%x) }
           def @main(%x: $T) { @part(@kernel(nn.relu(%x))) }"""
    )
    functions = {c.sub_graph.graph.function for c in collage.candidates(mod, [HOST, backend])}
    assert len(functions) == 2
    assert all("Primitive" not in (function.attrs or {}) for function in functions)


def test_candidates_carry_their_costs_when_an_estimator_is_given(backend):
    def priced(mod, target):
        return float("inf") if target.kind.name == NAME else 0.002

    estimator = collage.estimators.FunctionCosts(priced)
    found = collage.candidates(parse(DIAMOND), [HOST, backend], estimator)
    costs = {c.backend: c.cost for c in found}
    assert costs[HOST].Summary() == "measured 2 ms"
    assert costs[NAME].status == "unsupported" and costs[NAME].is_failure
    assert costs["host"].status == "unknown", (
        "a kernel is the host's only when nobody else takes it"
    )
    for candidate in found:
        if candidate.cost.status != "unknown":
            assert candidate.Summary().endswith(", " + candidate.cost.Summary())


def test_a_free_candidate_costs_nothing_without_being_asked_for(backend):
    mod = parse("def @main(%x: $T) { (nn.relu(%x), %x) }")
    [free] = [c for c in collage.candidates(mod, [HOST, backend]) if c.is_free]
    assert free.backend == "host" and free.cost.Summary() == "estimated 0 ns"


@pytest.mark.parametrize(
    "seconds", [0.0, 2.5e-9, 1.25e-6, 9.996e-4, 0.0123456, 1.0, 59.96, 999.6, 12345.0]
)
def test_costs_read_the_same_from_either_language(backend, seconds):
    made_up = collage.measure.Cost.estimated(seconds, "made up")
    estimator = collage.CostEstimator()
    estimator.estimate_batch = lambda mods, *_: [made_up] * len(mods)
    found = collage.candidates(parse(DIAMOND), [HOST, backend], estimator)
    [text] = {c.Summary().split(", ")[-1] for c in found if c.backend == NAME}
    assert text == made_up.Summary()
    assert {c.cost.Summary() for c in found if c.backend == NAME} == {text}


def test_a_candidates_module_is_what_would_be_measured(backend):
    mod = parse("def @main(%x: $T) -> $T { nn.relu(%x) }")
    [candidate] = [c for c in collage.candidates(mod, [HOST, backend]) if c.backend == HOST]
    assert_equal(candidate.module(), mod)
    [candidate] = [c for c in collage.candidates(mod, [HOST, backend]) if c.backend == NAME]
    parts = [f for f in candidate.module().functions.values() if "Compiler" in (f.attrs or {})]
    assert len(parts) == 1


def test_options_of_the_pass_context_hold_for_candidates(backend):
    def deepest(depth):
        with tvm.transform.PassContext(config={"relay.collage.tvm_max_depth": depth}):
            found = collage.candidates(parse(DIAMOND), [HOST, backend])
        return max(c.sub_graph.depth for c in found if c.backend == HOST)

    assert (deepest(1), deepest(8)) == (1, 3)


def test_candidates_of_what_is_no_module_are_an_error(backend):
    with pytest.raises(ModuleError, match="got str"):
        collage.candidates("main", [HOST, backend])
    with pytest.raises(collage.UnknownBackendError):
        collage.candidates(parse(DIAMOND), [HOST, "no_such_backend"])
