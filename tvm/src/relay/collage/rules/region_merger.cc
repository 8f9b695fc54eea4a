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

std::vector<int> RegionMerger::Neighbours(int region) const {
  std::vector<int> result;
  auto add = [&](NodeIndex i) {
    if (tile_of_[i] < 0) return;
    const int other = region_of_[tile_of_[i]];
    if (other != region) result.push_back(other);
  };
  for (int t : regions_[region].tiles) {
    for (NodeIndex i : tiles_[t]->inputs()) add(i);
    for (NodeIndex i : tiles_[t]->outputs()) add(i);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
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

bool RegionMerger::CanMerge(const Region& a, const Region& b) const {
  if (graph_[a.inside.First()].region != graph_[b.inside.First()].region) return false;
  if (!IsConvex(graph_, a.inside | b.inside)) return false;
  auto feeds = [&](const Region& upstream, const Region& downstream) {
    return std::any_of(downstream.tiles.begin(), downstream.tiles.end(), [&](int t) {
      const auto& inputs = tiles_[t]->inputs();
      return std::any_of(inputs.begin(), inputs.end(),
                         [&](NodeIndex i) { return upstream.inside.Contains(i); });
    });
  };
  if (!feeds(a, b) || !feeds(b, a)) return true;
  std::vector<int> tiles = a.tiles;
  tiles.insert(tiles.end(), b.tiles.begin(), b.tiles.end());
  return !HasTileCycle(tiles);
}

void RegionMerger::Absorb(int region, int other) {
  Region& from = regions_[other];
  Region& to = regions_[region];
  for (int t : from.tiles) region_of_[t] = region;
  to.inside |= from.inside;
  to.tiles.insert(to.tiles.end(), from.tiles.begin(), from.tiles.end());
  from = Region();
}

std::vector<std::vector<const SubGraph*>> RegionMerger::Merge() {
  // Later passes find pairs that could merge only after another merge had closed a way round.
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (int t = 0; t < static_cast<int>(tiles_.size()); ++t) {
      const int region = region_of_[t];
      if (regions_[region].tiles.front() != t) continue;
      for (int other : Neighbours(region)) {
        if (!CanMerge(regions_[region], regions_[other])) continue;
        Absorb(region, other);
        is_changed = true;
      }
    }
  }
  std::vector<const Region*> merged;
  for (const Region& region : regions_) {
    if (!region.tiles.empty()) merged.push_back(&region);
  }
  std::sort(merged.begin(), merged.end(), [](const Region* a, const Region* b) {
    return a->inside.First() < b->inside.First();
  });
  std::vector<std::vector<const SubGraph*>> result;
  for (const Region* region : merged) {
    result.emplace_back();
    for (int t : region->tiles) result.back().push_back(tiles_[t]);
  }
  return result;
}

}  // namespace tvm::collage
