// SPDX-License-Identifier: Apache-2.0
// The cover search against plain enumeration, and by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>

#include "search_nets.h"
#include "search_oracle.h"
#include "src/relay/collage/search/cover_search.h"

namespace tvm::collage::testing {
namespace {

// All costs known from the start.
CoverStep Solve(const CoverProblem& problem, CoverSearchOptions options = {}) {
  return CoverSearch(problem, options).Step();
}

// Steps until the end, as FindCover in plan/plan.cc does, with costs from a table.
CoverStep RunToEnd(CoverSearch* search, const std::function<CandidateCost(int)>& cost_of) {
  CoverStep step = search->Step();
  while (step.kind == CoverStep::Kind::kNeedCosts) {
    for (int id : step.needed) search->SetCost(id, cost_of(id));
    step = search->Step();
  }
  return step;
}

void CheckEqualsOracle(const CoverProblem& problem, const CoverStep& step,
                       const OracleResult& expected) {
  if (!expected.is_found) {
    CHECK(step.kind == CoverStep::Kind::kNoCover);
    CHECK(step.uncovered_node >= 0);
    CHECK(step.uncovered_node < problem.num_nodes);
    return;
  }
  REQUIRE(step.kind == CoverStep::Kind::kPlan);
  CHECK(step.plan.candidates == expected.order);
  CHECK(std::llround(step.plan.seconds * 1e12) == expected.picoseconds);
  CHECK(step.plan.optimal);
  CHECK(step.plan.lower_bound_seconds == step.plan.seconds);
}

struct Case {
  const char* name;
  RandomProblemOptions options;
};
const Case kCases[] = {
    {"plain", {12, false, false}},
    {"failures", {12, false, true}},
    {"transitions", {9, true, false}},
    {"transitions and failures", {10, true, true}},
    {"last resorts", {9, false, true, true}},
    {"transitions and last resorts", {8, true, true, true}},
};
constexpr unsigned kSeeds = 600;  // for each of the cases

// Nothing is known but which candidates are last resorts: these are never asked for.
std::vector<CandidateCost> NothingKnown(std::vector<CandidateCost> costs) {
  for (CandidateCost& cost : costs) {
    if (cost.status != CandidateCost::Status::kLastResort) cost = CandidateCost::Unknown();
  }
  return costs;
}

TEST_CASE("random problems: the plan is the oracle's, with costs known and with costs asked for") {
  int64_t cyclic = 0;
  int64_t acyclic = 0;
  int solvable = 0;
  int64_t last_resorts = 0;
  int64_t asked = 0;
  int64_t candidates = 0;
  for (const Case& c : kCases) {
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      CAPTURE(c.name);
      CAPTURE(seed);
      CoverProblem problem = RandomProblem(seed, c.options);
      const OracleResult expected = Oracle(problem).Run();
      cyclic += expected.cyclic_covers;
      acyclic += expected.acyclic_covers;
      solvable += expected.is_found;
      last_resorts += expected.last_resorts;
      CheckEqualsOracle(problem, Solve(problem), expected);

      const std::vector<CandidateCost> costs = problem.costs;
      problem.costs = NothingKnown(problem.costs);
      CoverSearch search(problem);
      std::vector<int> times(costs.size(), 0);
      const CoverStep step = RunToEnd(&search, [&](int id) {
        ++times[static_cast<size_t>(id)];
        return costs[static_cast<size_t>(id)];
      });
      CheckEqualsOracle(problem, step, expected);
      if (!times.empty()) CHECK(*std::max_element(times.begin(), times.end()) <= 1);
      asked += search.stats().costs_asked;
      candidates += search.stats().candidates;
    }
  }
  // The cases must be worth something: candidates feed each other, and most can be covered.
  CHECK(cyclic > 10000);
  CHECK(acyclic > 100000);
  CHECK(solvable > static_cast<int>(kSeeds) * 4);
  CHECK(last_resorts > static_cast<int64_t>(kSeeds) / 2);
  CHECK(asked * 10 < candidates * 7);
}

TEST_CASE("random problems under a tight limit: a cover, its true cost, and a true lower bound") {
  int cut = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    CoverProblem problem = RandomProblem(seed, {7, seed % 2 == 1, false, seed % 4 == 2});
    for (int node = 0; node < problem.num_nodes; ++node) {  // then some cover is always kept
      problem.candidates.push_back({{node}, 0, 0.0});
      problem.costs.push_back(CandidateCost::Known(20e-6));
    }
    const OracleResult expected = Oracle(problem).Run();
    CHECK(expected.last_resorts == 0);
    CoverSearch search(problem, {1, 1});
    const CoverStep step = search.Step();
    REQUIRE(step.kind == CoverStep::Kind::kPlan);
    const int64_t cost = std::llround(step.plan.seconds * 1e12);
    CHECK(Oracle::Order(problem, step.plan.candidates) == step.plan.candidates);
    CHECK(Oracle::Picoseconds(problem, step.plan.candidates) == cost);
    CHECK(std::llround(step.plan.lower_bound_seconds * 1e12) <= expected.picoseconds);
    CHECK(cost >= expected.picoseconds);
    if (step.plan.optimal) CHECK(cost == expected.picoseconds);
    if (!step.plan.optimal) CHECK(search.stats().IsLimitBinding());
    cut += search.stats().IsLimitBinding();
  }
  CHECK(cut > 0);
}

TEST_CASE("the first pass's width changes nothing but work") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const CoverProblem problem = RandomProblem(seed, {12, true, false});
    const CoverStep wide = Solve(problem, {20000, 20000});
    const CoverStep narrow = Solve(problem, {20000, 1});
    CHECK(wide.kind == narrow.kind);
    CHECK(wide.plan.candidates == narrow.plan.candidates);
    CHECK(wide.plan.seconds == narrow.plan.seconds);
  }
}

TEST_CASE("unknown costs are asked for before a wider pass, and the plan is the same") {
  int narrow_asked = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    CoverProblem problem = RandomProblem(seed, {12, true, false});
    const CoverStep known = Solve(problem);
    const std::vector<CandidateCost> costs = problem.costs;
    problem.costs.clear();
    CoverSearch search(problem, {20000, 1});
    CoverSearch never_wide(problem, {1, 1});
    const CoverStep first = search.Step();
    if (never_wide.Step().kind == CoverStep::Kind::kNeedCosts) {
      ++narrow_asked;
      CHECK(first.kind == CoverStep::Kind::kNeedCosts);
      CHECK(search.stats().states_expanded == never_wide.stats().states_expanded);
    }
    const CoverStep step =
        RunToEnd(&search, [&](int id) { return costs[static_cast<size_t>(id)]; });
    CHECK(step.kind == known.kind);
    CHECK(step.plan.candidates == known.plan.candidates);
    CHECK(step.plan.seconds == known.plan.seconds);
  }
  CHECK(narrow_asked > 0);
}

// Not exact: first nodes first, one way to each covered set, cycles refused.
double CostByCoveredSetAlone(const CoverProblem& problem) {
  struct Way {
    double seconds;
    std::vector<int> cover;
  };
  std::map<uint32_t, Way> ways{{0u, {0.0, {}}}};
  const uint32_t all = (1u << problem.num_nodes) - 1;
  for (uint32_t covered = 0; covered < all; ++covered) {
    const auto found = ways.find(covered);
    if (found == ways.end()) continue;
    const uint32_t first = ~covered & (covered + 1);  // the first uncovered node
    for (int id = 0; id < static_cast<int>(problem.candidates.size()); ++id) {
      const uint32_t inside = Oracle::Inside(problem, id);
      if ((inside & covered) != 0 || (inside & first) == 0) continue;
      Way way = found->second;
      way.cover.push_back(id);
      way.seconds += problem.costs[static_cast<size_t>(id)].seconds;
      if (Oracle::Order(problem, way.cover).empty()) continue;
      const auto other = ways.find(covered | inside);
      if (other == ways.end() || way.seconds < other->second.seconds) ways[covered | inside] = way;
    }
  }
  return ways.at(all).seconds;
}

// The cheap way to cover 0, 1 and 3 is {0,3} and {1}. But {0,3} waits for 2 and feeds 4, so {2,4,5}
// would close a cycle, and only dear single nodes are left. {0} and {1,3} cost more and allow it.
TEST_CASE("six nodes on which keeping one way to each covered set fails") {
  CoverProblem problem;
  problem.num_nodes = 6;
  problem.inputs = {{}, {}, {}, {1, 2}, {0, 2}, {4}};
  const auto add = [&](std::vector<int> inside, double seconds) {
    problem.candidates.push_back({std::move(inside), 0, 0.0});
    problem.costs.push_back(CandidateCost::Known(seconds));
  };
  add({0}, 1.0);        // 0
  add({1}, 0.5);        // 1
  add({2}, 2.0);        // 2
  add({3}, 5.0);        // 3
  add({4}, 2.0);        // 4
  add({5}, 2.1);        // 5
  add({0, 3}, 0.5);     // 6
  add({1, 3}, 1.0);     // 7
  add({2, 4, 5}, 1.0);  // 8
  CHECK(CostByCoveredSetAlone(problem) == doctest::Approx(7.1));
  const CoverStep step = Solve(problem);
  CheckEqualsOracle(problem, step, Oracle(problem).Run());
  CHECK(step.plan.candidates == std::vector<int>{0, 8, 7});
  CHECK(step.plan.seconds == 3.0);
}

TEST_CASE("the empty problem has the empty plan") {
  const CoverStep step = Solve(CoverProblem());
  CHECK(step.kind == CoverStep::Kind::kPlan);
  CHECK(step.plan.candidates.empty());
  CHECK(step.plan.seconds == 0.0);
  CHECK(step.plan.optimal);
}

CoverProblem Chain(int n) {
  CoverProblem problem;
  problem.num_nodes = n;
  problem.inputs.resize(static_cast<size_t>(n));
  for (int node = 1; node < n; ++node) problem.inputs[static_cast<size_t>(node)] = {node - 1};
  return problem;
}

TEST_CASE("no cover: the node that nothing holds is named") {
  CoverProblem problem = Chain(3);
  problem.candidates = {{{0}, 0, 0.0}, {{2}, 0, 0.0}};
  const CoverStep step = Solve(problem);
  CHECK(step.kind == CoverStep::Kind::kNoCover);
  CHECK(step.uncovered_node == 1);
  CHECK(step.message == "no usable candidate holds node 1");
}

TEST_CASE("no cover: a node whose only candidate failed is named, once that is known") {
  CoverProblem problem = Chain(2);
  problem.candidates = {{{0}, 0, 0.0}, {{1}, 0, 0.0}};
  CoverSearch search(problem);
  CHECK(search.Step().needed == std::vector<int>{0, 1});
  search.SetCost(0, CandidateCost::Known(1.0));
  search.SetCost(1, CandidateCost::Failed());
  CHECK(search.Step().uncovered_node == 1);
}

TEST_CASE("no cover: candidates that do not fit together") {
  CoverProblem problem = Chain(4);
  problem.candidates = {{{0}, 0, 0.0}, {{1, 2}, 0, 0.0}, {{2, 3}, 0, 0.0}};
  const CoverStep step = Solve(problem);
  CHECK(step.kind == CoverStep::Kind::kNoCover);
  CHECK(step.uncovered_node == 3);
  CHECK(step.message == "no candidates fit together to cover node 3 and all before it");
}

TEST_CASE("no cover: only a cycle would do") {
  CoverProblem problem;
  problem.num_nodes = 4;
  problem.inputs = {{}, {}, {0}, {1}};
  problem.candidates = {{{0, 3}, 0, 0.0}, {{1, 2}, 0, 0.0}};
  CHECK(Solve(problem).kind == CoverStep::Kind::kNoCover);
}

TEST_CASE("a last resort is used where nothing else fits, and costs nothing in the plan's sum") {
  CoverProblem problem;  // {0,3} and {1,2} would feed each other, and hold 0 to 3 but for these
  problem.num_nodes = 5;
  problem.inputs = {{}, {}, {0}, {1}, {3}};
  problem.candidates = {{{0, 3}, 0, 0.0}, {{1, 2}, 0, 0.0}, {{4}, 0, 0.0}};
  problem.costs = {CandidateCost::Known(1.0), CandidateCost::Known(2.0), CandidateCost::Known(4.0)};
  for (int node = 0; node < problem.num_nodes; ++node) {
    problem.candidates.push_back({{node}, 0, 0.0});
    problem.costs.push_back(CandidateCost::LastResort());
  }
  const CoverStep step = Solve(problem);
  CheckEqualsOracle(problem, step, Oracle(problem).Run());
  CHECK(step.plan.seconds == 5.0);  // the cheaper one, two last resorts, and the known end
}

TEST_CASE("last resorts alone, and beside plans that take hours") {
  CoverProblem problem = Chain(3);
  for (int node = 0; node < 3; ++node) {
    problem.candidates.push_back({{node}, 0, 0.0});
    problem.costs.push_back(CandidateCost::LastResort());
  }
  const CoverStep alone = Solve(problem);
  CHECK(alone.plan.candidates == std::vector<int>{0, 1, 2});
  CHECK(alone.plan.seconds == 0.0);
  CHECK(alone.plan.optimal);
  problem.candidates.push_back({{0, 1, 2}, 0, 0.0});
  problem.costs.push_back(CandidateCost::Known(1e5));
  CHECK(Solve(problem).plan.candidates == std::vector<int>{3});
}

TEST_CASE("ties: fewest parts first, then least ids in execution order, at 0.1 + 0.2 = 0.3") {
  CoverProblem problem = Chain(2);
  problem.candidates = {
      {{1}, 0, 0.0}, {{0}, 0, 0.0}, {{0}, 1, 0.0}, {{0, 1}, 1, 0.0}, {{0, 1}, 0, 0.0}};
  problem.costs = {CandidateCost::Known(0.1), CandidateCost::Known(0.2), CandidateCost::Known(0.2),
                   CandidateCost::Known(0.3), CandidateCost::Known(0.3)};
  CHECK(Solve(problem).plan.candidates == std::vector<int>{3});
  problem.costs[3] = problem.costs[4] = CandidateCost::Known(0.4);
  CHECK(Solve(problem).plan.candidates == std::vector<int>{1, 0});
}

TEST_CASE("a candidate whose bound cannot enter an optimal cover is not asked for") {
  CoverProblem problem = Chain(2);
  problem.candidates = {{{0}, 0, 0.0}, {{1}, 0, 0.0}, {{0, 1}, 1, 5.0}};
  CoverSearch search(problem);
  const CoverStep step = RunToEnd(&search, [](int id) {
    CHECK(id != 2);
    return CandidateCost::Known(2.0);
  });
  CHECK(step.plan.seconds == 4.0);
  CHECK(search.stats().costs_asked == 2);
  CHECK(search.stats().steps == 2);
}

TEST_CASE("a cost below its lower bound: bounds are dropped, and the plan is the oracle's") {
  int seen = 0;
  int asked_for_some = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    CoverProblem problem = RandomProblem(seed, {9, seed % 2 == 0, false});
    const OracleResult expected = Oracle(problem).Run();
    const std::vector<CandidateCost> costs = problem.costs;
    problem.costs.clear();
    for (size_t id = 0; id < costs.size(); ++id) {
      const double wrong = 1.0 + 0.5 * static_cast<double>((id * 31 + seed) % 3);
      problem.candidates[id].lower_bound = wrong * costs[id].seconds;
    }
    const auto cost_of = [&](int id) { return costs[static_cast<size_t>(id)]; };
    CoverSearch search(problem);
    const CoverStep step = RunToEnd(&search, cost_of);
    if (search.stats().bounds_broken == 0) continue;
    ++seen;
    CheckEqualsOracle(problem, step, expected);
    CHECK(search.stats().Summary().find(" costs below their bounds") != std::string::npos);
    asked_for_some += search.stats().costs_asked < search.stats().candidates;
  }
  CHECK(seen > 200);
  CHECK(asked_for_some > 50);
}

TEST_CASE("what holds most of the work is asked for first, and may make the rest needless") {
  CoverProblem problem = Chain(40);
  for (int node = 0; node < 40; ++node) {
    problem.candidates.push_back({{node}, 0, 0.0, node < 20 ? 1000.0 - node : 1.0});
  }
  std::vector<int> all(40);
  for (int node = 0; node < 40; ++node) all[static_cast<size_t>(node)] = node;
  problem.candidates.push_back({all, 0, 0.0, 20.0});
  problem.costs.resize(problem.candidates.size());
  problem.costs.back() = CandidateCost::Known(10.0);
  CoverSearch search(problem);
  const CoverStep first = search.Step();
  REQUIRE(first.needed.size() == 16);  // four fifths of the work of twenty that are much alike
  CHECK(first.needed.front() == 0);
  CHECK(first.needed.back() == 15);
  CHECK(RunToEnd(&search, [](int) { return CandidateCost::Known(1.0); }).plan.seconds == 10.0);
  CHECK(search.stats().costs_asked == 32);  // twice: the step that was only looked at, and again
  for (CoverCandidate& candidate : problem.candidates) candidate.work = 0.0;
  CHECK(CoverSearch(problem).Step().needed.size() == 40);  // no guesses: all at once
}

TEST_CASE("costs asked for one by one: the same plan, fewer costs, few steps") {
  CoverProblem problem = InceptionNet({300, 4, true});
  const double seconds = CoverSearch(problem).Step().plan.seconds;
  const std::vector<CandidateCost> costs = problem.costs;
  problem.costs.clear();
  for (size_t id = 0; id < costs.size(); ++id) {
    problem.candidates[id].lower_bound = 0.8 * costs[id].seconds;
  }
  CoverSearch search(problem);
  const CoverStep step = RunToEnd(&search, [&](int id) { return costs[static_cast<size_t>(id)]; });
  CHECK(step.plan.optimal);
  CHECK(step.plan.seconds == seconds);
  CHECK(search.stats().costs_asked * 2 < search.stats().candidates);
}

TEST_CASE("transitions decide: staying in one layout beats the cheaper kernel") {
  CoverProblem problem = Chain(3);
  for (int node = 0; node < 3; ++node) {
    for (int layout_class = 0; layout_class < 2; ++layout_class) {
      problem.candidates.push_back({{node}, layout_class, 0.0});
      problem.costs.push_back(CandidateCost::Known(node == 1 && layout_class == 1 ? 1.0 : 2.0));
    }
  }
  CHECK(Solve(problem).plan.seconds == 5.0);
  problem.transitions.between = [](int, int from, int to) { return from == to ? 0.0 : 0.75; };
  problem.transitions.from_outside = [](int, int to) { return to == 1 ? 0.75 : 0.0; };
  problem.transitions.to_outside = [](int, int from) { return from == 1 ? 0.75 : 0.0; };
  problem.outside_inputs = {{7}, {}, {}};
  problem.outputs = {2};
  const CoverStep step = Solve(problem);
  CHECK(step.plan.candidates == std::vector<int>{0, 2, 4});
  CHECK(step.plan.seconds == 6.0);
}

TEST_CASE("callers' mistakes are refused") {
  CoverProblem problem = Chain(2);
  problem.candidates = {{{0, 1}, 0, 0.0}};
  CoverSearch search(problem);
  CHECK_THROWS_AS(search.SetCost(1, CandidateCost::Known(1.0)), std::invalid_argument);
  CHECK_THROWS_AS(search.SetCost(0, CandidateCost::Known(-1.0)), std::invalid_argument);
  CHECK_THROWS_AS(search.SetLowerBound(0, 1.0), std::invalid_argument);  // they are proven
  problem.are_bounds_proven = false;
  CoverSearch foreseen(problem);
  CHECK_THROWS_AS(foreseen.SetLowerBound(1, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(foreseen.SetLowerBound(0, -1.0), std::invalid_argument);
}

TEST_CASE("a bound that nobody proved may be given anew") {
  CoverProblem problem = Chain(2);
  problem.candidates = {{{0}, 0, 0.0}, {{1}, 0, 0.0}, {{0, 1}, 0, 0.0}};
  problem.are_bounds_proven = false;
  CoverSearch search(problem);
  CHECK(search.Step().needed == std::vector<int>{2});
  search.SetLowerBound(2, 3.0);
  search.SetLowerBound(0, 1.0);
  const CoverStep step = search.Step();
  CHECK(step.needed == std::vector<int>{0, 1});
  CHECK(step.plan.lower_bound_seconds == 1.0);
}

TEST_CASE("the statistics' summary says what happened in one line") {
  CoverProblem problem = Chain(2);
  problem.candidates = {{{0, 1}, 0, 0.0}};
  CoverSearch search(problem);
  CHECK(search.Step().needed == std::vector<int>{0});
  search.SetCost(0, CandidateCost::Known(0.002));
  CHECK(search.Step().plan.optimal);
  CHECK(search.stats().Summary().rfind("2 nodes, 1 candidates, 2 steps, 1 costs asked, ", 0) == 0);
}

}  // namespace
}  // namespace tvm::collage::testing
