// SPDX-License-Identifier: Apache-2.0
// The pieces of the cover search, each by itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "search_oracle.h"
#include "src/relay/collage/search/covered_set.h"
#include "src/relay/collage/search/dual_bound.h"
#include "src/relay/collage/search/part_table.h"
#include "src/relay/collage/search/search_state.h"
#include "src/relay/collage/search/successors.h"

namespace tvm::collage::testing {
namespace {

TEST_CASE("covered sets act as std::set does, and equal sets are stored alike") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const int n = 1 + static_cast<int>(random() % 300);
    std::vector<int> nodes(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) nodes[static_cast<size_t>(i)] = i;
    // Mostly ascending, as the search covers.
    for (auto at = nodes.begin(); nodes.end() - at > 10; at += 7) {
      std::shuffle(at, at + 10, random);
    }
    CoveredSet covered;
    std::set<int> expected;
    for (size_t i = 0; i < nodes.size();) {
      std::set<int> step;
      for (unsigned k = 1 + random() % 4; k-- > 0 && i < nodes.size();) step.insert(nodes[i++]);
      const NodeWords words({step.begin(), step.end()});
      CHECK_FALSE(covered.Intersects(words));
      covered.Add(words);
      CHECK(covered.Intersects(words));
      expected.insert(step.begin(), step.end());
      int first = 0;
      while (expected.count(first) != 0) ++first;
      CHECK(covered.FirstUncovered() == first);
      CHECK(covered.IsEmptyFrom(first) == (*expected.rbegin() < first));
      int wrong = 0;
      for (int node = 0; node < n; ++node) {
        wrong += covered.Contains(node) != (expected.count(node) != 0);
        wrong += words.Contains(node) != (step.count(node) != 0);
      }
      CHECK(wrong == 0);
      CoveredSet at_once;
      at_once.Add(NodeWords({expected.begin(), expected.end()}));
      CHECK(at_once.offset() == covered.offset());
      CHECK(at_once.words() == covered.words());
    }
  }
}

TEST_CASE("trails compare by their first difference") {
  Trail trail;
  const int a = trail.Append(Trail::kRoot, 5);
  const int ab = trail.Append(a, 2);
  const int ac = trail.Append(a, 3);
  const int b = trail.Append(Trail::kRoot, 6);
  const int ba = trail.Append(b, 0);
  CHECK(trail.PartsTo(ac) == std::vector<int>{5, 3});
  CHECK(trail.ComesBefore(ab, ac));
  CHECK(trail.ComesBefore(ac, ba));
  CHECK_FALSE(trail.ComesBefore(ba, ab));
  CHECK_FALSE(trail.ComesBefore(ab, ab));
}

TEST_CASE("a state table keeps the best way to each state, and tells states apart by every note") {
  Trail trail;
  StateTable table(70, 1000);
  SearchState state;
  state.position = 70;
  std::vector<int> prefix;
  for (int node = 0; node < 70; ++node) prefix.push_back(node);
  state.covered.Add(NodeWords(prefix));
  table.Offer(state, {10, 2, Trail::kRoot, 4}, trail);
  const auto offer = [&](Way way, Way best) {
    table.Offer(state, way, trail);
    CHECK(table.way(0).cost == best.cost);
    CHECK(table.way(0).num_parts == best.num_parts);
    CHECK(table.way(0).part == best.part);
  };
  offer({10, 3, Trail::kRoot, 1}, {10, 2, Trail::kRoot, 4});
  offer({10, 2, Trail::kRoot, 5}, {10, 2, Trail::kRoot, 4});
  offer({10, 2, Trail::kRoot, 3}, {10, 2, Trail::kRoot, 3});
  offer({9, 7, Trail::kRoot, 8}, {9, 7, Trail::kRoot, 8});
  CHECK(table.size() == 1);
  for (auto* notes : {&state.waits, &state.makers, &state.readers}) {
    notes->push_back({60, 75});
    table.Offer(state, {11, 1, Trail::kRoot, 0}, trail);
    notes->clear();
  }
  CHECK(table.size() == 4);
  for (int node = 71; node < 171; ++node) {  // more than the first slots hold
    SearchState other = state;
    other.covered.Add(NodeWords({node}));
    other.waits = {{60, node + 1}, {61, node + 2}};
    const size_t size = table.size();
    for (int cost : {node, node + 1}) table.Offer(other, {cost, 1, Trail::kRoot, 0}, trail);
    CHECK(table.size() == size + 1);
    const SearchState stored = table.State(size);
    CHECK(stored.position == 70);
    CHECK(stored.covered.words() == other.covered.words());
    CHECK(stored.covered.offset() == other.covered.offset());
    CHECK(stored.waits == other.waits);
    CHECK(stored.makers.empty());
  }
  CHECK(table.num_cut() == 0);
}

TEST_CASE("a full state table keeps the cheapest, and one state that covers nothing ahead") {
  constexpr int kStates = 500;
  for (int limit : {1, 2, 7, 100}) {
    CAPTURE(limit);
    Trail trail;
    StateTable table(1, limit);
    SearchState plain;
    plain.position = 1;
    plain.covered.Add(NodeWords({0}));
    table.Offer(plain, {kStates + 1, 1, Trail::kRoot, 0}, trail);  // the dearest of all
    std::vector<int> costs;
    for (int cost = 0; cost < kStates; ++cost) costs.push_back(cost);
    std::shuffle(costs.begin(), costs.end(), std::mt19937(static_cast<unsigned>(limit)));
    for (int cost : costs) {
      SearchState state = plain;
      state.covered.Add(NodeWords({2 + cost}));
      table.Offer(state, {cost, 1, Trail::kRoot, 0}, trail);
      CHECK(static_cast<int>(table.size()) <= 2 * limit);
    }
    table.CutToLimit();
    CHECK(static_cast<int>(table.size()) == limit);
    CHECK(table.most_held() <= 2 * limit);
    CHECK(table.num_cut() == kStates + 1 - limit);
    CHECK(table.least_cut_cost() == limit - 1);
    std::set<Ticks> kept;
    for (size_t index = 0; index < table.size(); ++index) {
      kept.insert(table.way(index).cost);
      const SearchState state = table.State(index);  // each entry still has its own words
      const bool is_plain = table.way(index).cost == kStates + 1;
      CHECK(state.covered.IsEmptyFrom(1) == is_plain);
      if (!is_plain) CHECK(state.covered.Contains(2 + static_cast<int>(table.way(index).cost)));
    }
    std::set<Ticks> expected{kStates + 1};
    for (int cost = 0; cost < limit - 1; ++cost) expected.insert(cost);
    CHECK(kept == expected);
    plain.waits = {{0, 3}};  // none of the cheapest, so it is cut at once
    plain.covered.Add(NodeWords({4}));
    table.Offer(plain, {kStates, 1, Trail::kRoot, 0}, trail);
    CHECK(static_cast<int>(table.size()) == limit);
  }
}

TEST_CASE("transitions: what each maker costs a reader is split into least and extra") {
  CoverProblem problem;
  problem.num_nodes = 2;
  problem.inputs = {{}, {0}};
  for (int layout_class : {10, 20, 30}) {
    problem.candidates.push_back({{0}, layout_class, 0.0});
    problem.candidates.push_back({{1}, layout_class, 0.0});
  }
  // Makers 10 and 20 are alike to every reader.
  problem.transitions.between = [](int, int from, int to) {
    return 1.0 + (from == 30 ? 4.0 : 0.0) + (from == 30 && to == 30 ? -2.0 : 0.0);
  };
  const TransitionTable table(problem, {{}, {0}, {}, {0}, {}, {0}});
  CHECK(table.IsAnyDependent());
  CHECK(table.DependsOnMaker(0));
  CHECK_FALSE(table.DependsOnMaker(1));
  CHECK(table.Fixed(1) == ToTicks(1.0));
  CHECK(table.Fixed(0) == 0);
  CHECK(table.MakerClassOf(0, 0) == table.MakerClassOf(0, 1));
  CHECK(table.MakerClassOf(0, 0) != table.MakerClassOf(0, 2));
  CHECK(table.Extra(0, table.MakerClassOf(0, 1), 2) == 0);
  CHECK(table.Extra(0, table.MakerClassOf(0, 2), 0) == ToTicks(4.0));
  CHECK(table.Extra(0, table.MakerClassOf(0, 2), 2) == ToTicks(2.0));
}

TEST_CASE("a part table knows what each part reads and offers") {
  CoverProblem problem;
  problem.num_nodes = 4;
  problem.inputs = {{}, {0}, {0, 1}, {2, 2}};
  problem.candidates = {{{1, 2}, 0, 0.0}, {{0}, 0, 0.0}, {{2, 3}, 0, 0.0}};
  const PartTable parts(problem);
  CHECK(parts.part(0).outside == std::vector<int>{0});
  CHECK(parts.part(0).exits == std::vector<int>{2});
  CHECK(parts.part(2).outside == std::vector<int>{1, 0});
  CHECK(parts.part(2).exits.empty());
  CHECK(parts.StartingAt(1) == std::vector<int>{0});
  CHECK(parts.Readers(0) == std::vector<int>{2, 1});
  CHECK(parts.Readers(2) == std::vector<int>{3});
}

// Follows every path to the end, without merging states, and adds up what it costs.
class PathCounter : public SuccessorSink {
 public:
  PathCounter(const CoverProblem& problem, const PartTable& parts, const DualBound& bound)
      : problem_(problem), parts_(parts), bound_(bound) {}

  void Follow(const SearchState& state) {
    if (state.position == parts_.num_nodes()) {
      CHECK(state.waits.empty());
      CHECK(state.makers.empty());
      CHECK(state.readers.empty());
      ++paths;
      CHECK(seen.insert(used_).second);
      CHECK(bound_.Base() + cost_ == Oracle::Picoseconds(problem_, used_));
      return;
    }
    Successors(parts_, bound_).Visit(state, kInfiniteTicks, this);
  }
  void OnSuccessor(const SearchState& next, Ticks cost, int part) override {
    CHECK(cost >= 0);
    used_.push_back(part);
    cost_ += cost;
    Follow(SearchState(next));
    cost_ -= cost;
    used_.pop_back();
  }

  int64_t paths = 0;
  std::set<std::vector<int>> seen;

 private:
  const CoverProblem& problem_;
  const PartTable& parts_;
  const DualBound& bound_;
  std::vector<int> used_;
  Ticks cost_ = 0;
};

TEST_CASE("moves meet each acyclic cover on one path, at its cost, and no cyclic one") {
  int64_t cyclic = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const CoverProblem problem = RandomProblem(seed, {9, seed % 2 == 0, seed % 3 == 0});
    const PartTable parts(problem);
    const DualBound bound(problem, parts);
    if (bound.unheld_node() >= 0) continue;
    const OracleResult expected = Oracle(problem).Run();
    PathCounter counter(problem, parts, bound);
    counter.Follow(SearchState());
    CHECK(counter.paths == expected.acyclic_covers);
    cyclic += expected.cyclic_covers;
  }
  CHECK(cyclic > 100);
}

}  // namespace
}  // namespace tvm::collage::testing
