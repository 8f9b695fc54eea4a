// SPDX-License-Identifier: Apache-2.0
// The ready rules of TVM and of backends on whole networks.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nets_text.h"
#include "rules_text.h"
#include "src/relay/collage/rules/default_rules.h"

namespace tvm::collage::testing {
namespace {

using pattern::Patterns;

const char* const kNet =
    "x:var; w:const; b:const; a=nn.conv2d(x,w)@4; d=add(a,b)@1; e=nn.relu(d);"
    "f=nn.conv2d(e,w)@4; g=nn.relu(f); s=sort(g)@8";

std::vector<RulePtr> Table() {
  auto conv = pattern::Call("nn.conv2d", Patterns{pattern::Wildcard(), pattern::Constant()});
  auto biased = pattern::Optional(conv, pattern::Call("add", Patterns{conv, pattern::Constant()}));
  auto active = pattern::Call("nn.relu", Patterns{biased});
  return {PatternEntryRule({"k.conv_relu", active, {}}), PatternEntryRule({"k.conv", biased, {}})};
}

RuleOptions Style(FusionStyle style, bool regions = false) {
  RuleOptions options;
  options.fusion_style = style;
  options.regions = regions;
  return options;
}

// How many nodes do the candidates of these sizes cover, all kernels being in some?
IndexSet Covered(const DataflowGraph& graph, const std::vector<CandidatePartition>& candidates) {
  IndexSet covered(graph.size());
  for (const auto& candidate : candidates) covered |= candidate.sub_graph.inside();
  return covered;
}

}  // namespace

TEST_CASE("rules of TVM: fused groups and single calls, nothing wrapped") {
  NamedGraph g = G(kNet);
  CHECK(Sets(g, TvmRule()) == "a | d | a d | e | d e | a d e | f | g | f g");
  RuleLog log;
  for (const auto& candidate : TvmRule()->AllCandidates(g.graph, 0, &log)) {
    CHECK_FALSE(candidate.is_primitive);
    CHECK(candidate.sub_graph.nested().empty());
  }
}

TEST_CASE("rules of a backend without nodes: no candidate holds one, and regions end at it") {
  NamedGraph g = G(kNet);
  RuleOptions options = Style(FusionStyle::kNone, true);
  CHECK(Sets(g, BackendRule(Table(), options)).find("a d e f g") != std::string::npos);
  options.left_out = {g["f"]};
  CHECK(Sets(g, BackendRule(Table(), options)) ==
        "a [k.conv] | a d [k.conv] | a d e [k.conv_relu]");
  RuleLog log;
  BackendRule(Table(), options)->AllCandidates(g.graph, 0, &log);
  CHECK(std::any_of(log.refusals.begin(), log.refusals.end(), [&](const auto& refusal) {
    return refusal.inside.Contains(g["f"]) && refusal.reason.find("precision") != std::string::npos;
  }));
  options.left_out = {g["a"], g["f"]};
  CHECK(Sets(g, BackendRule(Table(), options)).empty());
}

TEST_CASE("rules of TVM: regions hold several kernels") {
  RuleOptions options = Style(FusionStyle::kNone, true);
  const std::string sets = Sets(G(kNet), TvmRule(options));
  CHECK(sets.substr(sets.rfind("| ")) == "| a d e f g");
}

TEST_CASE("rules of a pattern backend: each style") {
  NamedGraph g = G(kNet);
  const std::string singles =
      "a [k.conv] | a d [k.conv] | a d e [k.conv_relu] | f [k.conv] | f g [k.conv_relu]";
  CHECK(Sets(g, BackendRule(Table(), Style(FusionStyle::kNone))) == singles);
  CHECK(Sets(g, BackendRule(Table(), Style(FusionStyle::kTvm))) == singles);
  CHECK(Sets(g, BackendRule(Table(), Style(FusionStyle::kArbitrary))) ==
        "a [k.conv] | a d [k.conv] | a d e [k.conv_relu] | f [k.conv] | "
        "a d e f [k.conv_relu] [k.conv] | f g [k.conv_relu] | "
        "a d e f g [k.conv_relu] [k.conv_relu]");
  CHECK(Sets(g, BackendRule(Table(), Style(FusionStyle::kNone, true))) ==
        singles + " | a d e f g [k.conv_relu] [k.conv_relu]");
  CallPredicate takes_relu = [](const DataflowGraph& graph, NodeIndex i) {
    return Verdict{graph[i].name == "nn.relu", "not a relu"};
  };
  // Bare calls stand beside the composites, and in regions where no composite holds them.
  CHECK(Sets(g, BackendRule(Table(), Style(FusionStyle::kNone), takes_relu)) ==
        "a [k.conv] | a d [k.conv] | a d e [k.conv_relu] | e | f [k.conv] | f g [k.conv_relu] | g");
  RuleLog log;
  for (const auto& candidate :
       BackendRule(Table(), Style(FusionStyle::kNone, true))->AllCandidates(g.graph, 2, &log)) {
    CHECK(candidate.is_primitive);
    CHECK(candidate.spec == 2);
  }
}

TEST_CASE("rules of a backend with an op predicate alone: calls and what they make together") {
  CallPredicate takes = [](const DataflowGraph& graph, NodeIndex i) {
    return Verdict{graph[i].name == "nn.conv2d" || graph[i].name == "nn.relu", ""};
  };
  CHECK(Sets(G(kNet), BackendRule({}, Style(FusionStyle::kNone), takes)) == "a | e | f | g");
  CHECK(Sets(G(kNet), BackendRule({}, Style(FusionStyle::kArbitrary), takes)) ==
        "a | e | f | e f | g | f g | e f g");
}

TEST_CASE("rules: on whole nets nothing is cut at depth 8, and a cover exists") {
  for (const std::string& text :
       {InceptionText(10), DenseNetText(20), BertText(3), ResNetText(8)}) {
    NamedGraph g = G(text);
    CAPTURE(g.graph.Summary());
    RuleLog log;
    const auto fused = TvmRule()->AllCandidates(g.graph, 0, &log);
    CHECK(log.CutLines().empty());
    CHECK(fused.size() < 5 * static_cast<size_t>(g.graph.size()));
    auto all = HostRule()->AllCandidates(g.graph, 1, &log);
    CHECK(Covered(g.graph, all) == g.graph.placeable());
    for (const auto& candidate : fused) {
      std::string why;
      if (!candidate.sub_graph.IsValid(g.graph, {8, 1, false}, &why)) FAIL(why);
    }
  }
}

TEST_CASE("rules: the number of candidates grows in proportion to the net") {
  auto count = [](const std::string& text) {
    RuleLog log;
    return TvmRule()->AllCandidates(G(text).graph, 0, &log).size();
  };
  CHECK(count(InceptionText(40)) <= 4 * count(InceptionText(10)) + 100);
  CHECK(count(DenseNetText(80)) <= 4 * count(DenseNetText(20)) + 100);
}

}  // namespace tvm::collage::testing
