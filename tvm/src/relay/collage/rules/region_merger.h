// SPDX-License-Identifier: Apache-2.0
// RegionMerger: joins disjoint tiles into maximal connected unions that are convex and in whose
// inside no tiles feed each other in a circle. Used by region.cc; test: rules_region_test.cc.
#ifndef TVM_RELAY_COLLAGE_RULES_REGION_MERGER_H_
#define TVM_RELAY_COLLAGE_RULES_REGION_MERGER_H_

#include <vector>

#include "../graph/sub_graph.h"

namespace tvm::collage {

class RegionMerger {
 public:
  /*! \brief Tiles are disjoint, each convex and inside one region of the graph. */
  RegionMerger(const DataflowGraph& graph, std::vector<const SubGraph*> tiles);
  /*! \brief Tiles of each region, the regions in order of their first node. */
  std::vector<std::vector<const SubGraph*>> Merge();

 private:
  struct Region {
    IndexSet inside;
    std::vector<int> tiles;
  };

  std::vector<int> Neighbours(int tile) const;
  /*! \brief `small` is the one with fewer tiles, for speed only. */
  bool CanMerge(const Region& large, const Region& small) const;
  bool HasTileCycle(const std::vector<int>& tiles) const;
  bool TryMerge(int region, int other);

  const DataflowGraph& graph_;
  std::vector<const SubGraph*> tiles_;
  std::vector<int> tile_of_;    // of a node, -1 outside all tiles
  std::vector<int> region_of_;  // of a tile
  std::vector<Region> regions_;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_REGION_MERGER_H_
