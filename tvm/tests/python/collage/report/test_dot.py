# SPDX-License-Identifier: Apache-2.0
"""The picture of a placement: nodes, edges and colours of modules given as text."""

import re
import shutil
import subprocess

import pytest
import tvm
from tvm import relay
from tvm.relay.collage.report import to_dot
from tvm.relay.collage.report.looks import looks_of

LOOKS = looks_of(["alpha", "beta"], {})

TWO_BACKENDS = """
#[version = "0.0.5"]
def @main(%data: Tensor[(4), float32]) {
  %0 = (%data, %data);
  %1 = concatenate(%0);
  %2 = @part_b(%1);
  %3 = split(%2, indices_or_sections=2i64);
  %4 = @part_a(%3.1);
  add(%4, 1f)
}
def @part_a(%x: Tensor[(4), float32], Compiler="alpha", Primitive=1,
           global_symbol="part_a") -> Tensor[(4), float32] {
  nn.relu(%x)
}
def @part_b(%x: Tensor[(8), float32], Compiler="beta", Primitive=1,
           global_symbol="part_b") -> Tensor[(8), float32] {
  exp(negative(%x))
}
"""


def drawn(mod, host="tvm"):
    """Fill colours by label, and edges between labels, in the order of the text."""
    text = to_dot(mod, host, LOOKS)
    nodes = re.findall(r'^ *(\w+) \[label="([^"]*)".*fillcolor=([^\]]+)\]$', text, re.MULTILINE)
    names = {node: label for node, label, _ in nodes}
    edges = re.findall(r"^ *(\w+) -> (\w+)$", text, re.MULTILINE)
    assert len(names) == len(nodes), "a number is used twice"
    return {label: colour for _, label, colour in nodes}, [(names[a], names[b]) for a, b in edges]


def test_parts_and_operators_with_edges_through_tuples():
    colours, edges = drawn(relay.fromtext(TWO_BACKENDS))
    assert edges == [
        ("data", r"tvm\nconcatenate"),  # once, though it is taken twice
        (r"tvm\nconcatenate", r"beta\nnegative, exp"),
        (r"beta\nnegative, exp", r"tvm\nsplit"),
        (r"tvm\nsplit", r"alpha\nnn.relu"),
        (r"alpha\nnn.relu", r"tvm\nadd"),
        (r"tvm\nadd", "output"),
    ]
    assert colours[r"alpha\nnn.relu"] != colours[r"beta\nnegative, exp"]
    assert colours[r"tvm\nadd"] == colours[r"tvm\nsplit"] != colours["data"]
    assert len(colours) == 7, "constants, or functions of parts, are drawn"


def test_lets_and_branches():
    mod = relay.fromtext(
        """
        #[version = "0.0.5"]
        def @main(%c: bool, %data: Tensor[(4), float32]) {
          let %a = nn.relu(%data);
          if (%c) { exp(%a) } else { %a }
        }
        """
    )
    _, edges = drawn(mod)
    assert set(edges) == {
        ("data", r"tvm\nnn.relu"),
        (r"tvm\nnn.relu", r"tvm\nexp"),
        ("c", "If"),
        (r"tvm\nexp", "If"),
        (r"tvm\nnn.relu", "If"),
        ("If", "output"),
    }


def test_other_functions_are_clusters_of_their_own():
    mod = relay.fromtext(
        """
        #[version = "0.0.5"]
        def @main(%data: Tensor[(4), float32]) { @helper(%data) }
        def @helper(%data: Tensor[(4), float32]) -> Tensor[(4), float32] { nn.relu(%data) }
        """
    )
    text = to_dot(mod, "tvm", LOOKS)
    assert text.index('"cluster_main"') < text.index('"cluster_helper"')
    assert 'label="call of helper"' in text


def test_an_identity_draws_its_input_into_the_output():
    mod = relay.fromtext('#[version = "0.0.5"]\ndef @main(%data: Tensor[(4), float32]) { %data }')
    assert drawn(mod)[1] == [("data", "output")]


def test_a_quote_in_a_name_is_escaped():
    data = relay.var('a"b\\', shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(data)))
    assert r'label="a\"b\\"' in to_dot(mod, "tvm", LOOKS)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_takes_it():
    text = to_dot(relay.fromtext(TWO_BACKENDS), "tvm", LOOKS)
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True)
    assert "alpha" in done.stdout
