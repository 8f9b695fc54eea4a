// SPDX-License-Identifier: Apache-2.0
// Plan where costs are foreseen: what is asked for, and when the search ends.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "src/relay/collage/plan/plan.h"
#include "table_backends.h"

namespace tvm::collage::testing {

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

}  // namespace tvm::collage::testing
