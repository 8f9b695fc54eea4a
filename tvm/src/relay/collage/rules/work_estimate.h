// SPDX-License-Identifier: Apache-2.0
// A static estimate of work, from shapes alone: it says where a region is cut, where only its order
// matters, and is what heuristic costs are made of. Test:
// tvm/tests/cpp/rules_work_estimate_test.cc.
#ifndef TVM_RELAY_COLLAGE_RULES_WORK_ESTIMATE_H_
#define TVM_RELAY_COLLAGE_RULES_WORK_ESTIMATE_H_

#include "../graph/sub_graph.h"

namespace tvm::collage {

/*!
 * \brief Operations of a kernel; 0 for what launches none. Elements read and written, or for the
 * kinds of convolution and matrix product, two operations for each element of the output and each
 * of the second operand's that goes into it: those whose dimensions the output does not have.
 * Knows no op and no layout; a dimension that is not known counts as 1.
 */
COLLAGE_API double WorkOf(const DataflowGraph& graph, NodeIndex index);
/*! \brief The sum over the nodes inside. */
COLLAGE_API double WorkOf(const DataflowGraph& graph, const SubGraph& sub_graph);

/*!
 * \brief Bytes that cross the border: of inputs, constants and exits, each once. What stays inside
 * is left out, as if caches held it. A type whose size is not known counts as 0.
 */
COLLAGE_API double BytesOf(const DataflowGraph& graph, const SubGraph& sub_graph);

/*! \brief Calls of operators inside. */
COLLAGE_API int NumOpCalls(const DataflowGraph& graph, const SubGraph& sub_graph);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_WORK_ESTIMATE_H_
