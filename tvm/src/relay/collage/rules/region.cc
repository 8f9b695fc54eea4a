// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "combinators.h"
#include "region_merger.h"

namespace tvm::collage {
namespace {

using Tiles = std::vector<const SubGraph*>;

/*! \brief Disjoint sub-candidates, the largest first, then the earliest. */
Tiles ChooseTiles(const DataflowGraph& graph, const std::vector<CandidatePartition>& candidates) {
  Tiles all;
  for (const CandidatePartition& candidate : candidates) {
    if (candidate.sub_graph.IsValid(graph, SubGraphConfig())) all.push_back(&candidate.sub_graph);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const SubGraph* a, const SubGraph* b) { return a->size() > b->size(); });
  Tiles chosen;
  IndexSet covered(graph.size());
  for (const SubGraph* tile : all) {
    if (tile->inside().Intersects(covered)) continue;
    covered |= tile->inside();
    chosen.push_back(tile);
  }
  return chosen;
}

IndexSet UnionOf(const DataflowGraph& graph, const Tiles& tiles) {
  IndexSet inside(graph.size());
  for (const SubGraph* tile : tiles) inside |= tile->inside();
  return inside;
}

/*! \brief A lone tuple that is read only outside, or a projection of an outside tuple. */
bool IsBorderGlue(const DataflowGraph& graph, const SubGraph& tile, const IndexSet& inside) {
  if (tile.size() != 1 || !tile.nested().empty()) return false;
  const Node& node = graph[tile.inside().First()];
  if (node.type == NodeType::kProjection) return !inside.Contains(node.inputs[0]);
  if (node.type != NodeType::kTuple) return false;
  return std::none_of(node.outputs.begin(), node.outputs.end(),
                      [&](NodeIndex reader) { return inside.Contains(reader); });
}

/*! \brief Sources and sinks only are dropped, so what is left stays convex. */
Tiles WithoutBorderGlue(const DataflowGraph& graph, Tiles tiles) {
  size_t num_tiles;
  do {
    num_tiles = tiles.size();
    const IndexSet inside = UnionOf(graph, tiles);
    tiles.erase(
        std::remove_if(tiles.begin(), tiles.end(),
                       [&](const SubGraph* tile) { return IsBorderGlue(graph, *tile, inside); }),
        tiles.end());
  } while (tiles.size() < num_tiles);
  return tiles;
}

/*! \brief The pieces that hang together; no path joins two pieces of a convex set from outside. */
std::vector<Tiles> Pieces(const DataflowGraph& graph, const Tiles& tiles) {
  std::vector<int> tile_of(graph.size(), -1);
  for (size_t t = 0; t < tiles.size(); ++t) {
    tiles[t]->inside().ForEach([&](NodeIndex i) { tile_of[i] = static_cast<int>(t); });
  }
  std::vector<Tiles> pieces;
  std::vector<bool> is_taken(tiles.size(), false);
  auto take = [&](size_t t) {
    if (is_taken[t]) return;
    is_taken[t] = true;
    pieces.back().push_back(tiles[t]);
  };
  for (size_t t = 0; t < tiles.size(); ++t) {
    if (is_taken[t]) continue;
    pieces.emplace_back();
    take(t);
    for (size_t k = 0; k < pieces.back().size(); ++k) {
      const SubGraph* tile = pieces.back()[k];
      for (const auto* border : {&tile->inputs(), &tile->outputs()}) {
        for (NodeIndex i : *border) {
          if (tile_of[i] >= 0) take(tile_of[i]);
        }
      }
    }
  }
  return pieces;
}

class Region : public PartitionRule {
 public:
  Region(RulePtr sub_rule, SubGraphConfig config, bool keep_parts)
      : PartitionRule("region"),
        sub_rule_(std::move(sub_rule)),
        config_(config),
        keep_parts_(keep_parts) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    const auto sub_candidates = sub_rule_->AllCandidates(graph, spec, log);
    CandidateSet result;
    if (keep_parts_) {
      for (const CandidatePartition& candidate : sub_candidates) result.Add(candidate);
    }
    for (Tiles& merged : RegionMerger(graph, ChooseTiles(graph, sub_candidates)).Merge()) {
      for (const Tiles& tiles : Pieces(graph, WithoutBorderGlue(graph, std::move(merged)))) {
        if (tiles.size() < 2) continue;
        std::vector<NestedSubGraph> nested;
        for (const SubGraph* tile : tiles) {
          nested.insert(nested.end(), tile->nested().begin(), tile->nested().end());
        }
        CandidatePartition candidate;
        candidate.sub_graph = SubGraph::Make(graph, UnionOf(graph, tiles), std::move(nested));
        candidate.spec = spec;
        candidate.rule = name();
        std::string why;
        if (candidate.sub_graph.IsValid(graph, config_, &why)) {
          result.Add(std::move(candidate));
        } else {
          log->Refuse(name(), candidate.sub_graph.inside(), why);
        }
      }
    }
    return result.Take();
  }

  std::string Summary() const override { return "Region(" + sub_rule_->Summary() + ")"; }

 private:
  RulePtr sub_rule_;
  SubGraphConfig config_;
  bool keep_parts_;
};

}  // namespace

RulePtr RegionRule(RulePtr sub_rule, SubGraphConfig config, bool keep_parts) {
  return std::make_shared<Region>(std::move(sub_rule), config, keep_parts);
}

}  // namespace tvm::collage
