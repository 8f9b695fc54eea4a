// SPDX-License-Identifier: Apache-2.0
// The pass of TVM's own sub-graph tests: nodes given by number become one inline function for a
// compiler. The product uses CollagePartition; this shows sub-graphs and rewriting on their own.
// Test: api/test_partition_for_testing.py.
#include <map>

#include "../relay/rewrite.h"
#include "view_objects.h"

namespace tvm::collage {
namespace {

using Indexes = Array<runtime::Int>;

// All indexes together; those of one label that is not empty are one composite.
SubGraph LabelledSubGraph(const DataflowGraph& graph, const Indexes& indexes,
                          const Array<String>& labels) {
  std::map<std::string, Indexes> indexes_of;
  for (size_t k = 0; k < indexes.size(); ++k) indexes_of[labels[k]].push_back(indexes[k]);
  std::vector<NestedSubGraph> nested;
  for (const auto& [label, inside] : indexes_of) {
    if (!label.empty()) nested.push_back({label, ImportIndexes(graph, inside)});
  }
  return SubGraph::Make(graph, ImportIndexes(graph, indexes), std::move(nested));
}

// The function with the sub-graph's nodes in a function of their own; as it was when they are no
// valid sub-graph within `config`.
Expr PartitionFunction(const Expr& function, const SubGraphConfig& config, const String& compiler,
                       const Indexes& indexes, const Array<String>& labels) {
  const ImportedPtr imported = ImportFunction(function);
  const SubGraph sub_graph = LabelledSubGraph(imported->graph, indexes, labels);
  if (!sub_graph.IsValid(imported->graph, config)) return function;
  return ReplaceSubGraph(*imported, sub_graph,
                         WithAttr(ExtractFunction(*imported, sub_graph), "Compiler", compiler));
}

// Indexes count as CapturePostDfsIndexInSpans does; each function is partitioned alike.
ObjectRef PartitionForTesting(int max_exits, bool allow_taps, String compiler, Indexes indexes,
                              Array<String> labels) {
  ICHECK_EQ(indexes.size(), labels.size()) << "ValueError: each index needs a label, perhaps \"\"";
  constexpr int kAnyDepth = 0;
  const SubGraphConfig config{kAnyDepth, max_exits, allow_taps};
  return MakeModulePass("PartitionForTesting", [=](const ObjectRef& untyped) {
    ObjectRef mod = InferTypes(untyped);
    ObjectRef result = CallGlobal("ir.Module_Clone", mod);
    for (const auto& [global_var, function] : FunctionsOf(mod)) {
      if (!CanBePartitioned(function)) continue;
      CallGlobal("ir.Module_Add", result, global_var,
                 PartitionFunction(function, config, compiler, indexes, labels), true);
    }
    return InferTypes(result);
  });
}

TVM_REGISTER_GLOBAL("collage.PartitionForTesting").set_body_typed(PartitionForTesting);

}  // namespace
}  // namespace tvm::collage
