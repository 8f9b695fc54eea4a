// SPDX-License-Identifier: Apache-2.0
// MergeParts: neighbouring parts of one external backend in a finished cover become one part. The
// result is another plan, to be measured whole, never a discount on the plan's sum. Parts of a
// backend that is known by a TVM pattern table alone are always joined, as TVM's prototype does.
// Precondition: the parts are a cover with an acyclic quotient. Test:
// tvm/tests/cpp/rules_merge_parts_test.cc.
#pragma once

#include <vector>

#include "../graph/candidate_partition.h"

namespace tvm::collage {

using Tiles = std::vector<const SubGraph*>;

// Maximal connected unions of tiles that are convex and in whose inside no tiles feed each other in
// a circle, in the order of their first nodes.
// `tiles` are disjoint, each convex and inside one scope of the graph. Test:
// tvm/tests/cpp/rules_region_test.cc.
std::vector<Tiles> MergeTiles(const DataflowGraph& graph, Tiles tiles);

// All tiles as one sub-graph, composites kept.
SubGraph JoinTiles(const DataflowGraph& graph, const Tiles& tiles);

// Which external parts may be joined: all, or those with is_joinable alone?
enum class MergeScope { kAll, kJoinable };

// Parts of the same backend with is_primitive joined into maximal convex regions, as long as the
// parts together can still run one after the other; a region that prevents it stays apart.
std::vector<CandidatePartition> MergeParts(const DataflowGraph& graph,
                                           const std::vector<CandidatePartition>& parts,
                                           MergeScope scope = MergeScope::kAll);

}  // namespace tvm::collage
