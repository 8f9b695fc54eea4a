// SPDX-License-Identifier: Apache-2.0
// Plan: candidates -> costs -> search -> placed parts, with backends that answer from a table.
#include "src/relay/collage/plan/plan.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "graph_text.h"
#include "src/relay/collage/plan/reasons.h"
#include "src/relay/collage/plan/replan.h"
#include "src/relay/collage/rules/base_rules.h"

namespace tvm::collage::testing {
namespace {

// Finds these sub-graphs, given as "a b | c".
class Finds : public PartitionRule {
 public:
  Finds(const NamedGraph& g, const std::string& text) : PartitionRule("finds") {
    std::istringstream stream(text);
    for (std::string names; std::getline(stream, names, '|');) subs_.push_back(g.Sub(names));
  }
  std::vector<CandidatePartition> AllCandidates(const DataflowGraph&, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    for (const SubGraph& sub : subs_) {
      CandidatePartition candidate;
      candidate.sub_graph = sub;
      candidate.spec = spec;
      candidate.rule = name();
      candidate.is_primitive = candidate.is_joinable = true;
      result.push_back(std::move(candidate));
    }
    return result;
  }
  std::string Summary() const override { return "Finds()"; }

 private:
  std::vector<SubGraph> subs_;
};

// "mine" and "tvm", which find these sub-graphs, and the host.
std::vector<PartitionSpec> Specs(const NamedGraph& g, const std::string& mine,
                                 const std::string& tvm) {
  return {{"mine", true, std::make_shared<Finds>(g, mine)},
          {"tvm", false, std::make_shared<Finds>(g, tvm)},
          {"host", false, HostRule()}};
}

class TableBackends final : public Backends {
 public:
  // By "backend: a b"; a candidate without a row fails.
  using Table = std::map<std::string, double>;
  TableBackends(const NamedGraph& g, std::vector<PartitionSpec> specs, Table table)
      : Backends(std::move(specs)), g_(g), table_(std::move(table)) {}

  Signatures SignaturesOf(const DataflowGraph& graph) const final {
    return Signatures(graph, [](NodeIndex) { return std::string(); });
  }
  std::vector<EstimatedCost> Price(const DataflowGraph&,
                                   const std::vector<CostQuestion>& questions) const final {
    std::vector<EstimatedCost> answers;
    for (const CostQuestion& question : questions) {
      const std::string key =
          SpecOf(question.candidate).name + ": " + g_.Names(question.candidate.sub_graph.inside());
      asked.push_back(key);
      auto row = table_.find(key);
      answers.push_back(row == table_.end() ? EstimatedCost{"compile_failed", 0, "not in the table"}
                                            : EstimatedCost{"measured", row->second, ""});
    }
    return answers;
  }
  std::vector<double> LeastSeconds(const DataflowGraph&,
                                   const std::vector<CostQuestion>& questions) const final {
    if (bounds.empty()) return {};
    std::vector<double> answers;
    for (const CostQuestion& question : questions) {
      const CandidatePartition& candidate = question.candidate;
      auto row =
          bounds.find(SpecOf(candidate).name + ": " + g_.Names(candidate.sub_graph.inside()));
      answers.push_back(row == bounds.end() ? 0.0 : row->second);
    }
    return answers;
  }
  Foresight Foresee(const DataflowGraph&, const std::vector<CostQuestion>& questions,
                    bool sharply) const final {
    was_asked_sharply |= sharply;
    Foresight foresight;
    foresight.is_rough = is_rough && !sharply;
    foresight.asking_seconds = asking_seconds;
    foresight.rival_seconds = rival_seconds;
    foresight.is_final = is_final;
    for (const CostQuestion& question : questions) {
      if (foreseen.empty()) break;
      const std::string nodes = g_.Names(question.candidate.sub_graph.inside());
      auto row = foreseen.find(SpecOf(question.candidate).name + ": " + nodes);
      foresight.likely.push_back(row == foreseen.end() ? 0.0 : row->second);
      if (sharply) foresight.likely.back() *= sharper;
      foresight.least.push_back(foresight.likely.back() * least_share);
    }
    return foresight;
  }
  bool ArePricesCheap() const final { return are_cheap; }
  bool HasTransitions() const final { return !rewritten.empty(); }
  LayoutRole RoleOf(NodeIndex call) const final {
    return rewritten.count(call) > 0 ? LayoutRole::kRewritten : LayoutRole::kPlain;
  }
  std::vector<double> TransitionSeconds(const std::vector<NodeIndex>& values) const final {
    return std::vector<double>(values.size(), 1.0);
  }
  double SecondsWaited() const final { return 0; }

  mutable std::vector<std::string> asked;
  bool are_cheap = false;
  Table bounds;
  Table foreseen;
  double least_share = 1;  // of what is foreseen
  bool is_rough = false;
  double asking_seconds = 0;
  double sharper = 1;  // so many times what is foreseen, asked sharply
  mutable bool was_asked_sharply = false;
  bool is_final = false;
  double rival_seconds = 0;
  std::set<NodeIndex> rewritten;

 private:
  const NamedGraph& g_;
  const Table table_;
};

FunctionPlan PlanOf(const NamedGraph& g, const Backends& backends, bool is_over = false) {
  PhaseClock clock;
  return Plan(g.graph, backends, [=] { return is_over; }, &clock);
}

// "mine(a b) tvm(c)" in the order of execution.
std::string Text(const NamedGraph& g, const Backends& backends, const FunctionPlan& plan) {
  std::string text;
  for (const PlannedPart& part : plan.parts) {
    text += (text.empty() ? "" : " ") + backends.SpecOf(part.candidate).name + "(" +
            g.Names(part.candidate.sub_graph.inside()) + ")";
  }
  return text;
}

// The same graph over images, so that layouts matter.
NamedGraph Images(NamedGraph g) {
  DataflowGraph images;
  for (NodeIndex i = 0; i < g.graph.size(); ++i) {
    Node node = g.graph[i];
    node.types = {{{1, 8, 4, 4}, "float32"}};
    node.outputs.clear();
    images.Append(std::move(node));
  }
  images.Finish(g.graph.result());
  g.graph = std::move(images);
  return g;
}

const char* const kChain = "x:var; a=conv(x)@4; b=relu(a); c=tanh(b)";

}  // namespace

TEST_CASE("plan: the cheapest cover, its costs and its bound") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(
      g, Specs(g, "a | a b", "a | b | c"),
      {{"mine: a", 5}, {"mine: a b", 6}, {"tvm: a", 4}, {"tvm: b", 3}, {"tvm: c", 2}});
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "mine(a b) tvm(c)");
  CHECK(plan.seconds == 8);
  CHECK(plan.is_optimal);
  CHECK(plan.lower_bound_seconds == 8);
  CHECK(plan.cost_counts.candidates == 5);
  CHECK(plan.cost_counts.asked == static_cast<int>(backends.asked.size()));
  CHECK(plan.failed.empty());
}

TEST_CASE("plan: equal candidates are asked for once") {
  const NamedGraph g = G("x:var; a=relu(x); b=relu(a)");
  TableBackends backends(g, Specs(g, "a", "a | b"), {{"tvm: a", 1}, {"mine: a", 2}});
  backends.are_cheap = true;
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "tvm(a) tvm(b)");
  CHECK(plan.cost_counts.candidates == 3);
  CHECK(plan.cost_counts.distinct == 2);
  CHECK(plan.cost_counts.rounds == 1);
  CHECK(backends.asked.size() == 2);
}

TEST_CASE("plan: what failed is told, and a kernel without a cost is left to the host") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(g, Specs(g, "a", "a | b | c"), {{"tvm: a", 4}, {"tvm: c", 2}});
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "tvm(a) host(b) tvm(c)");
  REQUIRE(plan.failed.size() == 2);
  CHECK(plan.failed[0].cost.Summary() == "compile_failed: not in the table");
  CHECK(plan.parts[1].cost.message.find("left to the host target") != std::string::npos);
  const int mine = 0;
  std::map<NodeIndex, std::string> why;  // that each is not on `mine`
  for (const Reason& reason : ReasonsAgainst(g.graph, backends.specs(), plan)) {
    if (reason.spec != mine) continue;
    for (const NodeIndex node : reason.nodes) why[node] = reason.why;
  }
  CHECK(why == std::map<NodeIndex, std::string>{
                   {g["a"], "compile_failed"}, {g["b"], "no_pattern"}, {g["c"], "no_pattern"}});
}

TEST_CASE("plan: where candidates feed each other the host gets as few kernels as can be") {
  const NamedGraph g =
      G("x:var; y:var; a=relu(x); b=tanh(y); c=abs(a); d=exp(b); e=sigmoid(c); r=tuple(d,e)");
  const TableBackends backends(g, Specs(g, "a d | b e", "a | b | c | d | e"),
                               {{"mine: a d", 2}, {"mine: b e", 3}, {"tvm: c", 1}});
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "host(b) mine(a d) tvm(c) host(e) host(r)");
  CHECK(plan.seconds == 3);
  CHECK(plan.lower_bound_seconds == 3);
  CHECK(plan.is_optimal);
}

TEST_CASE("plan: what cannot be cheaper than the plan by its bound is not asked for") {
  const NamedGraph g = G(kChain);
  TableBackends backends(
      g, Specs(g, "a | a b", "b | a b | c"),
      {{"mine: a", 9}, {"mine: a b", 6}, {"tvm: b", 1}, {"tvm: a b", 9}, {"tvm: c", 2}});
  const FunctionPlan without = PlanOf(g, backends);
  CHECK(without.cost_counts.asked == without.cost_counts.distinct);
  backends.asked.clear();
  backends.bounds = {{"tvm: a b", 7}, {"mine: a", 6.5}, {"tvm: c", 1}};
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "mine(a b) tvm(c)");
  CHECK(plan.is_optimal);
  CHECK(backends.asked == std::vector<std::string>{"tvm: c", "mine: a b"});
  CHECK(plan.search.bounds_broken == 0);
}

TEST_CASE("plan: a cost below its bound is told, and no bound is used any more") {
  const NamedGraph g = G(kChain);
  TableBackends backends(g, Specs(g, "a | a b", "a b | c"),
                         {{"mine: a b", 6}, {"tvm: a b", 5}, {"tvm: c", 2}});
  backends.bounds = {{"tvm: a b", 7}, {"tvm: c", 4}};  // both are wrong
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "tvm(a b) tvm(c)");
  CHECK(plan.is_optimal);
  CHECK(plan.search.bounds_broken == 2);
  CHECK(plan.furthest_below_bound == "; furthest: tvm(tanh): measured 2 s, its bound 4 s");
}

TEST_CASE("plan: of foreseen costs one that a cost is below says nothing of the others") {
  const NamedGraph g = G(kChain);
  TableBackends backends(g, Specs(g, "a | a b", "a b | b | c"),
                         {{"mine: a b", 6}, {"mine: a", 1}, {"tvm: a b", 5}, {"tvm: c", 2}});
  backends.foreseen = {{"tvm: c", 4}, {"mine: a b", 6}, {"mine: a", 4}, {"tvm: b", 9}};
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "tvm(a b) tvm(c)");
  CHECK(plan.num_below_bound == 1);
  const std::set<std::string> asked(backends.asked.begin(), backends.asked.end());
  CHECK(asked == std::set<std::string>{"tvm: a b", "tvm: c"});
  CHECK_FALSE(plan.is_optimal);  // nobody proved the bounds
}

TEST_CASE("plan: the search ends when no plan can be faster than the rival by what is worth it") {
  const NamedGraph g = G(kChain);
  TableBackends backends(g, Specs(g, "a | a b", "a b | b | c"),
                         {{"mine: a b", 6}, {"tvm: a b", 5}, {"tvm: c", 2}});
  backends.foreseen = {{"tvm: c", 1}, {"mine: a b", 6}, {"tvm: a b", 5}, {"mine: a", 6}};
  SUBCASE("at once, when the bounds alone say so") {
    backends.rival_seconds = 6.1;
    const FunctionPlan plan = PlanOf(g, backends);
    CHECK(plan.is_beaten);
    CHECK(backends.asked.empty());
    CHECK(Text(g, backends, plan) == "tvm(a b) tvm(c)");
    CHECK(plan.lower_bound_seconds == 6);
    CHECK(plan.parts[0].cost.Summary().find("estimated 5 s") == 0);
    CHECK(plan.rival_seconds == 6.1);
    backends.least_share = 0.5;  // what can be at most is less than what is likely
    CHECK(PlanOf(g, backends).lower_bound_seconds == 3);
    CHECK_FALSE(plan.is_optimal);
  }
  SUBCASE("after some costs, when these say so") {
    backends.foreseen["tvm: a b"] = 1;
    backends.foreseen["mine: a b"] = 4.5;
    backends.rival_seconds = 6.1;
    const FunctionPlan plan = PlanOf(g, backends);
    CHECK(plan.is_beaten);
    CHECK_FALSE(backends.asked.empty());
    CHECK(plan.lower_bound_seconds > 0.98 * 6.1);
  }
  SUBCASE("not while one may be faster by more") {
    backends.rival_seconds = 8;
    const FunctionPlan plan = PlanOf(g, backends);
    CHECK_FALSE(plan.is_beaten);
    CHECK(Text(g, backends, plan) == "tvm(a b) tvm(c)");
    CHECK(plan.seconds == 7);
  }
}

TEST_CASE("plan: of many costs those that are foreseen to be the highest are asked for first") {
  std::string text = "x:var", each;
  TableBackends::Table costs;
  for (int k = 0; k < 30; ++k) {
    const std::string name = "n" + std::to_string(k);
    const std::string before = k > 0 ? "n" + std::to_string(k - 1) : "x";
    text += "; " + name + "=op" + std::to_string(k) + "(" + before + ")";
    each += (k > 0 ? " | " : "") + name;
    costs["tvm: " + name] = 1 + k;
  }
  const NamedGraph g = G(text);
  TableBackends backends(g, Specs(g, "", each), costs);
  backends.foreseen = costs;
  SUBCASE("and the others where these may be part of a plan that wins") {
    const FunctionPlan plan = PlanOf(g, backends);
    CHECK(plan.cost_counts.rounds > 1);
    CHECK(backends.asked.size() == 30);
    CHECK(plan.seconds == 30 * 31 / 2);
    for (size_t k = 1; k < 16; ++k) {
      CHECK(costs[backends.asked[k]] < costs[backends.asked[k - 1]]);
    }
  }
  SUBCASE("and the others not at all where these show that none wins") {
    backends.foreseen["tvm: n20"] = 14;
    backends.rival_seconds = 470;
    const FunctionPlan plan = PlanOf(g, backends);
    CHECK(plan.is_beaten);
    CHECK(plan.cost_counts.rounds == 1);
    CHECK(backends.asked.size() == 16);
  }
}

TEST_CASE("plan: what costs of a backend show raises what is likely of its others of that size") {
  // 40 operators, each by either backend, one of which is twice as slow as it is foreseen to be.
  constexpr int kCount = 40;
  std::string text = "x:var", each;
  TableBackends::Table costs, foreseen;
  double of_tvm = 0;
  const auto add = [&](int k, double mine, double tvm) {
    const std::string name = "n" + std::to_string(k);
    foreseen["mine: " + name] = mine;
    costs["mine: " + name] = 2 * mine;
    costs["tvm: " + name] = foreseen["tvm: " + name] = tvm;
    of_tvm += tvm;
  };
  for (int k = 0; k < kCount; ++k) {
    const std::string before = k > 0 ? "n" + std::to_string(k - 1) : "x";
    text += "; n" + std::to_string(k) + "=op" + std::to_string(k) + "(" + before + ")";
    each += (k > 0 ? " | n" : "n") + std::to_string(k);
    add(k, 16.5 + k / 10.0, 21 + k / 10.0);
  }
  const NamedGraph g = G(text);
  SUBCASE("so that the search ends sooner") {
    TableBackends backends(g, Specs(g, each, each), costs);
    backends.foreseen = foreseen;
    backends.least_share = 0.5;
    backends.rival_seconds = of_tvm;
    const FunctionPlan plan = PlanOf(g, backends);
    CHECK(plan.is_beaten);
    CHECK(plan.cost_counts.asked == 16);
    double of_parts = 0;
    for (const PlannedPart& part : plan.parts) of_parts += part.cost.seconds;
    CHECK(of_parts == doctest::Approx(plan.seconds));
    // What may be gained at most is told by what is hardly ever, which nothing raises.
    CHECK(plan.lower_bound_seconds < 0.9 * of_tvm);
  }
  SUBCASE("and are lowered again when others show less") {
    // The first are twice as slow, all others as foreseen.
    for (int k = 8; k < kCount; ++k) {
      const std::string name = "mine: n" + std::to_string(k);
      costs[name] = foreseen[name];
    }
    TableBackends backends(g, Specs(g, each, each), costs);
    backends.foreseen = foreseen;
    CHECK(PlanOf(g, backends).seconds < of_tvm - 32 * 4);
  }
  SUBCASE("and nothing of those of another size") {
    for (int k = 0; k < 12; ++k) add(k, 4.1, 6);
    TableBackends backends(g, Specs(g, each, each), costs);
    backends.foreseen = foreseen;
    backends.rival_seconds = of_tvm;
    CHECK(PlanOf(g, backends).cost_counts.asked > 16);
  }
}

TEST_CASE("plan: a part takes hardly less than what is inside it on its backend") {
  const NamedGraph g = G(kChain);
  TableBackends backends(
      g, Specs(g, "b | a b", "a | b | c"),
      {{"mine: b", 5}, {"mine: a b", 5.5}, {"tvm: a", 1}, {"tvm: b", 3}, {"tvm: c", 2}});
  backends.foreseen = {
      {"mine: b", 1.5}, {"mine: a b", 3.5}, {"tvm: a", 1}, {"tvm: b", 3}, {"tvm: c", 2}};
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(plan.seconds == 6);
  const std::set<std::string> asked(backends.asked.begin(), backends.asked.end());
  CHECK(asked.count("mine: b") == 1);
  CHECK(asked.count("mine: a b") == 0);  // with its b it takes 4.5 at least
}

TEST_CASE("plan: a rough foresight that decides nothing is asked for sharply") {
  const NamedGraph g = G(kChain);
  TableBackends backends(g, Specs(g, "a | a b", "a b | b | c"),
                         {{"mine: a b", 6}, {"tvm: a b", 5}, {"tvm: c", 2}});
  backends.foreseen = {{"tvm: c", 1}, {"mine: a b", 6}, {"tvm: a b", 5}, {"mine: a", 6}};
  backends.is_rough = true;
  SUBCASE("never where it shows that no plan wins") {
    backends.rival_seconds = 6.1;
    CHECK(PlanOf(g, backends).is_beaten);
    CHECK_FALSE(backends.was_asked_sharply);
  }
  SUBCASE("which may show it") {
    backends.rival_seconds = 8;
    backends.sharper = 1.5;
    CHECK(PlanOf(g, backends).is_beaten);
    CHECK(backends.asked.empty());
    CHECK(backends.was_asked_sharply);
  }
  SUBCASE("and else costs are asked for") {
    backends.rival_seconds = 8;
    CHECK(PlanOf(g, backends).seconds == 7);
    CHECK(backends.was_asked_sharply);
  }
}

TEST_CASE("plan: where what is foreseen is final no cost is asked for") {
  const NamedGraph g = G(kChain);
  TableBackends backends(g, Specs(g, "a | a b", "a b | b | c"), {});
  backends.foreseen = {{"tvm: c", 1}, {"mine: a b", 4}, {"tvm: a b", 5}, {"mine: a", 6}};
  backends.is_final = true;
  backends.rival_seconds = 9;
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(backends.asked.empty());
  CHECK(Text(g, backends, plan) == "mine(a b) tvm(c)");
  CHECK(plan.seconds == 5);
  CHECK_FALSE(plan.is_beaten);
  CHECK_FALSE(plan.is_optimal);
}

TEST_CASE("plan: the time limit gives up what is unknown, but for TVM's single operators") {
  const NamedGraph g = G(kChain);
  const TableBackends::Table table = {{"mine: a", 5}, {"mine: b", 5}, {"mine: a b", 1},
                                      {"tvm: a", 4},  {"tvm: b", 3},  {"tvm: c", 2}};
  const TableBackends backends(g, Specs(g, "a | b | a b", "a | b | c"), table);
  const FunctionPlan plan = PlanOf(g, backends, true);
  CHECK(Text(g, backends, plan) == "tvm(a) tvm(b) tvm(c)");
  CHECK_FALSE(plan.is_optimal);
  CHECK(plan.lower_bound_seconds == 0);
  REQUIRE(plan.cuts.size() == 1);
  CHECK(plan.cuts[0].find("limit of its time cut 3 distinct") != std::string::npos);

  TableBackends bounded(g, Specs(g, "a | b | a b", "a | b | c"), table);
  bounded.bounds = {{"mine: a b", 0.5}, {"tvm: a", 4},  {"tvm: b", 3},
                    {"tvm: c", 2},      {"mine: a", 4}, {"mine: b", 4}};
  const FunctionPlan cut = PlanOf(g, bounded, true);
  CHECK(Text(g, bounded, cut) == "tvm(a) tvm(b) tvm(c)");
  CHECK_FALSE(cut.is_optimal);
  CHECK(cut.lower_bound_seconds == 2.5);  // what was given up counts
}

TEST_CASE("plan: who foresees costs says how long they may be asked for") {
  const NamedGraph g = G(kChain);
  TableBackends backends(g, Specs(g, "a | b | a b", "a | b | c"),
                         {{"mine: a b", 1}, {"tvm: a", 4}, {"tvm: b", 3}, {"tvm: c", 2}});
  backends.foreseen = {{"mine: a", 4}, {"mine: b", 4}, {"mine: a b", 1},
                       {"tvm: a", 4},  {"tvm: b", 3},  {"tvm: c", 2}};
  CHECK(Text(g, backends, PlanOf(g, backends)) == "mine(a b) tvm(c)");
  backends.asking_seconds = 1e-9;
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "tvm(a) tvm(b) tvm(c)");
  // Nothing more is asked for, as this plan is compared whole.
  CHECK(plan.cost_counts.asked == 0);
  CHECK(plan.parts[0].cost.status == "estimated");
  CHECK_FALSE(plan.is_beaten);
  CHECK(plan.cuts.size() == 1);
  CHECK(plan.lower_bound_seconds == doctest::Approx(3));  // what was given up counts
  backends.rival_seconds = 12;  // it takes 9 at the likely costs, and may well take 11.25
  CHECK_FALSE(PlanOf(g, backends).is_beaten);
  backends.rival_seconds = 11;
  CHECK(PlanOf(g, backends).is_beaten);
}

TEST_CASE("plan: the time limit keeps another backend's single operators where TVM has none") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(
      g, Specs(g, "a | b | a b", "a | c"),
      {{"mine: a", 1}, {"mine: b", 5}, {"mine: a b", 1}, {"tvm: a", 4}, {"tvm: c", 2}});
  const FunctionPlan plan = PlanOf(g, backends, true);
  CHECK(Text(g, backends, plan) == "tvm(a) mine(b) tvm(c)");
}

TEST_CASE("plan: a change of layout between two parts is charged") {
  const NamedGraph g = Images(G(kChain));
  const TableBackends::Table table = {
      {"mine: b", 1}, {"tvm: a", 4}, {"tvm: b", 2}, {"tvm: a b", 5.5}, {"tvm: c", 2}};
  TableBackends backends(g, Specs(g, "b", "a | b | a b | c"), table);
  CHECK(Text(g, backends, PlanOf(g, backends)) == "tvm(a) mine(b) tvm(c)");
  backends.rewritten = {g["a"]};
  const FunctionPlan plan = PlanOf(g, backends);
  // Into the blocked convolution and out of it: one second each.
  CHECK(plan.seconds == 9);
  REQUIRE(plan.transitions.size() == 2);
  CHECK(plan.transitions[0].value == g["x"]);
  CHECK(plan.transitions[1].value == g["a"]);
}

TEST_CASE("plan: a backend does not get what the program wants on another device") {
  NamedGraph g = G("x:var; a=relu(x); b=tanh(a)");
  DataflowGraph placed;
  for (NodeIndex i = 0; i < g.graph.size(); ++i) {
    Node node = g.graph[i];
    node.outputs.clear();
    if (i == g["b"]) node.device = "cuda:0";
    placed.Append(std::move(node));
  }
  placed.Finish(g.graph.result());
  g.graph = std::move(placed);
  std::vector<PartitionSpec> specs = Specs(g, "a | b", "a | b");
  specs[0].device = specs[2].device = "cpu:0";
  specs[1].device = "cuda:0";
  const TableBackends backends(g, specs,
                               {{"mine: a", 1}, {"mine: b", 1}, {"tvm: a", 2}, {"tvm: b", 2}});
  const FunctionPlan plan = PlanOf(g, backends);
  CHECK(Text(g, backends, plan) == "mine(a) tvm(b)");
  const std::vector<Reason> reasons = ReasonsAgainst(g.graph, backends.specs(), plan);
  REQUIRE(reasons.size() == 2);  // of a against TVM, of b against mine
  CHECK(reasons[0].why == "slower");
  CHECK(reasons[0].instead_seconds == 1);
  CHECK(reasons[1].spec == 0);
  CHECK(reasons[1].why == "device");
}

TEST_CASE("replan: a wish decides, then the costs that are known; there always is a cover") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(
      g, Specs(g, "a | b | a b", "a | b | c"),
      {{"mine: a", 5}, {"mine: b", 1}, {"mine: a b", 3}, {"tvm: a", 4}, {"tvm: b", 2}});
  const FunctionPlan plan = PlanOf(g, backends);
  REQUIRE(Text(g, backends, plan) == "mine(a b) host(c)");
  const int mine = 0, tvm = 1;
  const Replan replan(g.graph, plan, backends.specs());
  std::vector<int> wish(g.graph.size(), Replan::kAnyBackend);
  CHECK(Text(g, backends, replan.Plan(wish)) == "mine(a b) host(c)");
  wish[g["a"]] = tvm;
  CHECK(Text(g, backends, replan.Plan(wish)) == "tvm(a) mine(b) host(c)");
  wish[g["b"]] = tvm;
  CHECK(Text(g, backends, replan.Plan(wish)) == "tvm(a) tvm(b) host(c)");
  wish[g["c"]] = mine;  // which has no candidate for it
  CHECK(Text(g, backends, replan.Plan(wish)) == "tvm(a) tvm(b) host(c)");
  wish = std::vector<int>(g.graph.size(), tvm);
  CHECK(Text(g, backends, replan.Plan(wish)) == "tvm(a) tvm(b) host(c)");
  const std::vector<std::vector<int>> takers = replan.Takers();
  CHECK(takers[g["a"]] == std::vector<int>{mine, tvm});
  CHECK(takers[g["c"]] == std::vector<int>{tvm});
}

TEST_CASE("replan: what parts are charged makes them fewer, and is no cost") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(
      g, Specs(g, "a | b | c | a b", "b | c"),
      {{"mine: a", 1}, {"mine: b", 1}, {"mine: c", 1}, {"mine: a b", 3}, {"tvm: c", 4}});
  const FunctionPlan plan = PlanOf(g, backends);
  REQUIRE(Text(g, backends, plan) == "mine(a) mine(b) mine(c)");
  const Replan replan(g.graph, plan, backends.specs());
  const std::vector<int> any(g.graph.size(), Replan::kAnyBackend);
  const FunctionPlan cheap = replan.Plan(any, 0.5);
  CHECK(Text(g, backends, cheap) == "mine(a) mine(b) mine(c)");
  CHECK(cheap.seconds == 3);
  const FunctionPlan coarse = replan.Plan(any, 2);
  CHECK(Text(g, backends, coarse) == "mine(a b) mine(c)");
  CHECK(coarse.seconds == 4);
  CHECK(Text(g, backends, replan.Plan(any, 4)) == "mine(a b) tvm(c)");
}

TEST_CASE("replan: a kernel without a cost adds nothing to a plan's seconds") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(g, Specs(g, "a | b | a b", "a"),
                               {{"mine: a", 1}, {"mine: b", 1}, {"mine: a b", 3}});
  const FunctionPlan plan = PlanOf(g, backends);
  REQUIRE(Text(g, backends, plan) == "mine(a) mine(b) host(c)");
  const Replan replan(g.graph, plan, backends.specs());
  const std::vector<int> any(g.graph.size(), Replan::kAnyBackend);
  CHECK(replan.Plan(any).seconds == doctest::Approx(2));
  const FunctionPlan coarse = replan.Plan(any, 2);
  CHECK(Text(g, backends, coarse) == "mine(a b) host(c)");
  CHECK(coarse.seconds == doctest::Approx(3));
}

TEST_CASE("replan: TVM is wished for where nobody knows what it takes there") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(g, Specs(g, "a b c", "a | c"), {{"mine: a b c", 3}, {"tvm: a", 4}});
  const FunctionPlan plan = PlanOf(g, backends);
  REQUIRE(Text(g, backends, plan) == "mine(a b c)");
  const Replan replan(g.graph, plan, backends.specs());
  // Not that of a either: no plan with it could have won.
  CHECK(Text(g, backends, replan.Plan(std::vector<int>(g.graph.size(), 1))) ==
        "host(a) host(b) host(c)");
}

TEST_CASE("plan: placed parts, neighbours joined when asked") {
  const NamedGraph g = G(kChain);
  const TableBackends backends(g, Specs(g, "a | b", "c"),
                               {{"mine: a", 1}, {"mine: b", 2}, {"tvm: c", 3}});
  FunctionPlan plan = PlanOf(g, backends);
  REQUIRE(Text(g, backends, plan) == "mine(a) mine(b) tvm(c)");
  for (PlannedPart& part : plan.parts) part.candidate.is_joinable = false;
  CHECK(Placed(g.graph, plan, backends.specs(), MergeScope::kJoinable).size() == 3);
  const std::vector<PlacedPart> joined = Placed(g.graph, plan, backends.specs(), MergeScope::kAll);
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].cost.Summary() == "measured 3 s");
  CHECK(joined[1].label == "mine(conv, relu)");
  CHECK(joined[1].rule == kMergedRule);
  CHECK(joined[1].cost.status == "unknown");
}

}  // namespace tvm::collage::testing
