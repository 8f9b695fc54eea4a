// SPDX-License-Identifier: Apache-2.0
// MergeParts: neighbouring parts of one external backend in a finished cover become one part. The
// result is another plan, to be measured whole, never a discount on the plan's sum.
// Precondition: the parts are a cover with an acyclic quotient. Test:
// tvm/tests/cpp/rules_merge_parts_test.cc.
#ifndef TVM_RELAY_COLLAGE_RULES_MERGE_PARTS_H_
#define TVM_RELAY_COLLAGE_RULES_MERGE_PARTS_H_

#include <vector>

#include "../graph/candidate_partition.h"

namespace tvm::collage {

/*!
 * \brief Parts of the same backend with is_primitive joined into maximal convex regions, as long as
 * the parts together can still run one after the other; a region that prevents it stays apart.
 */
std::vector<CandidatePartition> MergeParts(const DataflowGraph& graph,
                                           const std::vector<CandidatePartition>& parts);

/*! \brief Can disjoint parts run one after the other, each whole? */
bool HasAcyclicQuotient(const DataflowGraph& graph, const std::vector<CandidatePartition>& parts);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_MERGE_PARTS_H_
