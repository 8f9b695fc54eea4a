// SPDX-License-Identifier: Apache-2.0
// Combine against brute force: which subsets can pairs of smaller subsets build at all?
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "random_graph.h"
#include "src/relay/collage/rules/base_rules.h"
#include "src/relay/collage/rules/combinators.h"

namespace tvm::collage::testing {
namespace {

struct Pair {
  OpKind upstream, downstream;
};

const std::vector<Pair> kTvmPairs = {{OpKind::kOutEWiseFusable, OpKind::kBroadcast},
                                     {OpKind::kBroadcast, OpKind::kCommReduce},
                                     {OpKind::kInjective, OpKind::kInjective}};

// Builds subsets from any two disjoint, touching, convex ones whose kinds agree.
class BruteForce {
 public:
  BruteForce(const DataflowGraph& graph, std::vector<Pair> pairs)
      : graph_(graph), pairs_(std::move(pairs)), nodes_(graph.placeable().ToVector()) {}

  using Bits = uint32_t;
  IndexSet SetOf(Bits bits) const {
    IndexSet set(graph_.size());
    for (size_t k = 0; k < nodes_.size(); ++k) {
      if (bits >> k & 1) set.Add(nodes_[k]);
    }
    return set;
  }

  bool CanBuild(Bits bits) {
    auto [entry, is_new] = known_.try_emplace(bits, false);
    if (!is_new) return entry->second;
    const bool result = Build(bits);
    return known_[bits] = result;
  }

  Bits All() const { return static_cast<Bits>((uint64_t{1} << nodes_.size()) - 1); }

 private:
  OpKind KindOf(Bits bits) const { return SubGraph::Make(graph_, SetOf(bits)).kind(); }

  bool Feeds(Bits upstream, Bits downstream) const {
    const IndexSet from = SetOf(upstream);
    const IndexSet to = SetOf(downstream);
    bool feeds = false;
    to.ForEach([&](NodeIndex i) {
      for (NodeIndex input : graph_[i].inputs) feeds |= from.Contains(input);
    });
    return feeds;
  }

  bool Build(Bits bits) {
    const bool is_single = (bits & (bits - 1)) == 0;
    if (is_single) return KindOf(bits) <= OpKind::kOutEWiseFusable;
    if (!IsConvex(graph_, SetOf(bits))) return false;
    for (Bits up = (bits - 1) & bits; up != 0; up = (up - 1) & bits) {
      const Bits down = bits & ~up;
      bool fires = false;
      for (const Pair& pair : pairs_) {
        fires |= KindOf(up) <= pair.upstream && KindOf(down) <= pair.downstream;
      }
      if (fires && Feeds(up, down) && CanBuild(up) && CanBuild(down)) return true;
    }
    return false;
  }

  const DataflowGraph& graph_;
  std::vector<Pair> pairs_;
  std::vector<int> nodes_;
  std::map<Bits, bool> known_;
};

void Compare(const NamedGraph& g, const std::vector<Pair>& pairs, CombineLimits limits,
             int* num_unions) {
  std::vector<CombinerPtr> combiners;
  for (const Pair& pair : pairs)
    combiners.push_back(ByKindCombiner(pair.upstream, pair.downstream));
  limits.max_candidates_per_node = 1 << 20;
  RuleLog log;
  std::map<IndexSet, int> found;
  auto rule = CombineRule(OpCallByKindRule(), combiners, limits);
  for (const auto& candidate : rule->AllCandidates(g.graph, 0, &log)) {
    ++found[candidate.sub_graph.inside()];
  }
  BruteForce brute(g.graph, pairs);
  for (BruteForce::Bits bits = 1; bits <= brute.All(); ++bits) {
    const IndexSet set = brute.SetOf(bits);
    const SubGraph sub_graph = SubGraph::Make(g.graph, set);
    const bool expected = sub_graph.IsValid(g.graph, limits.Config()) && brute.CanBuild(bits);
    auto entry = found.find(set);
    if ((entry != found.end()) != expected) {
      FAIL((expected ? "missing: " : "wrong: ") << g.Names(set));
    }
    if (!expected) continue;
    REQUIRE(entry->second == 1);
    *num_unions += sub_graph.size() > 1;
  }
}

CombineLimits Limits(int max_depth, int max_exits, bool allow_taps) {
  CombineLimits limits;
  limits.max_depth = max_depth;
  limits.max_exits = max_exits;
  limits.allow_taps = allow_taps;
  return limits;
}

}  // namespace

TEST_CASE("rule Combine: with one exit, exactly what pairs of convex parts can build") {
  std::mt19937 random(5);
  int num_unions = 0;
  RandomGraphOptions options;
  options.num_nodes = 8;
  for (int round = 0; round < 150; ++round) {
    const std::string text = RandomGraphText(&random, options);
    CAPTURE(text);
    NamedGraph g = G(text);
    Compare(g, kTvmPairs, Limits(round % 2 ? 0 : 3, 1, false), &num_unions);
  }
  CHECK(num_unions > 500);
}

TEST_CASE("rule Combine: with any exits, all connected convex sets of injective calls") {
  std::mt19937 random(6);
  int num_unions = 0;
  RandomGraphOptions options;
  options.num_nodes = 7;
  options.ops = {"relu@0", "add@1", "reshape@2", "sort@8"};
  for (int round = 0; round < 60; ++round) {
    const std::string text = RandomGraphText(&random, options);
    CAPTURE(text);
    NamedGraph g = G(text);
    Compare(g, kTvmPairs, Limits(0, round % 3, round % 2), &num_unions);
  }
  CHECK(num_unions > 500);
}

TEST_CASE("rule Combine: with any exits and any kinds") {
  std::mt19937 random(8);
  int num_unions = 0;
  RandomGraphOptions options;
  options.num_nodes = 7;
  const std::vector<Pair> any = {{OpKind::kOutEWiseFusable, OpKind::kOutEWiseFusable}};
  for (int round = 0; round < 60; ++round) {
    const std::string text = RandomGraphText(&random, options);
    CAPTURE(text);
    NamedGraph g = G(text);
    Compare(g, any, Limits(0, 0, true), &num_unions);
  }
  CHECK(num_unions > 500);
}

}  // namespace tvm::collage::testing
