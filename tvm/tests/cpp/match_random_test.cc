// SPDX-License-Identifier: Apache-2.0
// The matcher against naive ones that copy their bindings at every choice: the first that succeeds,
// as TVM, and all of them.
#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "random_graph.h"
#include "src/relay/collage/match/matcher.h"

namespace tvm::collage::testing {
namespace {

using namespace pattern;
using Bound = std::map<const Pattern*, NodeIndex>;

std::optional<Bound> Naive(const DataflowGraph& graph, const DataflowPattern& p, NodeIndex index,
                           Bound bound);

std::optional<Bound> NaiveAll(const DataflowGraph& graph, std::vector<DataflowPattern> patterns,
                              const std::vector<NodeIndex>& nodes, Bound bound) {
  if (patterns.size() != nodes.size()) return std::nullopt;
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto next = Naive(graph, patterns[i], nodes[i], std::move(bound));
    if (!next) return std::nullopt;
    bound = std::move(*next);
  }
  return bound;
}

std::optional<Bound> NaiveKind(const DataflowGraph& graph, const DataflowPattern& p,
                               NodeIndex index, const Bound& bound) {
  const Node& node = graph[index];
  switch (p->kind) {
    case PatternKind::kWildcard:
      return bound;
    case PatternKind::kConstant:
      if (node.type != NodeType::kConstant) return std::nullopt;
      return bound;
    case PatternKind::kProjection:
      if (node.type != NodeType::kProjection) return std::nullopt;
      if (p->projection >= 0 && p->projection != node.projection) return std::nullopt;
      return Naive(graph, p->children[0], node.inputs[0], bound);
    case PatternKind::kTuple:
      if (node.type != NodeType::kTuple) return std::nullopt;
      if (p->any_children) return bound;
      return NaiveAll(graph, p->children, node.inputs, bound);
    case PatternKind::kAlternative: {
      auto left = Naive(graph, p->children[0], index, bound);
      return left ? left : Naive(graph, p->children[1], index, bound);
    }
    case PatternKind::kCall: {
      if (!node.IsOpCall(p->children[0]->name)) return std::nullopt;
      if (p->any_children) return bound;
      std::vector<DataflowPattern> args(p->children.begin() + 1, p->children.end());
      auto straight = NaiveAll(graph, args, graph.Args(index), bound);
      if (straight || node.name != "add") return straight;
      return NaiveAll(graph, {args.rbegin(), args.rend()}, graph.Args(index), bound);
    }
    default:
      return std::nullopt;
  }
}

std::optional<Bound> Naive(const DataflowGraph& graph, const DataflowPattern& p, NodeIndex index,
                           Bound bound) {
  auto seen = bound.find(p.get());
  if (seen != bound.end()) {
    if (seen->second != index) return std::nullopt;
    return bound;
  }
  auto result = NaiveKind(graph, p, index, bound);
  if (result) (*result)[p.get()] = index;
  return result;
}

// All ways: each bound that any option at any choice leads to.
std::set<Bound> Every(const DataflowGraph& graph, const DataflowPattern& p, NodeIndex index,
                      const Bound& bound);

std::set<Bound> EveryOf(const DataflowGraph& graph, const std::vector<DataflowPattern>& patterns,
                        const std::vector<NodeIndex>& nodes, const Bound& bound) {
  if (patterns.size() != nodes.size()) return {};
  std::set<Bound> ways = {bound};
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::set<Bound> next;
    for (const Bound& way : ways) next.merge(Every(graph, patterns[i], nodes[i], way));
    ways = std::move(next);
  }
  return ways;
}

std::set<Bound> EveryKind(const DataflowGraph& graph, const DataflowPattern& p, NodeIndex index,
                          const Bound& bound) {
  const Node& node = graph[index];
  if (p->kind == PatternKind::kProjection) {
    if (!NaiveKind(graph, pattern::Projection(Wildcard(), p->projection), index, {})) return {};
    return Every(graph, p->children[0], node.inputs[0], bound);
  }
  if (p->kind == PatternKind::kAlternative) {
    std::set<Bound> ways = Every(graph, p->children[0], index, bound);
    ways.merge(Every(graph, p->children[1], index, bound));
    return ways;
  }
  if (p->kind == PatternKind::kTuple && node.type == NodeType::kTuple && !p->any_children) {
    return EveryOf(graph, p->children, node.inputs, bound);
  }
  if (p->kind == PatternKind::kCall && !p->any_children) {
    if (!node.IsOpCall(p->children[0]->name)) return {};
    std::vector<DataflowPattern> args(p->children.begin() + 1, p->children.end());
    std::set<Bound> ways = EveryOf(graph, args, graph.Args(index), bound);
    if (node.name == "add") {
      ways.merge(EveryOf(graph, {args.rbegin(), args.rend()}, graph.Args(index), bound));
    }
    return ways;
  }
  auto way = NaiveKind(graph, p, index, bound);
  if (!way) return {};
  return {*way};
}

std::set<Bound> Every(const DataflowGraph& graph, const DataflowPattern& p, NodeIndex index,
                      const Bound& bound) {
  auto seen = bound.find(p.get());
  if (seen != bound.end())
    return seen->second == index ? std::set<Bound>{bound} : std::set<Bound>{};
  std::set<Bound> ways;
  for (Bound way : EveryKind(graph, p, index, bound)) {
    way[p.get()] = index;
    ways.insert(std::move(way));
  }
  return ways;
}

// The naive ones do not bind callees.
Bound BoundOf(const Match& match) {
  Bound of_patterns;
  for (const auto& [part, index] : match.bindings) {
    if (part->kind != PatternKind::kOp) of_patterns[part] = index;
  }
  return of_patterns;
}

// Describes the neighbourhood of a node, loosened here and there, so that it matches often.
class RandomPattern {
 public:
  RandomPattern(const DataflowGraph& graph, std::mt19937* random)
      : graph_(graph), random_(random) {}

  DataflowPattern Make(NodeIndex index, int depth) {
    if (!made_.empty() && Below(8) == 0) return made_[Below(static_cast<int>(made_.size()))];
    made_.push_back(MakeNew(index, depth));
    return made_.back();
  }

 private:
  int Below(int n) { return static_cast<int>((*random_)() % static_cast<unsigned>(n)); }

  DataflowPattern MakeNew(NodeIndex index, int depth) {
    const Node& node = graph_[index];
    if (depth == 0 || Below(6) == 0) return Wildcard();
    if (Below(6) == 0) {
      DataflowPattern other = Make(Below(graph_.size()), depth - 1);
      DataflowPattern right = Make(index, depth - 1);
      return Below(2) ? Alternative(other, right) : Alternative(right, other);
    }
    Patterns parts;
    for (NodeIndex arg : graph_.Args(index)) parts.push_back(Make(arg, depth - 1));
    if (parts.size() > 1 && Below(4) == 0) std::swap(parts[0], parts[1]);
    const bool is_open = Below(6) == 0;
    switch (node.type) {
      case NodeType::kCall:
        return is_open ? Call(node.name, std::nullopt) : Call(node.name, parts);
      case NodeType::kTuple:
        return is_open ? Tuple(std::nullopt) : Tuple(parts);
      case NodeType::kProjection:
        return Projection(parts[0], Below(2) ? node.projection : -1);
      case NodeType::kConstant:
        return Constant();
      default:
        return Wildcard();
    }
  }

  const DataflowGraph& graph_;
  std::mt19937* random_;
  std::vector<DataflowPattern> made_;
};

}  // namespace

TEST_CASE("match: equal to a naive matcher on random graphs and patterns") {
  std::mt19937 random(3);
  int num_matches = 0;
  int num_others = 0;
  int num_failures = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = RandomGraphText(&random, {8, true});
    NamedGraph g = G(text);
    const NodeIndex about = static_cast<NodeIndex>(random() % g.graph.size());
    DataflowPattern pattern = RandomPattern(g.graph, &random).Make(about, 4);
    CAPTURE(text);
    CAPTURE(Summary(pattern));
    size_t next = 0;
    int64_t num_cut = 0;
    const std::vector<Match> found = FindMatches(g.graph, pattern, &num_cut);
    for (NodeIndex root = 0; root < g.graph.size(); ++root) {
      auto expected = Naive(g.graph, pattern, root, {});
      ++(expected ? num_matches : num_failures);
      const bool is_found = next < found.size() && found[next].root == root;
      REQUIRE(is_found == expected.has_value());
      if (!is_found) continue;
      REQUIRE(BoundOf(found[next]) == *expected);
      std::set<Bound> others;
      const size_t first = next;
      for (; next < found.size() && found[next].root == root; ++next) {
        REQUIRE(found[next].inside.IsSubsetOf(g.graph.placeable()));
        REQUIRE(others.insert(BoundOf(found[next])).second);
      }
      if (num_cut == 0) REQUIRE(others == Every(g.graph, pattern, root, {}));
      num_others += static_cast<int>(next - first) - 1;
    }
    REQUIRE(next == found.size());
  }
  CHECK(num_matches > 3000);
  CHECK(num_others > 300);
  CHECK(num_failures > 3000);
}

}  // namespace tvm::collage::testing
