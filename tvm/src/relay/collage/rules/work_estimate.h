// SPDX-License-Identifier: Apache-2.0
// A static estimate of work, from shapes alone: it says where a region is cut, where only its order
// matters, and is what heuristic costs are made of. Test:
// tvm/tests/cpp/rules_work_estimate_test.cc.
#pragma once

#include "../graph/sub_graph.h"

namespace tvm::collage {

// Operations of a kernel; 0 for what launches none. Elements read and written, or for the kinds of
// convolution and matrix product, two operations for each element of the output and each of the
// second operand's that goes into it: those whose dimensions the output does not have.
// Knows no op and no layout; a dimension that is not known counts as 1.
COLLAGE_API double WorkOf(const DataflowGraph& graph, NodeIndex index);
// The sum over the nodes inside.
COLLAGE_API double WorkOf(const DataflowGraph& graph, const SubGraph& sub_graph);

// Bytes that cross the border: of inputs, constants and exits, each once. What stays inside is left
// out, as if caches held it. A type whose size is not known counts as 0.
COLLAGE_API double BytesOf(const DataflowGraph& graph, const SubGraph& sub_graph);

// What any way to run a part has to do, unlike WorkOf, which guesses what one does.
struct LeastWork {
  // Is at least one kernel, or one call into a backend, launched?
  bool is_launched = false;
  // Arithmetic operations on float32 values.
  double operations = 0;
};

// What a part cannot do without: a call, where `is_call` says that the part is one call into a
// backend, else a kernel that no simplification removes; and the products of convolutions and
// matrices whose results are needed whole, each position of a convolution's window but one left
// out, as Winograd's and similar algorithms can do. Nothing is certain of other operators: a
// compiler may remove a product with one, and computes what a slice reads, and no more.
//
// Assumptions: equal calls inside were made one before; no algorithm multiplies matrices in fewer
// operations than the textbook's. The rows at the far edge that a strided window leaves out count
// as needed.
COLLAGE_API LeastWork LeastWorkOf(const DataflowGraph& graph, const SubGraph& sub_graph,
                                  bool is_call);

// Calls of operators inside.
COLLAGE_API int NumOpCalls(const DataflowGraph& graph, const SubGraph& sub_graph);

}  // namespace tvm::collage
