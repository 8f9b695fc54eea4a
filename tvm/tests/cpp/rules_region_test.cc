// SPDX-License-Identifier: Apache-2.0
// Region: maximal convex areas, and those without their most expensive parts.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "random_graph.h"
#include "rules_text.h"
#include "src/relay/collage/rules/base_rules.h"
#include "src/relay/collage/rules/combinators.h"
#include "src/relay/collage/rules/merge_parts.h"

namespace tvm::collage::testing {
namespace {

RulePtr Accepts(const std::string& ops) {
  return OpPredicateRule("accepts", [ops](const DataflowGraph& graph, NodeIndex i) {
    return Verdict{(" " + ops + " ").find(" " + graph[i].name + " ") != std::string::npos, ""};
  });
}

RulePtr Regions(RulePtr rule, SubGraphConfig config = {}) {
  return RegionRule(std::move(rule), config, /*keep_parts=*/false);
}

}  // namespace

TEST_CASE("rule Region: everything accepted that hangs together is one area") {
  NamedGraph g =
      G("x:var; a=conv(x)@4; b=relu(a); c=relu(a); d=add(b,c)@1; s=sort(d)@8;"
        "e=conv(s)@4; f=relu(e)");
  CHECK(Sets(g, Regions(Accepts("conv relu add"))) == "a b c d | e f");
  CHECK(Sets(g, RegionRule(Accepts("conv"))) == "a | e");
  CHECK(Sets(g, Regions(Accepts("conv"))).empty());
}

TEST_CASE("rule Region: cut where a path would leave and come back") {
  // s is not accepted: a and d cannot be together.
  NamedGraph g = G("x:var; a=conv(x)@4; s=sort(a)@8; b=relu(a); d=add(s,b)@1; e=relu(d)");
  CHECK(Sets(g, Regions(Accepts("conv relu add"))) == "a b | d e");
}

TEST_CASE("rule Region: parts whose merge needs another merge first") {
  // {a, c} is convex only once b has joined.
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=add(a,b)@1; t=(a,b,c)");
  CHECK(Sets(g, Regions(Accepts("conv relu add"))) == "a b c");
}

TEST_CASE("rule Region: limits refuse with a reason") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=tanh(a); t=(b,c)");
  RuleLog log;
  CHECK(Sets(g, Regions(Accepts("conv relu tanh"))) == "a b c");
  CHECK(Sets(g, Regions(Accepts("conv relu tanh"), {0, 1, true}), &log).empty());
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == "2 values are used outside, the limit is 1");
}

TEST_CASE("rule Region: tuples inside stay, tuples and projections at the border do not") {
  RulePtr parts = UnionRule({Accepts("conv relu split concat"), GlueRule()});
  CHECK(Sets(G("x:var; a=split(x)@2; p=a.0; q=a.1; b=relu(p); t=(b,q); c=concat(t)@2"),
             Regions(parts)) == "a p q b t c");
  CHECK(Sets(G("x:var; p=x.0; a=conv(p)@4; b=relu(a); t=(a,b)"), Regions(parts)) == "a b");
  // A tuple alone does not hold two areas together.
  CHECK(Sets(G("x:var; a=conv(x)@4; b=relu(a); c=conv(x)@4; d=relu(c); t=(b,d)"), Regions(parts)) ==
        "a b | c d");
}

TEST_CASE("rule Region: where parts overlap the larger wins, labels are kept") {
  auto conv = pattern::Call("conv", std::nullopt);
  auto pair = pattern::Call("relu", pattern::Patterns{conv});
  auto rule = Regions(UnionRule({
      CompositeRule("c", DFPatternRule("c", conv)),
      CompositeRule("cr", DFPatternRule("cr", pair)),
  }));
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=conv(b)@4; d=tanh(c)");
  CHECK(Sets(g, rule) == "a b c [cr] [c]");
}

TEST_CASE("rule Region: cut at its most expensive parts, one, then two") {
  // add reads three values of four elements, the others two: b before e, the earlier first.
  NamedGraph g =
      G("x:var; a=relu(x); b=add(a,x)@1; c=relu(b); d=tanh(c); e=add(d,x)@1; f=relu(e); h=relu(f)");
  auto cut = [&](int max_cuts) {
    return Sets(g, RegionRule(Accepts("relu tanh add"), {}, /*keep_parts=*/false, max_cuts));
  };
  const std::string whole = "a b c d e f h";
  CHECK(cut(0) == whole);
  CHECK(cut(1) == whole + " | c d e f h");
  // Without both, a alone is no area.
  CHECK(cut(2) == whole + " | c d e f h | c d | f h");
  // More than there are parts.
  CHECK(cut(99).substr(0, cut(2).size()) == cut(2));
}

TEST_CASE("rule Region: what a cut leaves is convex, a way round it is not kept") {
  // Without b, a way leads from a round to d: they are apart.
  NamedGraph g = G("x:var; a=relu(x); b=add(a,x)@1; c=tanh(a); d=mul(b,c)@0; e=relu(d)");
  RulePtr rule = RegionRule(Accepts("relu tanh add mul"), {}, /*keep_parts=*/false, 1);
  RuleLog log;
  const auto found = rule->AllCandidates(g.graph, 0, &log);
  CHECK(found.size() > 1);
  for (const auto& candidate : found) {
    CHECK(IsConvex(g.graph, candidate.sub_graph.inside()));
  }
}

TEST_CASE("rule Region: scopes of a graph are not crossed") {
  NamedGraph g = G("x:var; a=conv(x)@4#1; b=relu(a)#1; c=relu(b)#0; d=relu(c)#0");
  CHECK(Sets(g, Regions(Accepts("conv relu"))) == "a b | c d");
}

TEST_CASE("rule Region: parts that feed each other both ways are not in one area") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(x); c=tanh(a); d=relu(b); r=add(c,d)@1");
  const SubGraph p = g.Sub("a d").WithComposite("p");
  const SubGraph q = g.Sub("b c").WithComposite("q");
  const SubGraph r = g.Sub("r");
  CHECK(MergeTiles(g.graph, {&p, &q}).size() == 2);
  // Nor can r join one of them: the other lies between.
  CHECK(MergeTiles(g.graph, {&p, &q, &r}).size() == 3);
}

TEST_CASE("rule Region: on random graphs convex, disjoint, and no two can be merged") {
  std::mt19937 random(21);
  int num_large = 0;
  for (int round = 0; round < 300; ++round) {
    RandomGraphOptions options;
    options.num_nodes = 14;
    const std::string text = RandomGraphText(&random, options);
    CAPTURE(text);
    NamedGraph g = G(text);
    RuleLog log;
    const auto parts = OpCallByKindRule()->AllCandidates(g.graph, 0, &log);
    std::vector<const SubGraph*> tiles;
    for (const auto& part : parts) tiles.push_back(&part.sub_graph);
    std::vector<IndexSet> merged;
    IndexSet covered(g.graph.size());
    for (const auto& region : MergeTiles(g.graph, tiles)) {
      IndexSet inside(g.graph.size());
      for (const SubGraph* tile : region) inside |= tile->inside();
      REQUIRE(IsConvex(g.graph, inside));
      REQUIRE(IsConnected(g.graph, inside));
      REQUIRE_FALSE(inside.Intersects(covered));
      covered |= inside;
      num_large += region.size() > 2;
      merged.push_back(inside);
    }
    REQUIRE(covered.Count() == static_cast<int>(parts.size()));
    for (size_t i = 0; i < merged.size(); ++i) {
      for (size_t k = i + 1; k < merged.size(); ++k) {
        const IndexSet both = merged[i] | merged[k];
        const bool could_merge = IsConvex(g.graph, both) && IsConnected(g.graph, both);
        REQUIRE_FALSE(could_merge);
      }
    }
  }
  CHECK(num_large > 100);
}

}  // namespace tvm::collage::testing
