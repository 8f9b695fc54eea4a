// SPDX-License-Identifier: Apache-2.0
// Base rules, and combinators that change or filter a sub-rule's candidates.
#include <doctest/doctest.h>

#include <string>

#include "rules_text.h"
#include "src/relay/collage/rules/base_rules.h"
#include "src/relay/collage/rules/combinators.h"

namespace tvm::collage::testing {
namespace {

using pattern::Patterns;

const char* const kNet =
    "x:var; c:const; a=conv(x,c)@4; b=relu(a); t=(a,b); d=concat(t)@2; s=sort(d)@8; f:fn;"
    "g=call(f,s)";

DataflowPattern ConvRelu() {
  return pattern::Call("relu", Patterns{pattern::Call("conv", std::nullopt)});
}

}  // namespace

TEST_CASE("rule OpCallByKind: calls that TVM fuses; no tuple, opaque op or other call") {
  CHECK(Sets(G(kNet), OpCallByKindRule()) == "a | b | d");
}

TEST_CASE("rule OpPredicate: accepted calls; only stated reasons are kept") {
  auto rule = OpPredicateRule("mine", [](const DataflowGraph& graph, NodeIndex i) {
    if (graph[i].name == "conv") return Verdict::Accept();
    return Verdict::Refuse(graph[i].name == "sort" ? "sort is slow" : "");
  });
  RuleLog log;
  CHECK(Sets(G(kNet), rule, &log) == "a");
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == "sort is slow");
}

TEST_CASE("rule Host: every placeable node alone, free unless it launches a kernel") {
  NamedGraph g = G(kNet);
  RuleLog log;
  std::string free;
  std::string priced;
  for (const auto& candidate : HostRule()->AllCandidates(g.graph, 3, &log)) {
    CHECK(candidate.spec == 3);
    (candidate.is_free ? free : priced) += g.Names(candidate.sub_graph.inside()) + " ";
  }
  CHECK(free == "t f ");
  CHECK(priced == "a b d s g ");
}

TEST_CASE("rule Glue: tuples and projections") {
  CHECK(Sets(G("x:var; s=split(x)@2; p=s.0; q=s.1; t=(p,q)"), GlueRule()) == "p | q | t");
}

TEST_CASE("rule DFPattern: matches that are convex, the others with their reason") {
  CHECK(Sets(G(kNet), DFPatternRule("cr", ConvRelu())) == "a b");
  RuleLog log;
  // The tuple reads a through d as well: conv and the outer call alone are not convex.
  NamedGraph g = G("x:var; a=conv(x)@4; d=tanh(a); b=add(a,d)@1");
  auto around =
      pattern::Call("add", Patterns{pattern::Call("conv", std::nullopt), pattern::Wildcard()});
  CHECK(Sets(g, DFPatternRule("around", around), &log).empty());
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == "a path leaves it and comes back");
  CHECK(g.Names(log.refusals[0].inside) == "a b");
}

TEST_CASE("rule DFPattern: the predicate sees the match, and its reason is kept") {
  NamedGraph g = G("x:var; a=conv(x){strides=1}@4; b=relu(a); c=conv(b){strides=3}@4; d=relu(c)");
  auto rule = DFPatternRule("cr", ConvRelu(), [](const DataflowGraph& graph, const Match& match) {
    const NodeIndex conv = graph.Args(match.root)[0];
    if (*graph[conv].FindAttr("strides") == AttrValue(int64_t{1})) return Verdict::Accept();
    return Verdict::Refuse("strides above 2");
  });
  RuleLog log;
  CHECK(Sets(g, rule, &log) == "a b");
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].rule == "cr");
  CHECK(log.refusals[0].reason == "strides above 2");
  CHECK(g.Names(log.refusals[0].inside) == "c d");
}

TEST_CASE("rule DFPattern: wildcard roots give nothing, unsupported patterns their reason") {
  RuleLog log;
  CHECK(Sets(G(kNet), DFPatternRule("any", pattern::Wildcard()), &log).empty());
  CHECK(log.refusals.empty());
  CHECK(Sets(G(kNet), DFPatternRule("odd", pattern::Unsupported("not known")), &log).empty());
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == "not known");
}

TEST_CASE("rule Composite: each sub-candidate is one labelled part") {
  NamedGraph g = G(kNet);
  RuleLog log;
  auto rule = CompositeRule("dnnl.conv_relu", DFPatternRule("dnnl.conv_relu", ConvRelu()));
  auto found = rule->AllCandidates(g.graph, 0, &log);
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].sub_graph.nested().size() == 1);
  CHECK(found[0].sub_graph.nested()[0].composite == "dnnl.conv_relu");
  CHECK(found[0].sub_graph.nested()[0].inside == g.Set("a b"));
  CHECK(found[0].rule == "dnnl.conv_relu");
  CHECK_FALSE(found[0].is_primitive);
}

TEST_CASE("rule Primitive: marks what a compiler gets") {
  RuleLog log;
  NamedGraph g = G(kNet);
  for (const auto& candidate : PrimitiveRule(OpCallByKindRule())->AllCandidates(g.graph, 0, &log)) {
    CHECK(candidate.is_primitive);
  }
}

TEST_CASE("rule Union: all of them, equal ones once") {
  auto conv = DFPatternRule("conv", pattern::Call("conv", std::nullopt));
  CHECK(Sets(G(kNet), UnionRule({conv, OpCallByKindRule(), conv})) == "a | b | d");
}

TEST_CASE("rule OnlyValid: drops what breaks a limit and says which") {
  RuleLog log;
  auto rule = OnlyValidRule({0, 1, false}, DFPatternRule("cr", ConvRelu()));
  CHECK(Sets(G(kNet), rule, &log).empty());  // conv's value also goes into the tuple
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == "2 values are used outside, the limit is 1");
  CHECK(Sets(G("x:var; a=conv(x)@4; b=relu(a)"), rule) == "a b");
}

TEST_CASE("rules: summaries nest") {
  auto rule = PrimitiveRule(OnlyValidRule(
      {4, 1, false}, UnionRule({CompositeRule("k", DFPatternRule("k", ConvRelu()))})));
  CHECK(rule->Summary() ==
        "Primitive(OnlyValid(depth <= 4, exits <= 1, no taps, Union(Composite(k, "
        "DFPattern(relu(conv(..)))))))");
  CHECK(PartitionSpec{"tvm", false, HostRule()}.Summary() == "tvm: Host()");
}

}  // namespace tvm::collage::testing
