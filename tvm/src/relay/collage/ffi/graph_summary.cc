// SPDX-License-Identifier: Apache-2.0
// A function's graph as rows, for people and tests: what the partitioner sees of a Relay function.
// Test: tvm/tests/python/collage/test_import.py.
#include "import_relay.h"

namespace tvm::collage {
namespace {

/*! \brief "float32[1, ?]", several for a tuple, nothing for what is no tensor. */
std::string TypesText(const Node& node) {
  std::string text;
  for (const TensorType& type : node.types) {
    std::string dims;
    for (int64_t dim : type.shape) {
      dims += dims.empty() ? "" : ", ";
      dims += dim == TensorType::kDynamic ? "?" : std::to_string(dim);
    }
    text += (text.empty() ? "" : " ") + type.dtype + "[" + dims + "]";
  }
  return text;
}

/*! \brief One row a node: [text, types, op kind, region, must it be placed?]. */
Array<ObjectRef> GraphSummary(ObjectRef function) {
  ImportedFunction imported = ImportFunction(function);
  Array<ObjectRef> rows;
  for (NodeIndex i = 0; i < imported.graph.size(); ++i) {
    const Node& node = imported.graph[i];
    rows.push_back(Array<ObjectRef>{String(imported.graph.Summary(i)), String(TypesText(node)),
                                    runtime::Int(static_cast<int>(node.kind)),
                                    runtime::Int(node.region),
                                    runtime::Bool(imported.graph.placeable().Contains(i))});
  }
  return rows;
}

TVM_REGISTER_GLOBAL("collage.GraphSummary").set_body_typed(GraphSummary);

}  // namespace
}  // namespace tvm::collage
