// SPDX-License-Identifier: Apache-2.0
// Marks (primitive, joinable, free) of candidates: how each rule keeps those of what it is made of.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rules_text.h"
#include "src/relay/collage/rules/base_rules.h"
#include "src/relay/collage/rules/combinators.h"

namespace tvm::collage::testing {
namespace {

const char* const kPair = "x:var; a=relu(x); b=exp(a)";
const char* const kConcat = "x:var; a=relu(x); t=(a,x); c=concat(t)@2";

RulePtr Ops(const std::string& op) { return DFPatternRule(op, pattern::Call(op, std::nullopt)); }

// "a b: primitive joinable free", sorted.
std::string MarksOf(const char* net, const RulePtr& rule) {
  NamedGraph g = G(net);
  RuleLog log;
  std::vector<std::string> lines;
  for (const CandidatePartition& found : rule->AllCandidates(g.graph, 0, &log)) {
    std::string line = g.Names(found.sub_graph.inside()) + ":";
    if (found.is_primitive) line += " primitive";
    if (found.is_joinable) line += " joinable";
    if (found.is_free) line += " free";
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : " | ") + line;
  return text;
}

using Combinator = RulePtr (*)(RulePtr);

RulePtr Combined(RulePtr rule) {
  return CombineRule(std::move(rule), {JoinAnythingCombiner(), TupleArgCombiner()});
}
RulePtr CombinedBothWays(RulePtr rule) {
  CombineLimits limits;
  limits.max_exits = 0;
  limits.allow_taps = true;
  return CombineRule(std::move(rule), {JoinAnythingCombiner(), TupleArgCombiner()}, limits);
}
RulePtr CombinedWhenCut(RulePtr rule) {
  CombineLimits limits;
  limits.max_candidates_per_node = 1;
  return CombineRule(std::move(rule), {JoinAnythingCombiner()}, limits);
}
RulePtr RegionOf(RulePtr rule) { return RegionRule(std::move(rule)); }

// A rule over rules that passes single candidates on.
const Combinator kAll[] = {
    Combined,
    CombinedBothWays,
    CombinedWhenCut,
    RegionOf,
    [](RulePtr rule) { return UnionRule({std::move(rule)}); },
    [](RulePtr rule) { return OnlyValidRule({}, std::move(rule)); },
    [](RulePtr rule) { return CompositeRule("k", std::move(rule)); },
};
// Those that make one of several.
const Combinator kJoining[] = {Combined, CombinedBothWays, CombinedWhenCut, RegionOf};

}  // namespace

TEST_CASE("marks: every combinator leaves those of a candidate that it passes on") {
  for (Combinator combinator : kAll) {
    CHECK(MarksOf("x:var; a=relu(x)", combinator(Ops("relu"))) == "a:");
    CHECK(MarksOf("x:var; a=relu(x)", combinator(PrimitiveRule(Ops("relu")))) == "a: primitive");
    CHECK(MarksOf("x:var; a=relu(x)", combinator(JoinableRule(Ops("relu")))) == "a: joinable");
    CHECK(MarksOf("x:var; y:var; t=(x,y)", combinator(JoinableRule(GlueRule()))) == "t: joinable");
  }
  CHECK(MarksOf("x:var; y:var; t=(x,y)", PrimitiveRule(JoinableRule(HostRule()))) ==
        "t: primitive joinable free");
}

TEST_CASE("marks: what is made of equally marked parts is marked so too") {
  RulePtr both = UnionRule({Ops("relu"), Ops("exp")});
  for (Combinator join : kJoining) {
    CHECK(MarksOf(kPair, join(both)) == "a b: | a: | b:");
    CHECK(MarksOf(kPair, join(JoinableRule(both))) == "a b: joinable | a: joinable | b: joinable");
    CHECK(MarksOf(kPair, join(PrimitiveRule(both))) ==
          "a b: primitive | a: primitive | b: primitive");
    CHECK(MarksOf(kPair, JoinableRule(join(both))) == "a b: joinable | a: joinable | b: joinable");
  }
}

TEST_CASE("marks: one primitive part makes the whole primitive, whichever side it is on") {
  for (Combinator join : kJoining) {
    CHECK(MarksOf(kPair, join(UnionRule({PrimitiveRule(Ops("relu")), Ops("exp")}))) ==
          "a b: primitive | a: primitive | b:");
    CHECK(MarksOf(kPair, join(UnionRule({Ops("relu"), PrimitiveRule(Ops("exp"))}))) ==
          "a b: primitive | a: | b: primitive");
    CHECK(MarksOf(kPair, join(UnionRule({PrimitiveRule(Ops("exp")), Ops("relu")}))) ==
          "a b: primitive | a: | b: primitive");
  }
}

TEST_CASE("marks: one part that may not be joined, or costs, holds for the whole") {
  for (Combinator join : kJoining) {
    CHECK(MarksOf(kPair, join(UnionRule({JoinableRule(Ops("relu")), Ops("exp")}))) ==
          "a b: | a: joinable | b:");
    CHECK(MarksOf(kPair, join(UnionRule({Ops("relu"), JoinableRule(Ops("exp"))}))) ==
          "a b: | a: | b: joinable");
  }
  // The projection is the host's for nothing, the tuple's maker is not; tuples alone stay free.
  const char* const chain = "x:var; y:var; a=relu(y); t=(x,y); p=t.0; b=exp(p)";
  const std::string found = MarksOf(chain, CombinedBothWays(HostRule()));
  CHECK(found.find("t p: free") != std::string::npos);
  CHECK(found.find("t p b:") != std::string::npos);
  CHECK(found.find("t p b: free") == std::string::npos);
}

TEST_CASE("marks: tuples that hold a candidate together have no say") {
  RulePtr joinable = JoinableRule(UnionRule({Ops("relu"), Ops("concat")}));
  CHECK(MarksOf(kConcat, Combined(joinable)).find("a t c: joinable") != std::string::npos);
  for (const RulePtr& glued :
       {UnionRule({joinable, GlueRule()}), UnionRule({GlueRule(), joinable})}) {
    CHECK(MarksOf(kConcat, RegionOf(glued)).find("a t c: joinable") != std::string::npos);
    CHECK(MarksOf(kConcat, Combined(glued)).find("a t c: joinable") != std::string::npos);
  }
  CHECK(MarksOf(kConcat, RegionOf(UnionRule(
                             {PrimitiveRule(UnionRule({Ops("relu"), Ops("concat")})), GlueRule()})))
            .find("a t c: primitive") != std::string::npos);
}

TEST_CASE("marks: the same nodes found twice, wrapped apart, else joinable when either is") {
  RulePtr relu = Ops("relu");
  const char* const one = "x:var; a=relu(x)";
  for (const RulePtr& rule :
       {UnionRule({relu, JoinableRule(relu)}), UnionRule({JoinableRule(relu), relu})}) {
    CHECK(MarksOf(one, rule) == "a: joinable");
    for (Combinator join : kJoining) CHECK(MarksOf(one, join(rule)) == "a: joinable");
  }
  for (const RulePtr& rule :
       {UnionRule({relu, PrimitiveRule(relu)}), UnionRule({PrimitiveRule(relu), relu})}) {
    CHECK(MarksOf(one, rule) == "a: | a: primitive");
    for (Combinator join : kJoining) CHECK(MarksOf(one, join(rule)) == "a: | a: primitive");
  }
  // Of the same number of parts, too: one making of {a, b} is joinable, the other is not.
  RulePtr ways = UnionRule({relu, JoinableRule(relu), JoinableRule(Ops("exp"))});
  CHECK(MarksOf(kPair, Combined(ways)) == "a b: joinable | a: joinable | b: joinable");
}

}  // namespace tvm::collage::testing
