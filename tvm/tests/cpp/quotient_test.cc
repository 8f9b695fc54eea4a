// SPDX-License-Identifier: Apache-2.0
// FindCycle: sets that cannot run one after the other, named in the order in which they wait.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "graph_text.h"
#include "random_graph.h"
#include "src/relay/collage/graph/sub_graph.h"

namespace tvm::collage::testing {
namespace {

std::vector<IndexSet> Sets(const NamedGraph& g, const std::vector<std::string>& texts) {
  std::vector<IndexSet> sets;
  for (const std::string& text : texts) sets.push_back(g.Set(text));
  return sets;
}

std::vector<int> Sorted(std::vector<int> cycle) {
  std::sort(cycle.begin(), cycle.end());
  return cycle;
}

// Can the sets be taken away one by one, each when all that it reads is gone?
bool CanRun(const DataflowGraph& graph, std::vector<IndexSet> sets) {
  while (!sets.empty()) {
    IndexSet left(graph.size());
    for (const IndexSet& set : sets) left |= set;
    auto is_ready = [&](const IndexSet& set) {
      bool is_ready = true;
      set.ForEach([&](NodeIndex i) {
        for (NodeIndex input : graph[i].inputs) {
          is_ready &= !left.Contains(input) || set.Contains(input);
        }
      });
      return is_ready;
    };
    auto ready = std::find_if(sets.begin(), sets.end(), is_ready);
    if (ready == sets.end()) return false;
    sets.erase(ready);
  }
  return true;
}

}  // namespace

TEST_CASE("quotient: a chain has no cycle, however it is cut") {
  NamedGraph g = G("x:var; a=relu(x); b=relu(a); c=relu(b)");
  CHECK(FindCycle(g.graph, Sets(g, {"a", "b", "c"})).empty());
  CHECK(FindCycle(g.graph, Sets(g, {"b c", "a"})).empty());
  CHECK(FindCycle(g.graph, Sets(g, {"a b c"})).empty());
  CHECK(FindCycle(g.graph, {}).empty());
}

TEST_CASE("quotient: a set that leaves and comes back waits for what is between") {
  NamedGraph g = G("x:var; a=relu(x); b=relu(a); c=relu(b)");
  CHECK(Sorted(FindCycle(g.graph, Sets(g, {"b", "a c"}))) == std::vector<int>{0, 1});
}

TEST_CASE("quotient: each member of the cycle reads the next one, nobody else is named") {
  NamedGraph g =
      G("x:var; a=relu(x); b=relu(x); c=relu(x); p=relu(a); q=relu(b); r=relu(c); s=relu(x);"
        "t=(p,q,r,s)");
  const std::vector<IndexSet> sets = Sets(g, {"s", "a q", "b r", "c p", "t"});
  const std::vector<int> cycle = FindCycle(g.graph, sets);
  REQUIRE(Sorted(cycle) == std::vector<int>{1, 2, 3});
  for (size_t k = 0; k < cycle.size(); ++k) {
    const IndexSet& next = sets[cycle[(k + 1) % cycle.size()]];
    bool reads_next = false;
    sets[cycle[k]].ForEach([&](NodeIndex i) {
      for (NodeIndex input : g.graph[i].inputs) reads_next |= next.Contains(input);
    });
    CHECK(reads_next);
  }
}

TEST_CASE("quotient: random sets have a cycle exactly when they cannot be taken away in turn") {
  std::mt19937 rng(7);
  int with_cycle = 0;
  constexpr int kRounds = 1500;
  for (int round = 0; round < kRounds; ++round) {
    RandomGraphOptions options;
    options.num_nodes = 2 + round % 6;
    const NamedGraph named = G(RandomGraphText(&rng, options));
    const DataflowGraph& graph = named.graph;
    std::vector<IndexSet> sets;
    std::vector<IndexSet> all(1 + rng() % 5, IndexSet(graph.size()));
    graph.placeable().ForEach([&](NodeIndex i) { all[rng() % all.size()].Add(i); });
    for (const IndexSet& set : all) {
      if (!set.IsEmpty()) sets.push_back(set);
    }
    const bool has_cycle = !FindCycle(graph, sets).empty();
    CHECK(has_cycle == !CanRun(graph, sets));
    with_cycle += has_cycle;
  }
  CHECK(with_cycle > kRounds / 10);
  CHECK(with_cycle < kRounds * 9 / 10);
}

}  // namespace tvm::collage::testing
