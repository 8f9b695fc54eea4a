// SPDX-License-Identifier: Apache-2.0
// MergeParts: neighbouring parts of one external backend in a finished cover become one part. The
// result is another plan, to be measured whole, never a discount on the plan's sum. Parts of a
// backend that is known by a TVM pattern table alone are always joined, as TVM's prototype does.
// Precondition: the parts are a cover with an acyclic quotient. Test:
// tvm/tests/cpp/rules_merge_parts_test.cc.
#ifndef TVM_RELAY_COLLAGE_RULES_MERGE_PARTS_H_
#define TVM_RELAY_COLLAGE_RULES_MERGE_PARTS_H_

#include <vector>

#include "../graph/candidate_partition.h"

namespace tvm::collage {

/*! \brief Which external parts may be joined: all, or those with is_joinable alone? */
enum class MergeScope { kAll, kJoinable };

/*!
 * \brief Parts of the same backend with is_primitive joined into maximal convex regions, as long as
 * the parts together can still run one after the other; a region that prevents it stays apart.
 */
std::vector<CandidatePartition> MergeParts(const DataflowGraph& graph,
                                           const std::vector<CandidatePartition>& parts,
                                           MergeScope scope = MergeScope::kAll);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_MERGE_PARTS_H_
