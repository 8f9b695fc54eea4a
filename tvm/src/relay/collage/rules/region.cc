// SPDX-License-Identifier: Apache-2.0
// Region: the maximal convex areas of a sub-rule's candidates.
// Test: tvm/tests/cpp/rules_region_test.cc.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "combinators.h"
#include "marks.h"
#include "merge_parts.h"
#include "work_estimate.h"

namespace tvm::collage {
namespace {

using TileMarks = std::unordered_map<const SubGraph*, Marks>;

// Disjoint sub-candidates, the largest first, then the earliest.
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

// A lone tuple that is read only outside, or a projection of an outside tuple.
bool IsBorderGlue(const DataflowGraph& graph, const SubGraph& tile, const IndexSet& inside) {
  if (tile.size() != 1 || !tile.nested().empty()) return false;
  const Node& node = graph[tile.inside().First()];
  if (node.type == NodeType::kProjection) return !inside.Contains(node.inputs[0]);
  if (node.type != NodeType::kTuple) return false;
  return std::none_of(node.outputs.begin(), node.outputs.end(),
                      [&](NodeIndex reader) { return inside.Contains(reader); });
}

// Sources and sinks only are dropped, so what is left stays convex.
Tiles WithoutBorderGlue(const DataflowGraph& graph, Tiles tiles) {
  size_t num_tiles;
  do {
    num_tiles = tiles.size();
    IndexSet inside(graph.size());
    for (const SubGraph* tile : tiles) inside |= tile->inside();
    tiles.erase(
        std::remove_if(tiles.begin(), tiles.end(),
                       [&](const SubGraph* tile) { return IsBorderGlue(graph, *tile, inside); }),
        tiles.end());
  } while (tiles.size() < num_tiles);
  return tiles;
}

// The tiles by falling work, those that launch no kernel left out.
Tiles MostExpensive(const DataflowGraph& graph, const Tiles& tiles) {
  std::vector<std::pair<double, const SubGraph*>> priced;
  for (const SubGraph* tile : tiles) {
    const double work = WorkOf(graph, *tile);
    if (work > 0) priced.emplace_back(work, tile);
  }
  std::stable_sort(priced.begin(), priced.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Tiles result;
  for (const auto& [work, tile] : priced) result.push_back(tile);
  return result;
}

class Region : public PartitionRule {
 public:
  Region(RulePtr sub_rule, SubGraphConfig config, bool keep_parts, int max_cuts)
      : PartitionRule("region"),
        sub_rule_(std::move(sub_rule)),
        config_(config),
        keep_parts_(keep_parts),
        max_cuts_(max_cuts) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    const auto sub_candidates = CandidatesOf(sub_rule_, graph, spec, log);
    CandidateSet result;
    if (keep_parts_) {
      for (const CandidatePartition& candidate : sub_candidates) result.Add(candidate);
    }
    TileMarks marks;
    for (const CandidatePartition& candidate : sub_candidates) {
      marks.emplace(&candidate.sub_graph, Marks::Of(graph, candidate));
    }
    for (const Tiles& region : MergeTiles(graph, ChooseTiles(graph, sub_candidates))) {
      AppendAreas(graph, region, marks, spec, log, &result);
      AppendCutAreas(graph, region, marks, spec, log, &result);
    }
    return result.Take();
  }

  std::string Summary() const override {
    const std::string cuts = max_cuts_ > 0 ? "cuts " + std::to_string(max_cuts_) + ", " : "";
    return "Region(" + cuts + sub_rule_->Summary() + ")";
  }

 private:
  // What is left of the region without its most expensive tile, without two, ...
  void AppendCutAreas(const DataflowGraph& graph, const Tiles& region, const TileMarks& marks,
                      int spec, RuleLog* log, CandidateSet* out) const {
    const Tiles dear = max_cuts_ > 0 ? MostExpensive(graph, region) : Tiles();
    Tiles left = region;
    for (size_t cut = 0; cut < dear.size() && static_cast<int>(cut) < max_cuts_; ++cut) {
      left.erase(std::find(left.begin(), left.end(), dear[cut]));
      for (const Tiles& area : MergeTiles(graph, left)) {
        AppendAreas(graph, area, marks, spec, log, out);
      }
    }
  }

  // A merged region without the glue at its border, which may leave several pieces.
  void AppendAreas(const DataflowGraph& graph, const Tiles& region, const TileMarks& marks,
                   int spec, RuleLog* log, CandidateSet* out) const {
    for (const Tiles& tiles : MergeTiles(graph, WithoutBorderGlue(graph, region))) {
      if (tiles.size() < 2) continue;
      CandidatePartition candidate{JoinTiles(graph, tiles), spec, name()};
      Marks joined;
      for (const SubGraph* tile : tiles) joined = joined.With(marks.at(tile));
      joined.SetOn(&candidate);
      if (IsValidOrRefused(graph, candidate, config_, log)) out->Add(std::move(candidate));
    }
  }

  RulePtr sub_rule_;
  SubGraphConfig config_;
  bool keep_parts_;
  int max_cuts_;
};

}  // namespace

RulePtr RegionRule(RulePtr sub_rule, SubGraphConfig config, bool keep_parts, int max_cuts) {
  return std::make_shared<Region>(std::move(sub_rule), config, keep_parts, max_cuts);
}

}  // namespace tvm::collage
