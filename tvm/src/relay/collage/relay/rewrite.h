// SPDX-License-Identifier: Apache-2.0
// (module, Placement) -> module, the only file that does it: chosen parts become global functions
// or composites that the bodies call. Also the module that a candidate is measured as. Knows
// nothing of search, costs or files. Precondition: parts are disjoint, convex and in one region
// each, their quotient graph acyclic. Test: relay/test_rewrite.py.
#ifndef TVM_RELAY_COLLAGE_RELAY_REWRITE_H_
#define TVM_RELAY_COLLAGE_RELAY_REWRITE_H_

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../graph/sub_graph.h"
#include "construct.h"
#include "import_relay.h"
#include "placement.h"

namespace tvm::collage {

/*!
 * \brief fn(inputs of the sub-graph, as its body meets them) -> its exit, or a tuple of its exits,
 * ascending.
 * Constants stay bound in the body; nested sub-graphs become calls of Composite functions.
 */
Expr ExtractFunction(const ImportedFunction& imported, const SubGraph& sub_graph);

/*! \brief Names like "collage_<backend>_nn_conv2d_add", each given once. */
class NameSupply {
 public:
  /*! \brief `hint` itself, or with the first number that makes it new. */
  std::string Fresh(const std::string& hint);
  /*! \brief The name is somebody else's. */
  void Reserve(const std::string& name) { used_.insert(name); }

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> last_number_;  // by hint
};

/*! \brief A part of the result that an external backend compiles. */
struct ExternalFunction {
  Expr global_var;
  Expr function;  // Primitive=1, Compiler, global_symbol
};

/*! \brief The sub-graph alone, under a fresh name. */
ExternalFunction MakeExternal(const ImportedFunction& imported, const SubGraph& sub_graph,
                              const std::string& compiler, NameSupply* names);

/*!
 * \brief The placement's module with each primitive part replaced by the call of a new global
 * function, and each composite of another part by a call of its own. Parts that are equal,
 * constants included, have the same global_symbol. Everything else stays in the bodies for the host
 * target. The result is typed; functions keep their types.
 */
ObjectRef RewriteModule(const Placement& placement);

/*! \brief The function with a call of `callee` in place of the sub-graph. */
Expr ReplaceSubGraph(const ImportedFunction& imported, const SubGraph& sub_graph,
                     const Expr& callee);

/*!
 * \brief IRModule with @main(tensors) -> exits. What an external backend compiles (`is_primitive`)
 * is one global function that @main calls; what is TVM's is @main's body. Parameters of tuple type
 * are taken apart, since an executor is fed tensors.
 */
ObjectRef CandidateModule(const ImportedFunction& imported, const SubGraph& sub_graph,
                          bool is_primitive, const std::string& compiler);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RELAY_REWRITE_H_
