// SPDX-License-Identifier: Apache-2.0
// Rules by name, specs, and what is refused of what a rule gives.
#include <doctest/doctest.h>

#include <algorithm>

#include "rules_text.h"
#include "src/relay/collage/rules/base_rules.h"
#include "src/relay/collage/rules/combinators.h"
#include "src/relay/collage/rules/rule_registry.h"

namespace tvm::collage::testing {

TEST_CASE("rule registry: rules by name, the last one of a name, none for an unknown one") {
  CHECK(FindRule("registry_test") == nullptr);
  int num_made = 0;
  RuleRegistration first("registry_test", [&num_made] {
    ++num_made;
    return OpCallByKindRule();
  });
  CHECK(FindRule("registry_test")->Summary() == "OpCallByKind()");
  CHECK(FindRule("registry_test")->Summary() == "OpCallByKind()");
  CHECK(num_made == 2);  // made anew each time
  // A maker may itself look for rules.
  RegisterRule("registry_test_2", [] { return PrimitiveRule(FindRule("registry_test")); });
  CHECK(FindRule("registry_test_2")->Summary() == "Primitive(OpCallByKind())");
  RegisterRule("registry_test", [] { return HostRule(); });
  CHECK(FindRule("registry_test")->Summary() == "Host()");
  const auto names = RegisteredRuleNames();
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::count(names.begin(), names.end(), "registry_test") == 1);
}

TEST_CASE("spec: what is TVM's is never wrapped, what nothing would hand over is refused") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(a)");
  RulePtr calls = OpCallByKindRule();
  auto of = [&](bool is_external, RulePtr rule, RuleLog* log) {
    PartitionSpec spec;
    spec.name = "backend";
    spec.is_external = is_external;
    spec.rule = std::move(rule);
    return spec.AllCandidates(g.graph, 1, log);
  };
  RuleLog log;
  for (const auto& candidate : of(false, PrimitiveRule(calls), &log)) {
    CHECK_FALSE(candidate.is_primitive);
    CHECK(candidate.spec == 1);
  }
  CHECK(of(false, calls, &log).size() == 2);
  CHECK(of(true, PrimitiveRule(calls), &log).size() == 2);
  CHECK(of(true, CompositeRule("k", calls), &log).size() == 2);
  CHECK(log.refusals.empty());
  CHECK(of(true, calls, &log).empty());
  REQUIRE(log.refusals.size() == 2);
  CHECK(log.refusals[0].reason == "neither wrapped for backend (rule Primitive) nor a composite");
}

namespace {

// A user's rule: gives what it was made of, whatever that is.
class Gives : public PartitionRule {
 public:
  explicit Gives(std::vector<CandidatePartition> given)
      : PartitionRule("gives"), given_(std::move(given)) {}
  std::vector<CandidatePartition> AllCandidates(const DataflowGraph&, int,
                                                RuleLog*) const override {
    return given_;
  }
  std::string Summary() const override { return "Gives()"; }

 private:
  std::vector<CandidatePartition> given_;
};

}  // namespace

TEST_CASE("spec: a rule that several others share runs once for each backend") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(a); c=exp(b)");
  int asked = 0;
  RulePtr calls = OpPredicateRule("calls", [&](const DataflowGraph& graph, NodeIndex i) {
    ++asked;
    return graph[i].name == "exp" ? Verdict::Refuse("no exp") : Verdict::Accept();
  });
  RulePtr parts = CompositeRule("k", calls);
  PartitionSpec spec{"backend", true,
                     PrimitiveRule(UnionRule({CombineRule(parts, {JoinAnythingCombiner()}),
                                              RegionRule(parts), parts}))};
  for (int backend : {1, 2}) {
    RuleLog log;
    asked = 0;
    CHECK(spec.AllCandidates(g.graph, backend, &log).size() == 3);
    CHECK(asked == 3);
    CHECK(log.refusals.size() == 1);
    CHECK_FALSE(log.found.has_value());
  }
}

TEST_CASE("spec: what a user's rule gives is checked") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(a); c=exp(b); d=If(x,a,c)");
  NamedGraph other = G("x:var; a=relu(x)");
  CandidatePartition good;
  good.sub_graph = g.Sub("a b");
  good.spec = 1;
  good.rule = "gives";
  good.is_primitive = true;
  auto with = [&](SubGraph sub_graph, int spec = 1) {
    CandidatePartition candidate = good;
    candidate.sub_graph = std::move(sub_graph);
    candidate.spec = spec;
    return candidate;
  };
  auto reasons = [&](std::vector<CandidatePartition> given, bool is_external) {
    PartitionSpec spec{"backend", is_external, std::make_shared<Gives>(std::move(given))};
    RuleLog log;
    std::string text = std::to_string(spec.AllCandidates(g.graph, 1, &log).size());
    for (const auto& refusal : log.refusals) {
      CHECK(refusal.inside.size() == g.graph.size());
      text += "; " + refusal.rule + ": " + refusal.reason;
    }
    return text;
  };
  CHECK(reasons({good}, true) == "1");
  CHECK(reasons({good, with(g.Sub("a"), 7)}, true) ==
        "1; gives: it is for backend 7, the rule was asked by 1");
  CHECK(reasons({good, with(other.Sub("a")), with(SubGraph())}, true) ==
        "1; gives: it is of another graph; gives: it is of another graph");
  CHECK(reasons({good, with(g.Sub("")), with(g.Sub("a c"))}, false) ==
        "1; gives: it holds no node; gives: a path leaves it and comes back");
  CHECK(reasons({good, with(g.Sub("d"))}, true) == std::string("1; gives: ") + kNotDataflow);
  // Where TVM compiles the body nothing becomes a function, unless it is a composite.
  CHECK(reasons({good, with(g.Sub("d"))}, false) == "2");
  CHECK(reasons({good, with(g.Sub("d").WithComposite("k"))}, false) ==
        std::string("1; gives: ") + kNotDataflow);
}

TEST_CASE("rule Composite: control flow cannot be one") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(x); d=If(x,a,b); e=exp(d)");
  RuleLog log;
  CHECK(Sets(g, CompositeRule("k", HostRule()), &log) == "a [k] | b [k] | e [k]");
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == kNotDataflow);
  CHECK(g.Names(log.refusals[0].inside) == "d");
}

TEST_CASE("rule Composite: attributes are part of what it is; a refusal drops the candidate") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(a)");
  AttrsGetter name_of = [](const DataflowGraph& graph, const SubGraph& sub_graph, Attrs* attrs) {
    const std::string& op = graph[sub_graph.inside().Last()].name;
    if (op == "tanh") return Verdict::Refuse("no tanh");
    attrs->emplace_back("op", AttrValue(op));
    return Verdict::Accept();
  };
  RulePtr plain = CompositeRule("k", OpCallByKindRule());
  RuleLog log;
  auto found = CompositeRule("k", OpCallByKindRule(), name_of)->AllCandidates(g.graph, 0, &log);
  REQUIRE(found.size() == 1);
  CHECK(found[0].sub_graph.nested()[0].attrs == Attrs{{"op", AttrValue(std::string("relu"))}});
  REQUIRE(log.refusals.size() == 1);
  CHECK(log.refusals[0].reason == "no tanh");
  // The same nodes and label with and without attributes are two candidates.
  CHECK(Sets(g, UnionRule({plain, CompositeRule("k", OpCallByKindRule(), name_of)})) ==
        "a [k] | b [k] | a [k]");
}

TEST_CASE("candidates: wrapped or not are two") {
  NamedGraph g = G("x:var; a=relu(x)");
  RulePtr composite = CompositeRule("k", OpCallByKindRule());
  CHECK(Sets(g, UnionRule({composite, PrimitiveRule(composite), composite})) == "a [k] | a [k]");
}

}  // namespace tvm::collage::testing
