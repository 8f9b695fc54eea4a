// SPDX-License-Identifier: Apache-2.0
// The static work of a whole function, as if it were one candidate, for heuristic costs of modules.
// Precondition: the function is typed. Test: tvm/tests/python/collage/test_analytic.py.
#include "../relay/import_relay.h"
#include "../rules/work_estimate.h"

namespace tvm::collage {
namespace {

// [calls of operators, operations, bytes]
Array<ObjectRef> WorkOfFunction(const ObjectRef& function) {
  const ImportedPtr imported = ImportFunction(function);
  const DataflowGraph& graph = imported->graph;
  const SubGraph all = SubGraph::Make(graph, graph.placeable());
  return {runtime::Int(NumOpCalls(graph, all)), runtime::Float(WorkOf(graph, all)),
          runtime::Float(BytesOf(graph, all))};
}

TVM_REGISTER_GLOBAL("collage.WorkOfFunction").set_body_typed(WorkOfFunction);

}  // namespace
}  // namespace tvm::collage
