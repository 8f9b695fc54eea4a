// SPDX-License-Identifier: Apache-2.0
#include "region_merger.h"

#include <algorithm>
#include <utility>

namespace tvm::collage {

RegionMerger::RegionMerger(const DataflowGraph& graph, std::vector<const SubGraph*> tiles)
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

/*! \brief Tiles that `tile` reads, then those that read it. */
std::vector<int> RegionMerger::Neighbours(int tile) const {
  std::vector<int> result;
  for (const auto* nodes : {&tiles_[tile]->inputs(), &tiles_[tile]->outputs()}) {
    for (NodeIndex i : *nodes) {
      if (tile_of_[i] >= 0) result.push_back(tile_of_[i]);
    }
  }
  return result;
}

/*! \brief Kahn's order over the tiles, edges between nodes of two of them. */
bool RegionMerger::HasTileCycle(const std::vector<int>& tiles) const {
  std::vector<int> position(tiles_.size(), -1);
  for (size_t k = 0; k < tiles.size(); ++k) position[tiles[k]] = static_cast<int>(k);
  std::vector<std::vector<int>> readers(tiles.size());
  std::vector<int> waiting(tiles.size(), 0);
  for (size_t k = 0; k < tiles.size(); ++k) {
    for (NodeIndex input : tiles_[tiles[k]]->inputs()) {
      if (tile_of_[input] < 0 || position[tile_of_[input]] < 0) continue;
      readers[position[tile_of_[input]]].push_back(static_cast<int>(k));
      ++waiting[k];
    }
  }
  std::vector<int> ready;
  for (size_t k = 0; k < tiles.size(); ++k) {
    if (waiting[k] == 0) ready.push_back(static_cast<int>(k));
  }
  size_t num_done = 0;
  while (!ready.empty()) {
    const int k = ready.back();
    ready.pop_back();
    ++num_done;
    for (int reader : readers[k]) {
      if (--waiting[reader] == 0) ready.push_back(reader);
    }
  }
  return num_done < tiles.size();
}

bool RegionMerger::CanMerge(const Region& large, const Region& small) const {
  if (graph_[large.inside.First()].region != graph_[small.inside.First()].region) return false;
  if (!IsConvexUnion(graph_, large.inside, small.inside)) return false;
  bool reads = false;
  bool feeds = false;
  for (int t : small.tiles) {
    for (NodeIndex i : tiles_[t]->inputs()) reads |= large.inside.Contains(i);
    for (NodeIndex i : tiles_[t]->outputs()) feeds |= large.inside.Contains(i);
  }
  if (!reads || !feeds) return true;
  std::vector<int> tiles = large.tiles;
  tiles.insert(tiles.end(), small.tiles.begin(), small.tiles.end());
  return !HasTileCycle(tiles);
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

std::vector<std::vector<const SubGraph*>> RegionMerger::Merge() {
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
  std::vector<std::vector<const SubGraph*>> result;
  for (const Region* region : merged) {
    result.emplace_back();
    for (int t : region->tiles) result.back().push_back(tiles_[t]);
  }
  return result;
}

}  // namespace tvm::collage
