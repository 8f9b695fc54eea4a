# SPDX-License-Identifier: Apache-2.0
"""PartitionForTesting: nodes given by number become one inline function of a compiler."""

import pytest
import tvm
from relay_text import assert_equal, parse
from tvm.relay.transform import CapturePostDfsIndexInSpans

# Nodes: 0 x, 1 add and 2 nn.relu (ops), 3 the relu, 4 exp (op), 5 the exp, 6 the add.
TAPPED = "def @main(%x: $T) -> $T { %0 = nn.relu(%x); add(%0, exp(%0)) }"
RELU, EXP, ADD = 3, 5, 6


def partition(mod, nodes, max_exits=1, allow_taps=False):
    """Run the pass; `nodes` maps labels to lists of nodes."""
    indexes = [index for part in nodes.values() for index in part]
    labels = [label for label, part in nodes.items() for _ in part]
    make = tvm.get_global_func("relay.collage.PartitionForTesting")
    return make(max_exits, allow_taps, "foo", indexes, labels)(mod)


def test_numbers_are_those_that_tvm_prints():
    text = CapturePostDfsIndexInSpans()(parse(TAPPED)).astext(False)
    for name, index in (("nn.relu", RELU), ("exp", EXP), ("add", ADD)):
        [line] = [line for line in text.splitlines() if f"{name}(" in line]
        assert f"span=index:{index}:" in line


def test_nodes_become_one_inline_function_with_composites():
    assert_equal(
        partition(parse(TAPPED), {"": [ADD], "foo.relu_exp": [RELU, EXP]}, max_exits=1),
        """def @main(%x: $T) -> $T {
          %3 = fn (%a: $T, Compiler="foo") -> $T {
            %2 = fn (%b: $T, Composite="foo.relu_exp") -> ($T, $T) {
              %0 = nn.relu(%b);
              (%0, exp(%0))
            };
            %1 = %2(%a);
            add(%1.0, %1.1)
          };
          %3(%x)
        }""",
    )


def test_a_tapped_value_is_a_field_where_taps_are_allowed():
    mod = parse(TAPPED)
    assert_equal(partition(mod, {"": [RELU, EXP]}, max_exits=2), mod)
    assert_equal(
        partition(mod, {"": [RELU, EXP]}, max_exits=2, allow_taps=True),
        """def @main(%x: $T) -> $T {
          %1 = fn (%a: $T, Compiler="foo") -> ($T, $T) { %0 = nn.relu(%a); (%0, exp(%0)) };
          %2 = %1(%x);
          add(%2.0, %2.1)
        }""",
    )


@pytest.mark.parametrize("nodes", [[RELU, ADD], [RELU, EXP]])
def test_what_is_no_valid_sub_graph_leaves_the_module_as_it_was(nodes):
    mod = parse(TAPPED)
    assert_equal(partition(mod, {"": nodes}, max_exits=1, allow_taps=True), mod)


def test_a_node_that_is_not_there_or_cannot_be_placed_is_an_error():
    with pytest.raises(ValueError, match="node 7 is not in the graph of 7 nodes"):
        partition(parse(TAPPED), {"": [7]})
    with pytest.raises(ValueError, match="%2 = op nn.relu cannot be placed"):
        partition(parse(TAPPED), {"": [2]})


def test_our_own_pass_ran():
    runs = tvm.get_global_func("collage.NumPartitionRuns")
    before = runs()
    partition(parse(TAPPED), {"": [RELU]})
    assert runs() == before + 1
