// SPDX-License-Identifier: Apache-2.0
// Combine: which unions its combiners build, within which limits.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "rules_text.h"
#include "src/relay/collage/rules/base_rules.h"
#include "src/relay/collage/rules/combinators.h"

namespace tvm::collage::testing {
namespace {

// Unions only, sorted by text; single calls are always there.
std::string Unions(const NamedGraph& g, const RulePtr& rule, RuleLog* log = nullptr) {
  RuleLog unused;
  std::vector<std::string> texts;
  for (const auto& candidate : rule->AllCandidates(g.graph, 0, log != nullptr ? log : &unused)) {
    if (candidate.sub_graph.size() > 1) texts.push_back(g.Names(candidate.sub_graph.inside()));
  }
  std::sort(texts.begin(), texts.end());
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : " | ") + text;
  return all;
}

RulePtr With(std::vector<CombinerPtr> combiners, CombineLimits limits = {}) {
  return CombineRule(OpCallByKindRule(), std::move(combiners), limits);
}

RulePtr Kinds(int upstream, int downstream, CombineLimits limits = {}) {
  return With({ByKindCombiner(static_cast<OpKind>(upstream), static_cast<OpKind>(downstream))},
              limits);
}

CombineLimits Limits(int max_depth, int max_exits, bool allow_taps, int max_candidates = 512) {
  CombineLimits limits;
  limits.max_depth = max_depth;
  limits.max_exits = max_exits;
  limits.allow_taps = allow_taps;
  limits.max_candidates_per_node = max_candidates;
  return limits;
}

}  // namespace

TEST_CASE("combiner OutEWiseFusable->Broadcast: what follows a convolution, not what precedes") {
  CHECK(Unions(G("x:var; b:const; a=conv(x)@4; d=add(a,b)@1; e=relu(d)"), Kinds(4, 1)) ==
        "a d | a d e | d e");
  CHECK(Unions(G("x:var; b=relu(x); a=conv(b)@4"), Kinds(4, 1)).empty());
  CHECK(Unions(G("x:var; a=conv(x)@4; d=conv(a)@4"), Kinds(4, 1)).empty());
  CHECK(Unions(G("x:var; a=conv(x)@4; d=transpose(a)@2"), Kinds(4, 1)).empty());
}

TEST_CASE("combiner Broadcast->CommReduce: what precedes a reduction") {
  CHECK(Unions(G("x:var; a=relu(x); b=sum(a)@3"), Kinds(1, 3)) == "a b");
  CHECK(Unions(G("x:var; a=conv(x)@4; b=sum(a)@3"), Kinds(1, 3)).empty());
  CHECK(Unions(G("x:var; a=sum(x)@3; b=sum(a)@3"), Kinds(1, 3)).empty());
  CHECK(Unions(G("x:var; a=transpose(x)@2; b=sum(a)@3"), Kinds(1, 3)).empty());
}

TEST_CASE("combiner Injective->Injective") {
  CHECK(Unions(G("x:var; a=transpose(x)@2; b=reshape(a)@2; c=relu(b)"), Kinds(2, 2)) ==
        "a b | a b c | b c");
  CHECK(Unions(G("x:var; a=transpose(x)@2; b=sum(a)@3; c=sort(b)@8"), Kinds(2, 2)).empty());
}

TEST_CASE("combiner TupleArg: a tuple goes into the injective call that reads it") {
  const char* const concat = "x:var; a=relu(x); b=tanh(x); t=(a,b); c=concat(t)@2";
  CHECK(Unions(G(concat), With({TupleArgCombiner()})) == "a b t c | a t c | b t c | t c");
  // Never as a result of its own, and not for a call that cannot take it.
  CHECK(Unions(G("x:var; a=relu(x); t=(a,x)"), With({TupleArgCombiner()})).empty());
  CHECK(Unions(G("x:var; a=relu(x); t=(a,x); c=conv(t)@4"), With({TupleArgCombiner()})).empty());
  // A tuple with a second reader stays outside.
  CHECK(Unions(G("x:var; a=relu(x); t=(a,x); c=concat(t)@2; d=stack(t)@2; e=(c,d)"),
               With({TupleArgCombiner()}))
            .empty());
  CHECK(Unions(G("x:var; a=conv(x)@4; t=(a,x); c=concat(t)@2"), With({TupleArgCombiner()})) ==
        "t c");
}

TEST_CASE("combiner TupleProjection: a projection goes onto the call that makes the tuple") {
  CHECK(Unions(G("x:var; a=norm(x)@4; p=a.0"), With({TupleProjectionCombiner()})) == "a p");
  CHECK(Unions(G("x:var; p=x.0; b=relu(p)"), With(TvmCombiners())).empty());
  CHECK(Unions(G("x:var; a=sort(x)@8; p=a.0; b=relu(p)"), With(TvmCombiners())).empty());
  CHECK(Unions(G("x:var; a=split(x)@2; p=a.0; b=relu(p)"), With(TvmCombiners())) == "a p | a p b");
  // Two projections would be two results.
  CHECK(Unions(G("x:var; a=split(x)@2; p=a.0; q=a.1; t=(p,q)"), With(TvmCombiners())).empty());
}

TEST_CASE("combiner JoinAnything: whatever touches, but nothing opaque") {
  NamedGraph g = G("x:var; a=relu(x); b=conv(a)@4; c=conv(b)@4; d=sort(c)@8");
  CHECK(Unions(g, With({JoinAnythingCombiner()})) == "a b | a b c | b c");
}

TEST_CASE("rule Combine: the parts of one union share one exit, diamonds close") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=tanh(a); d=add(b,c)@1");
  CHECK(Unions(g, With(TvmCombiners())) == "a b c d | b c d | b d | c d");
  SUBCASE("a value that is used elsewhere ends a union") {
    NamedGraph h = G("x:var; a=conv(x)@4; b=relu(a); c=tanh(b); t=(b,c)");
    CHECK(Unions(h, With(TvmCombiners())) == "a b");
  }
  SUBCASE("scopes are not crossed") {
    NamedGraph h = G("x:var; a=conv(x)@4#1; b=relu(a)#1; c=tanh(b)#0");
    CHECK(Unions(h, With(TvmCombiners())) == "a b");
  }
}

TEST_CASE("rule Combine: several exits and taps when asked for") {
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a); c=tanh(a); t=(b,c)");
  CHECK(Unions(g, Kinds(4, 1, Limits(0, 0, true))) == "a b | a b c | a c");
  CHECK(Unions(g, Kinds(4, 1, Limits(0, 2, false))) == "a b c");
  CHECK(Unions(g, Kinds(4, 1, Limits(0, 1, false))).empty());
}

TEST_CASE("rule Combine: limits cut and say so") {
  NamedGraph g = G("x:var; a=relu(x); b=relu(a); c=relu(b); d=relu(c)");
  RuleLog log;
  CHECK(Unions(g, With(TvmCombiners(), Limits(2, 1, false)), &log) == "a b | b c | c d");
  CHECK(log.CutLines() == std::vector<std::string>{"rule combine: limit max_depth cut 2"});

  // Few per node: the small ones, and the largest of all.
  RuleLog few;
  NamedGraph wide = G("x:var; a=relu(x); b=tanh(x); c=exp(x); d=max(a,b,c)@1");
  CHECK(Unions(wide, With(TvmCombiners(), Limits(0, 1, false, 2)), &few) == "a b c d | a d");
  CHECK(few.cuts.count({"combine", "max_candidates_per_node"}) == 1);
  RuleLog none;
  Unions(wide, With(TvmCombiners()), &none);
  CHECK(none.CutLines().empty());
}

TEST_CASE("rule Combine: composites keep their labels; what is refused alone is logged") {
  auto conv = CompositeRule("k", DFPatternRule("k", pattern::Call("conv", std::nullopt)));
  NamedGraph g = G("x:var; a=conv(x)@4; b=relu(a)");
  CHECK(Sets(g, CombineRule(UnionRule({conv, OpCallByKindRule()}), TvmCombiners())) ==
        "a [k] | a | b | a b [k] | a b");
  auto pair = pattern::Call("relu", pattern::Patterns{pattern::Call("conv", std::nullopt)});
  auto rule = CompositeRule("cr", DFPatternRule("cr", pair));
  RuleLog log;
  CHECK(Sets(G("x:var; a=conv(x)@4; b=relu(a); t=(a,b)"), CombineRule(rule, {}), &log).empty());
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == "2 values are used outside, the limit is 1");
}

TEST_CASE("rule Combine: of several ways to make a set from composites the one with the fewest") {
  auto relu = pattern::Call("relu", pattern::Patterns{pattern::Wildcard()});
  auto two = pattern::Call("relu", pattern::Patterns{relu});
  auto rule = CombineRule(UnionRule({CompositeRule("one", DFPatternRule("one", relu)),
                                     CompositeRule("two", DFPatternRule("two", two))}),
                          {JoinAnythingCombiner()});
  CHECK(Sets(G("x:var; a=relu(x); b=relu(a); c=relu(b)"), rule) ==
        "a [one] | b [one] | a b [two] | c [one] | b c [two] | a b c [two] [one]");
}

TEST_CASE("rule Combine: composites that feed each other both ways stay apart") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(x); c=tanh(a); d=relu(b); r=add(c,d)@1");
  // Two labelled pairs, each convex: {a, d} feeds {b, c} and is fed by it.
  auto label = [&](const std::string& set, const std::string& name) {
    CandidatePartition candidate;
    candidate.sub_graph = g.Sub(set).WithComposite(name);
    return candidate;
  };
  class Given : public PartitionRule {
   public:
    explicit Given(std::vector<CandidatePartition> given)
        : PartitionRule("given"), given_(std::move(given)) {}
    std::vector<CandidatePartition> AllCandidates(const DataflowGraph&, int,
                                                  RuleLog*) const override {
      return given_;
    }
    std::string Summary() const override { return "Given()"; }

   private:
    std::vector<CandidatePartition> given_;
  };
  auto given = std::make_shared<Given>(
      std::vector<CandidatePartition>{label("a d", "p"), label("b c", "q")});
  CHECK(Unions(g, CombineRule(given, {JoinAnythingCombiner()}, Limits(0, 0, true))) == "a d | b c");
}

TEST_CASE("combiner Constants: never fires, constants are their readers'") {
  NamedGraph g = G("x:var; c:const; a=add(x,c)@1; b=relu(a); d=add(b,c)@1");
  CHECK(Sets(g, CombineRule(OpCallByKindRule(), {ConstantsCombiner()})) == "a | b | d");
  RuleLog log;
  const auto found = OpCallByKindRule()->AllCandidates(g.graph, 0, &log);
  CHECK(g.Names(found[0].sub_graph.constants()) == "c");
  CHECK(g.Names(found[2].sub_graph.constants()) == "c");
}

TEST_CASE("rule Combine: what max_exits cuts is counted, above one exit") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(a); c=exp(a); d=log(a); t=(b,c,d)");
  auto cuts = [&](int max_exits) {
    CombineLimits limits;
    limits.max_exits = max_exits;
    RuleLog log;
    CombineRule(OpCallByKindRule(), {JoinAnythingCombiner()}, limits)
        ->AllCandidates(g.graph, 0, &log);
    return log.CutLines();
  };
  CHECK(cuts(1).empty());
  // a with two readers has three exits, and so has the whole.
  REQUIRE(cuts(2).size() == 1);
  CHECK(cuts(2)[0] == "rule combine: limit max_exits cut 4");
  CHECK(cuts(0).empty());
}

}  // namespace tvm::collage::testing
