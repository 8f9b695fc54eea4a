// SPDX-License-Identifier: Apache-2.0
// Sub-graphs -> Relay: the function that a candidate is measured as, and a function with its chosen
// candidates called through global functions. Knows nothing of search or costs.
// Precondition: candidates are disjoint, convex and in one region each, their quotient graph
// acyclic. Test: tvm/tests/python/collage/test_rewrite.py.
#ifndef TVM_RELAY_COLLAGE_FFI_REWRITE_H_
#define TVM_RELAY_COLLAGE_FFI_REWRITE_H_

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../graph/sub_graph.h"
#include "construct.h"
#include "import_relay.h"

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

struct ExternalPart {
  const SubGraph* sub_graph;
  std::string compiler;
};

/*! \brief The part alone, under a fresh name. */
ExternalFunction MakeExternal(const ImportedFunction& imported, const ExternalPart& part,
                              NameSupply* names);

/*!
 * \brief The function with every part replaced by a call of a new global function, which is added
 * to `out`. What no part holds stays in the body for the host target.
 */
Expr RewriteFunction(const ImportedFunction& imported, const std::vector<ExternalPart>& parts,
                     NameSupply* names, std::vector<ExternalFunction>* out);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_FFI_REWRITE_H_
