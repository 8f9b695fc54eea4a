# SPDX-License-Identifier: Apache-2.0
"""Parts by hand or at random: what cannot be one is refused, what can gives the same outputs."""

import random

import pytest
import tvm
from placement_nets import edited, net, optimized_once, run_pass
from relay_text import (
    assert_equal,
    assert_same_outputs,
    count_calls,
    make_backend,
    parse,
    undo_partition,
)
from tvm import relay
from tvm.relay.collage import PlacementError, dataflow_graph
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.plans.placement import Composite, PartCost, PlacedPart
from tvm.relay.collage.plans.placement.replay import rewrite
from tvm.relay.op.annotation import on_device

NAME = "parts_test"
COST = PartCost("unknown", None, "")


@pytest.fixture(scope="module", autouse=True)
def backend():
    return make_backend(NAME, [])


def part(nodes, composites=(), is_primitive=True):
    made = tuple(Composite(f"{NAME}.{name}", tuple(inside), {}) for name, inside in composites)
    return PlacedPart(NAME, "test", f"{NAME}()", tuple(nodes), made, is_primitive, COST)


def place(mod, *parts):
    """Rewrite @main with these parts and check that it is the module it was."""
    mod = parse(mod) if isinstance(mod, str) else mod
    result = rewrite(mod, {"main": parts})
    assert_equal(undo_partition(result), mod)
    assert count_calls(result) == count_calls(mod)
    return result


def refused(mod, *parts):
    """The one line that the parts are refused with, without its beginning."""
    mod = parse(mod) if isinstance(mod, str) else mod
    with pytest.raises(PlacementError) as caught:
        rewrite(mod, {"main": parts})
    head = "the placement of function @main: "
    assert caught.value.kind == "parts" and str(caught.value).startswith(head)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(head)


def calls_of(mod, *ops):
    """The nodes that are the first calls of these operators."""
    graph = dataflow_graph(mod["main"])
    return [next(node.index for node in graph if node.op == op) for op in ops]


# %0 feeds both; tanh and exp are independent, add needs both.
DIAMOND = "def @main(%x: $T) -> $T { %0 = nn.relu(%x); add(tanh(%0), exp(%0)) }"


def test_parts_become_functions_and_composites():
    mod = parse(DIAMOND)
    relu, tanh, exp, add = calls_of(mod, "nn.relu", "tanh", "exp", "add")
    result = place(
        mod, part([tanh, exp, add], [("pair", [tanh, add]), ("one", [exp])]), part([relu])
    )
    names = sorted(var.name_hint for var in result.get_global_vars())
    assert names == [f"collage_{NAME}_nn_relu", f"collage_{NAME}_tanh_exp_add", "main"]


def test_composites_may_stand_outside_of_any_function():
    mod = parse(DIAMOND)
    [exp] = calls_of(mod, "exp")
    result = place(mod, part([exp], [("exp", [exp])], is_primitive=False))
    assert [var.name_hint for var in result.get_global_vars()] == ["main"]
    assert f'Composite="{NAME}.exp"' in result.astext(False)


def test_parts_that_overlap():
    mod = parse(DIAMOND)
    relu, tanh = calls_of(mod, "nn.relu", "tanh")
    text = refused(mod, part([relu, tanh]), part([tanh]))
    assert text == f"part 1 ({NAME}) holds node {tanh}, which an earlier part holds"


@pytest.mark.parametrize(
    "nodes, why",
    [
        ([-1], "holds node -1, but the function has nodes 0 to 8"),
        ([9], "holds node 9, but the function has nodes 0 to 8"),
        ([10**12], "holds node 1000000000000, but the function has nodes 0 to 8"),
        ([0], "holds a node that runs nowhere: %0 = var x"),
        ([], "cannot be one: it holds no node"),
    ],
)
def test_what_is_no_part_whatever_the_module(nodes, why):
    assert refused(DIAMOND, part(nodes)) == f"part 0 ({NAME}) {why}"


def test_parts_that_leave_and_come_back():
    mod = parse(DIAMOND)
    relu, tanh, add = calls_of(mod, "nn.relu", "tanh", "add")
    assert refused(mod, part([relu, tanh, add])).endswith(
        "cannot be one: a path leaves it and comes back"
    )


def test_parts_that_wait_for_each_other():
    text = """def @main(%x: $T) -> ($T, $T) {
      %0 = nn.relu(%x);
      %1 = tanh(%x);
      (exp(%1), add(%0, sqrt(%0)))
    }"""
    mod = parse(text.replace("add(%0, sqrt(%0))", "add(tan(%0), sqrt(%0))"))
    relu, tanh, exp, tan = calls_of(mod, "nn.relu", "tanh", "exp", "tan")
    found = refused(mod, part([relu, exp]), part([tanh, tan]))
    assert found == (
        f"part 0 ({NAME}), part 1 ({NAME}) cannot run one after the other: each needs a result of "
        "the next"
    )
    place(mod, part([relu, exp]), part([tanh]))


def test_parts_that_wait_for_each_other_through_a_node_of_the_host():
    mod = parse("def @main(%x: $T) -> ($T, $T) { %0 = tanh(%x); (exp(tan(%0)), sqrt(%x)) }")
    tanh, exp, tan, root = calls_of(mod, "tanh", "exp", "tan", "sqrt")
    place(mod, part([tanh]), part([exp, root]))
    text = "def @main(%x: $T) -> $T { %0 = tanh(%x); add(exp(tan(%0)), sqrt(%0)) }"
    mod = parse(text)
    tanh, exp, root = calls_of(mod, "tanh", "exp", "sqrt")
    found = refused(mod, part([tanh, exp]))
    assert found.endswith("cannot be one: a path leaves it and comes back")
    place(mod, part([exp, root]))


def test_composites_outside_of_their_part_or_overlapping():
    mod = parse(DIAMOND)
    relu, tanh, exp, add = calls_of(mod, "nn.relu", "tanh", "exp", "add")
    why = "cannot be one: its composites overlap or reach outside"
    assert refused(mod, part([tanh], [("x", [exp])])).endswith(why)
    both = part([tanh, exp, add], [("x", [tanh, add]), ("y", [exp, add])])
    assert refused(mod, both).endswith(why)
    broken = part([relu, tanh, exp, add], [("x", [relu, add])])
    assert refused(mod, broken).endswith(
        f"has a composite {NAME}.x that cannot be one: a path leaves it and comes back"
    )


def test_parts_stay_within_their_branch_and_hold_no_control_flow():
    text = "def @main(%c: bool, %x: $T) -> $T { %0 = exp(%x); if (%c) { tanh(%0) } else { %0 } }"
    mod = parse(text)
    exp, tanh = calls_of(mod, "exp", "tanh")
    assert refused(mod, part([exp, tanh])).endswith(
        "cannot be one: it crosses the border of a function or branch"
    )
    [branch] = [node.index for node in dataflow_graph(mod["main"]) if node.name == "If"]
    assert "holds a node that only the host target runs: " in refused(mod, part([branch]))
    place(mod, part([exp]), part([tanh]))


def test_parts_stay_on_the_device_that_the_program_wants():
    def make(device):
        x = relay.var("x", shape=(2, 4))
        wanted = on_device(relay.exp(relay.tanh(x)), device)
        mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(wanted)))
        mod = relay.transform.InferType()(mod)
        return mod, *calls_of(mod, "tanh", "exp", "nn.relu")

    mod, tanh, exp, relu = make(tvm.cuda(0))
    why = "runs on cpu:0 and holds a node that the program wants on cuda:0: "
    assert refused(mod, part([relu]), part([tanh, exp])).startswith(f"part 1 ({NAME}) {why}")
    left = part([exp], [("exp", [exp])], is_primitive=False)
    assert refused(mod, left).startswith(f"part 0 ({NAME}) {why}")
    place(mod, part([relu]), part([tanh, exp], is_primitive=False))  # for the host: not moved
    mod, tanh, exp, relu = make(tvm.cpu(0))
    place(mod, part([relu]), part([tanh, exp]))


def test_rows_for_a_function_that_is_not_there_are_nobodys():
    mod = parse(DIAMOND)
    assert_equal(rewrite(mod, {"other": [part([0])]}), mod)


# A file that was edited by hand.


@pytest.fixture(scope="module")
def result():
    return optimized_once()


@pytest.fixture(scope="module")
def prepared():
    return prepare(*net(), tvm.target.Target("llvm"))


def edited_parts(path, change):
    return edited(path, lambda value: change(value["functions"][0]["parts"]))


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda parts: parts.append(parts[0]), ", which an earlier part holds"),
        (lambda parts: parts[0]["nodes"].append(999), "holds node 999, but the function has"),
        (lambda parts: parts[0]["nodes"].append(0), "holds a node that runs nowhere: %0 = var x"),
        (lambda parts: parts[0].update(nodes=[]), "cannot be one: it holds no node"),
        (lambda parts: parts[0]["composites"][0]["nodes"].append(999), "holds node 999, but"),
    ],
)
def test_a_file_with_parts_that_cannot_be(result, prepared, tmp_path, change, why):
    path = tmp_path / "net.json"
    result.save_placement(path)
    edited_parts(path, change)
    with pytest.raises(PlacementError, match="the placement of function @main: part ") as caught:
        run_pass(prepared, path)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_with_a_part_that_the_host_cannot_be_given(result, prepared, tmp_path):
    path = tmp_path / "net.json"
    result.save_placement(path)
    edited_parts(path, lambda parts: parts[0].update(backend="llvm"))
    with pytest.raises(PlacementError, match="is for backend 'llvm', which is not among") as caught:
        run_pass(prepared, path)
    assert caught.value.kind == "backend"


# Random modules, random parts.

UNARY = (relay.nn.relu, relay.tanh, relay.exp, relay.sigmoid)


def random_module(rng):
    """A dozen nodes over 2x4 tensors: shared values, tuples, splits, several results."""
    values = [relay.var(name, shape=(2, 4)) for name in "xy"]
    params = list(values)
    for _ in range(rng.randint(3, 11)):
        first, second = rng.choice(values[-4:]), rng.choice(values)
        kind = rng.random()
        if kind < 0.45:
            values.append(rng.choice(UNARY)(first))
        elif kind < 0.75:
            values.append(relay.add(first, second))
        elif kind < 0.85:
            values.append(relay.multiply(first, relay.const(rng.choice([0.5, 2.0]))))
        else:
            both = relay.split(relay.concatenate((first, second), axis=0), 2, axis=0)
            values += [both[0], both[1]]
    results = values[-1] if rng.random() < 0.6 else relay.Tuple(values[-2:])
    mod = tvm.IRModule.from_expr(relay.Function(params, results))
    return relay.transform.InferType()(mod)


def random_parts(rng, graph):
    """Disjoint connected sets of nodes, some with composites, not all of which can be parts."""
    free = {node.index for node in graph if node.is_placeable}
    parts = []
    for _ in range(rng.randint(1, 4)):
        if not free:
            break
        grown = {rng.choice(sorted(free))}
        for _ in range(rng.randint(0, 4)):
            near = {
                index
                for node in grown
                for index in (*graph[node].inputs, *graph[node].outputs)
                if index in free and index not in grown
            }
            if near:
                grown.add(rng.choice(sorted(near)))
        free -= grown
        composites = [(f"c{index}", [index]) for index in sorted(grown) if rng.random() < 0.3]
        parts.append(part(sorted(grown), composites))
    return parts


def can_run(graph, parts):
    """Whether the quotient has no cycle, by taking away what nothing waits for."""
    sets = [set(item.nodes) for item in parts]
    held = set().union(*sets)
    sets += [{node.index} for node in graph if node.is_placeable and node.index not in held]
    while sets:
        left = set().union(*sets)
        ready = [
            nodes
            for nodes in sets
            if not any(i in left - nodes for node in nodes for i in graph[node].inputs)
        ]
        if not ready:
            return False
        sets = [nodes for nodes in sets if nodes not in ready]
    return True


def test_random_parts_are_taken_exactly_when_they_can_run():
    rng = random.Random(3)
    counts = {True: 0, False: 0}
    for _ in range(100):
        mod = random_module(rng)
        graph = dataflow_graph(mod["main"])
        parts = random_parts(rng, graph)
        is_sound = can_run(graph, parts)
        counts[is_sound] += 1
        if is_sound:
            place(mod, *parts)
        else:
            refused(mod, *parts)
    assert min(counts.values()) > 10


def test_random_parts_give_the_outputs_of_the_module_before():
    rng = random.Random(4)
    checked = 0
    while checked < 3:
        mod = random_module(rng)
        graph = dataflow_graph(mod["main"])
        parts = random_parts(rng, graph)
        if len(parts) > 1 and can_run(graph, parts):
            assert_same_outputs(mod, place(mod, *parts))
            checked += 1
