// SPDX-License-Identifier: Apache-2.0
// Plan: candidates -> costs -> search -> placed parts, with backends that answer from a table.
#include "src/relay/collage/plan/plan.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/relay/collage/plan/reasons.h"
#include "src/relay/collage/plan/replan.h"
#include "table_backends.h"

namespace tvm::collage::testing {
namespace {

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
