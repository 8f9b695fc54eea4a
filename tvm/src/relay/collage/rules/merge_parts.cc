// SPDX-License-Identifier: Apache-2.0
#include "merge_parts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tvm::collage {
namespace {

using Parts = std::vector<CandidatePartition>;

class RegionMerger {
 public:
  RegionMerger(const DataflowGraph& graph, Tiles tiles);
  std::vector<Tiles> Merge();

 private:
  struct Region {
    IndexSet inside;
    std::vector<int> tiles;
  };

  std::vector<int> Neighbours(int tile) const;
  // `small` is the one with fewer tiles, for speed only.
  bool CanMerge(const Region& large, const Region& small) const;
  bool TryMerge(int region, int other);

  const DataflowGraph& graph_;
  Tiles tiles_;
  std::vector<int> tile_of_;    // of a node, -1 outside all tiles
  std::vector<int> region_of_;  // of a tile
  std::vector<Region> regions_;
};

RegionMerger::RegionMerger(const DataflowGraph& graph, Tiles tiles)
    : graph_(graph), tiles_(std::move(tiles)), tile_of_(graph.size(), -1) {
  // A tile comes after those that it reads, as far as tiles can be ordered at all.
  std::sort(tiles_.begin(), tiles_.end(), [](const SubGraph* a, const SubGraph* b) {
    return a->inside().Last() < b->inside().Last();
  });
  for (int t = 0; t < static_cast<int>(tiles_.size()); ++t) {
    tiles_[t]->inside().ForEach([&](NodeIndex i) { tile_of_[i] = t; });
    regions_.push_back({tiles_[t]->inside(), {t}});
    region_of_.push_back(t);
  }
}

// Tiles that `tile` reads, then those that read it.
std::vector<int> RegionMerger::Neighbours(int tile) const {
  std::vector<int> result;
  for (const auto* nodes : {&tiles_[tile]->inputs(), &tiles_[tile]->outputs()}) {
    for (NodeIndex i : *nodes) {
      if (tile_of_[i] >= 0) result.push_back(tile_of_[i]);
    }
  }
  return result;
}

bool RegionMerger::CanMerge(const Region& large, const Region& small) const {
  if (graph_[large.inside.First()].scope != graph_[small.inside.First()].scope) return false;
  if (!IsConvexUnion(graph_, large.inside, small.inside)) return false;
  bool reads = false;
  bool feeds = false;
  for (int t : small.tiles) {
    for (NodeIndex i : tiles_[t]->inputs()) reads |= large.inside.Contains(i);
    for (NodeIndex i : tiles_[t]->outputs()) feeds |= large.inside.Contains(i);
  }
  if (!reads || !feeds) return true;
  std::vector<IndexSet> tiles;
  for (const Region* region : {&large, &small}) {
    for (int t : region->tiles) tiles.push_back(tiles_[t]->inside());
  }
  return FindCycle(graph_, tiles).empty();
}

bool RegionMerger::TryMerge(int region, int other) {
  if (regions_[region].tiles.size() < regions_[other].tiles.size()) std::swap(region, other);
  Region& to = regions_[region];
  Region& from = regions_[other];
  if (!CanMerge(to, from)) return false;
  for (int t : from.tiles) region_of_[t] = region;
  to.inside |= from.inside;
  to.tiles.insert(to.tiles.end(), from.tiles.begin(), from.tiles.end());
  from = Region();
  return true;
}

std::vector<Tiles> RegionMerger::Merge() {
  // Later passes find pairs that could merge only after another merge had closed a way round.
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (int t = 0; t < static_cast<int>(tiles_.size()); ++t) {
      for (int neighbour : Neighbours(t)) {
        if (region_of_[t] == region_of_[neighbour]) continue;
        is_changed |= TryMerge(region_of_[t], region_of_[neighbour]);
      }
    }
  }
  std::vector<const Region*> merged;
  for (const Region& region : regions_) {
    if (!region.tiles.empty()) merged.push_back(&region);
  }
  std::sort(merged.begin(), merged.end(),
            [](const Region* a, const Region* b) { return a->inside.First() < b->inside.First(); });
  std::vector<Tiles> result;
  for (const Region* region : merged) {
    result.emplace_back();
    for (int t : region->tiles) result.back().push_back(tiles_[t]);
  }
  return result;
}

// Chooses the joined parts that let all parts run one after the other.
class Joiner {
 public:
  Joiner(const DataflowGraph& graph, const Parts& parts, const Parts& joined)
      : graph_(graph), parts_(parts), joined_(joined), is_joined_(joined.size(), false) {
    std::vector<int> holder(graph.size(), -1);
    for (size_t k = 0; k < joined.size(); ++k) {
      joined[k].sub_graph.inside().ForEach([&](NodeIndex i) { holder[i] = static_cast<int>(k); });
    }
    for (const CandidatePartition& part : parts) {
      joined_of_.push_back(holder[part.sub_graph.inside().First()]);
    }
  }

  // Joins those of [begin, end) one after the other, each if it can. Where all can, none stands in
  // the way of another (a cycle among some would be one among all, as in no joined part its tiles
  // feed each other in a circle), so halves are looked at only where they cannot.
  void Join(size_t begin, size_t end) {
    if (begin == end) return;
    std::fill(is_joined_.begin() + begin, is_joined_.begin() + end, true);
    if (FindCycle(graph_, Sets()).empty()) return;
    std::fill(is_joined_.begin() + begin, is_joined_.begin() + end, false);
    if (end - begin == 1) return;
    const size_t middle = begin + (end - begin) / 2;
    Join(begin, middle);
    Join(middle, end);
  }

  Parts Result() const {
    Parts result;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (!IsInJoined(p)) result.push_back(parts_[p]);
    }
    for (size_t k = 0; k < joined_.size(); ++k) {
      if (is_joined_[k]) result.push_back(joined_[k]);
    }
    return result;
  }

 private:
  bool IsInJoined(size_t part) const {
    return joined_of_[part] >= 0 && is_joined_[joined_of_[part]];
  }
  std::vector<IndexSet> Sets() const {
    std::vector<IndexSet> sets;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (!IsInJoined(p)) sets.push_back(parts_[p].sub_graph.inside());
    }
    for (size_t k = 0; k < joined_.size(); ++k) {
      if (is_joined_[k]) sets.push_back(joined_[k].sub_graph.inside());
    }
    return sets;
  }

  const DataflowGraph& graph_;
  const Parts& parts_;
  const Parts& joined_;
  std::vector<int> joined_of_;  // of a part, -1 for none
  std::vector<bool> is_joined_;
};

}  // namespace

std::vector<Tiles> MergeTiles(const DataflowGraph& graph, Tiles tiles) {
  return RegionMerger(graph, std::move(tiles)).Merge();
}

SubGraph JoinTiles(const DataflowGraph& graph, const Tiles& tiles) {
  // All at once: unions one by one would copy the tiles so far for each tile.
  IndexSet inside(graph.size());
  std::vector<NestedSubGraph> nested;
  for (const SubGraph* tile : tiles) {
    inside |= tile->inside();
    nested.insert(nested.end(), tile->nested().begin(), tile->nested().end());
  }
  return SubGraph::Make(graph, std::move(inside), std::move(nested));
}

Parts MergeParts(const DataflowGraph& graph, const Parts& parts, MergeScope scope) {
  std::map<int, Tiles> tiles_of_spec;
  for (const CandidatePartition& part : parts) {
    if (!part.is_primitive) continue;
    if (scope == MergeScope::kAll || part.is_joinable)
      tiles_of_spec[part.spec].push_back(&part.sub_graph);
  }
  constexpr bool kIsPrimitive = true;
  Parts joined;
  for (const auto& [spec, tiles] : tiles_of_spec) {
    for (const Tiles& region : MergeTiles(graph, tiles)) {
      if (region.size() < 2) continue;
      joined.push_back({JoinTiles(graph, region), spec, kMergedRule, kIsPrimitive});
    }
  }
  Joiner joiner(graph, parts, joined);
  joiner.Join(0, joined.size());
  return joiner.Result();
}

}  // namespace tvm::collage
