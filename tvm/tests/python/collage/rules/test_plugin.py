# SPDX-License-Identifier: Apache-2.0
"""A rule written in C++ in a library of a user's own, built with the headers that we install."""

import shutil
import subprocess

import pytest
import tvm
import tvm_collage
from relay_text import HOST, assert_equal, composite_text, parse, part_text, partition
from tvm.relay.collage import rules
from tvm.target import Target

K = "plugin_test"
TEXT = "def @main(%x: $T) -> $T { exp(tanh(nn.relu(%x))) }"

# Every tanh with what feeds it, as a candidate of its own.
SOURCE = """
#include <stdexcept>

#include "rules/combinators.h"
#include "rules/default_rules.h"
#include "rules/rule_registry.h"

using namespace tvm::collage;

class WithItsInput : public PartitionRule {
 public:
  WithItsInput() : PartitionRule("with_its_input") {}
  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    CandidateSet found;
    for (NodeIndex tanh : graph.CallsOf("tanh")) {
      CandidatePartition candidate;
      candidate.sub_graph =
          SubGraph::Make(graph, IndexSet(graph.size(), {graph.Args(tanh)[0], tanh}));
      candidate.spec = spec;
      candidate.rule = name();
      std::string why;
      if (candidate.sub_graph.IsValid(graph, SubGraphConfig(), &why)) {
        found.Add(std::move(candidate));
      } else {
        log->Refuse(name(), candidate.sub_graph.inside(), why);
      }
    }
    return found.Take();
  }
  std::string Summary() const override { return "WithItsInput()"; }
};

static RuleRegistration registration("plugin_test_rule", [] {
  return PrimitiveRule(std::make_shared<WithItsInput>());
});

// As a backend's table would have it.
static RuleRegistration pattern_registration("plugin_test_pattern", [] {
  DataflowPattern relu = pattern::Call("nn.relu", pattern::Patterns{pattern::Wildcard()});
  PatternEntry entry{"k.relu", relu, [](const DataflowGraph& graph, const Match& match) {
                       return graph[match.root].types[0].shape.size() == 2
                                  ? Verdict::Accept()
                                  : Verdict::Refuse("rank 2 only");
                     }};
  return BackendRule({PatternEntryRule(entry)});
});

class Throws : public PartitionRule {
 public:
  Throws() : PartitionRule("throws") {}
  std::vector<CandidatePartition> AllCandidates(const DataflowGraph&, int,
                                                RuleLog*) const override {
    throw std::runtime_error("out of ideas");
  }
  std::string Summary() const override { return "Throws()"; }
};

static RuleRegistration throws("plugin_test_throws", [] {
  return PrimitiveRule(std::make_shared<Throws>());
});
static RuleRegistration null("plugin_test_null", [] { return RulePtr(); });

// Each tanh alone, for the backend after the one that asked.
class WrongSpec : public PartitionRule {
 public:
  WrongSpec() : PartitionRule("wrong_spec") {}
  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog*) const override {
    CandidateSet found;
    for (NodeIndex tanh : graph.CallsOf("tanh")) {
      CandidatePartition candidate;
      candidate.sub_graph = SubGraph::Make(graph, IndexSet(graph.size(), {tanh}));
      candidate.spec = spec + 7;
      candidate.rule = name();
      found.Add(std::move(candidate));
    }
    return found.Take();
  }
  std::string Summary() const override { return "WrongSpec()"; }
};

static RuleRegistration wrong_spec("plugin_test_spec", [] {
  return PrimitiveRule(std::make_shared<WrongSpec>());
});
"""


NAMES = [f"plugin_test_{name}" for name in ("null", "pattern", "rule", "spec", "throws")]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "plugin.cc").write_text(SOURCE)
    library = folder / "libplugin.so"
    include = tvm_collage.include_directory()
    subprocess.run(
        [compiler, "-std=c++17", "-shared", "-fPIC", f"-I{include}", "plugin.cc", "-o", library],
        cwd=folder,
        check=True,
        timeout=240,
    )
    rules.load_plugin(library)
    tvm.get_global_func("collage.RegisterTargetKind")(K, 1)
    return library


def test_a_plugins_rule_is_asked_for_by_name(plugin):
    assert [name for name in rules.registered_rules() if name.startswith("plugin_test")] == NAMES
    assert rules.registered_rule("plugin_test_rule").summary() == "Primitive(WithItsInput())"
    target = Target(f"{K} -partition_rule=plugin_test_rule")
    assert_equal(
        partition(parse(TEXT), [target], {HOST: 100, K: 1}),
        part_text(K, "nn_relu_tanh", "tanh(nn.relu(%p))")
        + f"def @main(%x: $T) -> $T {{ exp(@collage_{K}_nn_relu_tanh(%x)) }}",
    )
    target = Target(f"{K} -partition_rule=plugin_test_pattern")
    assert_equal(
        partition(parse(TEXT), [target], {HOST: 100, K: 1}),
        part_text(K, "nn_relu", composite_text("k.relu", "nn.relu(%q)"))
        + f"def @main(%x: $T) -> $T {{ exp(tanh(@collage_{K}_nn_relu(%x))) }}",
    )
    vector = "def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { nn.relu(%x) }"
    assert_equal(partition(parse(vector), [target], {HOST: 100, K: 1}), vector)
    # They may be parts of rules made in Python, too.
    mine = rules.Union(rules.registered_rule("plugin_test_rule"), rules.OpCallByKind())
    assert mine.summary() == "Union(Primitive(WithItsInput()), OpCallByKind())"


@pytest.mark.parametrize(
    "name, error, message",
    [
        # The tanh reads a variable, and its input is to be a member.
        ("rule", RuntimeError, r"its rule Primitive\(WithItsInput\(\)\) raised %0 = var x cannot"),
        ("throws", RuntimeError, r"its rule Primitive\(Throws\(\)\) raised out of ideas"),
        ("null", ValueError, "what is registered as 'plugin_test_null' made no rule but null"),
    ],
)
def test_what_a_plugin_does_wrongly_is_an_error_that_names_it(plugin, name, error, message):
    target = Target(f"{K} -partition_rule=plugin_test_{name}")
    with pytest.raises(error, match=f"(backend|target) {K}: {message}"):
        partition(parse("def @main(%x: $T) -> $T { exp(tanh(%x)) }"), [target], {HOST: 100, K: 1})


def test_a_plugins_candidate_for_another_backend_is_refused(plugin):
    target = Target(f"{K} -partition_rule=plugin_test_spec")
    assert_equal(partition(parse(TEXT), [target], {HOST: 100, K: 1}), TEXT)


def test_a_plugin_that_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(OSError, match="cannot load the plugin .*nobodys.so: "):
        rules.load_plugin(tmp_path / "nobodys.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(OSError, match="cannot load the plugin .*text.so: "):
        rules.load_plugin(tmp_path / "text.so")
