// SPDX-License-Identifier: Apache-2.0
// Names: expressions that make no value, but name one that another expression makes. Importing lets
// readers of a name read the value itself, so that the partitioner sees one graph however it is
// written. Precondition: nodes are as written, in post-dfs order. Test: relay/test_import_relay.py.
#pragma once

#include <vector>

#include "../graph/dataflow_graph.h"
#include "fields.h"

namespace tvm::collage {

// By node the one whose value it is: itself, unless it is a name.
//
// A variable that a let binds names the let's value, and the let its body, where the value is pure
// (operators without state over pure values), the variable has no device of its own, and is read,
// only in the function or branch that the let is in: a value that a loop reads is not computed in
// each of its rounds. A projection of a pure tuple that is written out names the tuple's field.
//
// `scopes`: by node, the function or branch that it is in.
std::vector<NodeIndex> NamedValues(const std::vector<Node>& nodes,
                                   const std::vector<ObjectRef>& exprs,
                                   const std::vector<int>& scopes);

// Lets nodes read values in place of names, expressions too. What nobody reads then is left out
// (NodeType::kLeftOut).
void ReplaceNames(const std::vector<NodeIndex>& values, NodeIndex result, std::vector<Node>* nodes,
                  std::vector<ObjectRef>* exprs);

}  // namespace tvm::collage
