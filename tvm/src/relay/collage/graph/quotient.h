// SPDX-License-Identifier: Apache-2.0
// Disjoint sets of nodes as the nodes of a graph: can they run one after the other, each whole?
// Test: tvm/tests/cpp/quotient_test.cc.
#ifndef TVM_RELAY_COLLAGE_GRAPH_QUOTIENT_H_
#define TVM_RELAY_COLLAGE_GRAPH_QUOTIENT_H_

#include <vector>

#include "dataflow_graph.h"

namespace tvm::collage {

/*!
 * \brief Positions of sets of which each reads the next one and the last reads the first; empty
 * when there are none. A variable that is let-bound stands for its value. Precondition: together
 * the sets hold every placeable node, or those of a convex set.
 */
std::vector<int> FindCycle(const DataflowGraph& graph, const std::vector<IndexSet>& sets);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_GRAPH_QUOTIENT_H_
