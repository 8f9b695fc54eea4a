// SPDX-License-Identifier: Apache-2.0
// The search's bound against its definition and enumeration.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "search_nets.h"
#include "search_oracle.h"
#include "src/relay/collage/search/dual_bound.h"

namespace tvm::collage::testing {
namespace {

// What the search knows of the candidate's cost, crossings that all covers pay included.
Ticks CostOf(const CoverProblem& problem, const PartTable& parts, int id) {
  const CandidateCost& cost = problem.costs[static_cast<size_t>(id)];
  const bool is_known = cost.status == CandidateCost::Status::kKnown;
  const double least = problem.candidates[static_cast<size_t>(id)].lower_bound;
  return ToTicks(is_known ? cost.seconds : least) + parts.transitions().Fixed(id);
}

// What has been shifted to the part, for what it reads, and from it, for what it makes.
Ticks Shifted(const PartTable& parts, const DualBound& bound, int id) {
  const TransitionTable& transitions = parts.transitions();
  const Part& part = parts.part(id);
  const int layout_class = transitions.LayoutClassOf(id);
  Ticks shifted = 0;
  for (int read : part.outside) {
    if (!transitions.DependsOnMaker(read)) continue;
    // All makers agree on what is charged already.
    shifted += transitions.Extra(read, 0, layout_class) - bound.Crossing(read, 0, layout_class, 0);
  }
  for (int node : part.exits) {
    if (!transitions.DependsOnMaker(node)) continue;
    const int outside = static_cast<int>(parts.Readers(node).size()) - parts.NumReaders(node, part);
    shifted -= outside * bound.Returned(node, transitions.MakerClassOf(node, layout_class));
  }
  return shifted;
}

// How many crossings, of any maker and reader, would be paid for with less than nothing.
int NumBelowZero(const PartTable& parts, const DualBound& bound) {
  const TransitionTable& transitions = parts.transitions();
  int wrong = 0;
  for (int id = 0; id < parts.num_parts(); ++id) {
    for (int read : parts.part(id).outside) {
      for (int maker = 0;
           transitions.DependsOnMaker(read) && maker < transitions.NumMakerClasses(read); ++maker) {
        wrong += bound.Crossing(read, maker, transitions.LayoutClassOf(id), 1) < 0;
        wrong += bound.Returned(read, maker) < 0;
      }
    }
  }
  return wrong;
}

// The weakest bound of its kind: each node's least equal share of a candidate's cost.
Ticks ShareSum(const CoverProblem& problem, const PartTable& parts, const DualBound& bound) {
  Ticks sum = 0;
  for (int node = 0; node < parts.num_nodes(); ++node) {
    Ticks least = kInfiniteTicks;
    for (int id : parts.Holding(node)) {
      if (!bound.IsUsable(id)) continue;
      const Ticks size = static_cast<Ticks>(parts.part(id).nodes.size());
      least = std::min(least, CostOf(problem, parts, id) / size);
    }
    sum += least;
  }
  return sum;
}

// Prices are >= 0, no candidate's nodes cost more than it, and what is derived agrees.
void CheckIsDual(const CoverProblem& problem, const PartTable& parts, const DualBound& bound) {
  Ticks sum = 0;
  int wrong = 0;
  for (int node = 0; node < parts.num_nodes(); ++node) {
    sum += bound.Price(node);
    wrong += bound.Price(node) < 0;
    // Nothing is left that could be raised.
    Ticks least = kInfiniteTicks;
    for (int id : parts.Holding(node)) {
      if (bound.IsUsable(id)) least = std::min(least, bound.Reduced(id));
    }
    wrong += least != 0;
  }
  for (int id = 0; id < parts.num_parts(); ++id) {
    const bool is_failed =
        problem.costs[static_cast<size_t>(id)].status == CandidateCost::Status::kFailed;
    wrong += bound.IsUsable(id) == is_failed;
    if (is_failed) continue;
    Ticks of_nodes = 0;
    for (int node : parts.part(id).nodes) of_nodes += bound.Price(node);
    const Ticks cost = CostOf(problem, parts, id) + Shifted(parts, bound, id);
    wrong += bound.Reduced(id) != cost - of_nodes;
    wrong += bound.Reduced(id) < 0;
  }
  CHECK(wrong == 0);
  CHECK(NumBelowZero(parts, bound) == 0);
  CHECK(bound.Base() == sum);
}

TEST_CASE("random problems: prices are a dual, no cover of any nodes is below them") {
  int solvable = 0;
  int met = 0;
  int above_shares = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    CoverProblem problem = RandomProblem(seed, {9, seed % 2 == 0, seed % 3 == 0});
    for (size_t id = seed % 5; id < problem.costs.size() && seed % 4 == 1; id += 3) {
      if (problem.costs[id].status == CandidateCost::Status::kKnown) problem.costs[id] = {};
    }
    const PartTable parts(problem);
    const DualBound bound(problem, parts);
    const bool has_unknown = seed % 4 == 1;
    const OracleResult expected = Oracle(problem).Run();
    if (bound.unheld_node() >= 0) {
      CHECK_FALSE(expected.is_found);
      continue;
    }
    CheckIsDual(problem, parts, bound);
    const Ticks shares = ShareSum(problem, parts, bound);
    CHECK(bound.Base() >= shares);
    above_shares += bound.Base() > shares;
    if (!expected.is_found || has_unknown) continue;
    CHECK(bound.Base() <= expected.picoseconds);
    ++solvable;
    met += bound.Base() == expected.picoseconds;
    // Each part of the best cover brings what it costs beyond its nodes' prices, or more.
    Ticks path = bound.Base();
    for (int id : expected.cover) path += bound.Reduced(id);
    CHECK(path <= expected.picoseconds);
  }
  // The bound must be worth something: it is the least cost itself in most problems.
  CHECK(solvable > 250);
  CHECK(above_shares > 200);
  CHECK(met * 3 > solvable);
}

// Two nodes, each cheaper in another layout: one of them or a crossing has to be paid for.
TEST_CASE("what staying in one layout saves is in the bound") {
  CoverProblem problem;
  problem.num_nodes = 2;
  problem.inputs = {{}, {0}};
  for (int node : {0, 1}) {
    for (int layout_class : {0, 1}) {
      problem.candidates.push_back({{node}, layout_class, 0.0});
      problem.costs.push_back(CandidateCost::Known(node == layout_class ? 10.0 : 12.0));
    }
  }
  problem.transitions.between = [](int, int from, int to) { return from == to ? 0.0 : 5.0; };
  const PartTable parts(problem);
  CHECK(DualBound(problem, parts).Base() == ToTicks(22.0));
}

TEST_CASE("on nets the bound is the least cost, or near it") {
  for (const auto make : {ChainNet, InceptionNet, DenseNet, CellNet}) {
    const CoverProblem problem = make({300, 4, true});
    const PartTable parts(problem);
    const DualBound bound(problem, parts);
    CheckIsDual(problem, parts, bound);
    // Their least costs are found by search_scale_test.cc; here any cover will do: single nodes.
    Ticks singles = 0;
    for (int node = 0; node < problem.num_nodes; ++node) {
      Ticks least = kInfiniteTicks;
      for (int id : parts.Holding(node)) {
        if (parts.part(id).nodes.size() == 1) least = std::min(least, CostOf(problem, parts, id));
      }
      singles += least;
    }
    CHECK(bound.Base() <= singles);
    CHECK(bound.Base() >= ShareSum(problem, parts, bound));
  }
}

TEST_CASE("a node that only failed candidates hold is named, the first of them") {
  CoverProblem problem;
  problem.num_nodes = 3;
  problem.inputs = {{}, {0}, {1}};
  problem.candidates = {{{0}, 0, 0.0}, {{1}, 0, 0.0}, {{1, 2}, 0, 0.0}};
  problem.costs = {CandidateCost::Known(1.0), CandidateCost::Failed(), CandidateCost::Failed()};
  const PartTable parts(problem);
  CHECK(DualBound(problem, parts).unheld_node() == 1);
}

TEST_CASE("sums of costs of a million seconds each do not overflow") {
  NetBuilder net;
  int last = net.Add({});
  for (int node = 1; node < 100; ++node) last = net.Add({last});
  net.OfferSingles();
  CoverProblem problem = net.Take();
  for (CandidateCost& cost : problem.costs) cost = CandidateCost::Known(kMaxSeconds);
  const PartTable parts(problem);
  CHECK(DualBound(problem, parts).Base() == kInfiniteTicks);
}

}  // namespace
}  // namespace tvm::collage::testing
