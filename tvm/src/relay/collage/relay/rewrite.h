// SPDX-License-Identifier: Apache-2.0
// (module, Placement) -> module, the only file that does it: chosen parts become global functions
// or composites that the bodies call. Also the module that a candidate is measured as. Knows
// nothing of search, costs or files. Precondition: parts are disjoint, convex and in one scope
// each, their quotient graph acyclic. Test: relay/test_rewrite.py.
#pragma once

#include <string>

#include "../graph/sub_graph.h"
#include "construct.h"
#include "import_relay.h"
#include "placement.h"

namespace tvm::collage {

// fn(inputs of the sub-graph, as its body meets them) -> its exit, or a flat tuple of the tensors
// of its exits, ascending.
// Constants stay bound in the body; nested sub-graphs become calls of Composite functions.
Expr ExtractFunction(const ImportedFunction& imported, const SubGraph& sub_graph);

// The placement's module with each primitive part replaced by the call of a new global function,
// and each composite of another part by a call of its own. Parts that are equal, constants
// included, have the same global_symbol. Everything else stays in the bodies for the host target.
// The result is typed; functions keep their types.
ObjectRef RewriteModule(const Placement& placement);

// The function with a call of `callee` in place of the sub-graph.
Expr ReplaceSubGraph(const ImportedFunction& imported, const SubGraph& sub_graph,
                     const Expr& callee);

// IRModule with @main(tensors) -> exits. What an external backend compiles (`is_primitive`) is one
// global function that @main calls; what is TVM's is @main's body. Parameters of tuple type are
// taken apart, since an executor is fed tensors.
ObjectRef CandidateModule(const ImportedFunction& imported, const SubGraph& sub_graph,
                          bool is_primitive, const std::string& compiler);

}  // namespace tvm::collage
