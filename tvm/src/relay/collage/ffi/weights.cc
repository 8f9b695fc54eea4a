// SPDX-License-Identifier: Apache-2.0
#include "weights.h"

#include <set>
#include <string>

namespace tvm::collage {
namespace {

bool IsLarge(const NDArray& data) {
  int64_t count = 1;
  for (int64_t dim : data.Shape()) count *= dim;
  return count > kSmallConstant;
}

/*! \brief Is there an op in the graph that reads numbers as places? Few networks have one. */
bool ReadsPlaces(const DataflowGraph& graph) {
  const Array<String> listed = CallGlobal("tvm.relay.collage.reading_ops");
  const std::set<std::string> ops(listed.begin(), listed.end());
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (graph[i].type == NodeType::kOp && ops.count(graph[i].name) > 0) return true;
  }
  return false;
}

}  // namespace

std::vector<bool> WeightsOf(const ImportedFunction& imported) {
  const DataflowGraph& graph = imported.graph;
  std::vector<bool> weights(graph.size());
  bool has_any = false;
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (graph[i].type != NodeType::kConstant) continue;
    weights[i] = IsLarge(Fields(imported.exprs[i]).Tensor("data"));
    has_any |= weights[i];
  }
  if (!has_any || !ReadsPlaces(graph)) return weights;
  const Array<ObjectRef> kept = CallGlobal("tvm.relay.collage.kept_constants", imported.function);
  std::set<const runtime::Object*> objects;
  for (const ObjectRef& constant : kept) objects.insert(constant.get());
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (objects.count(imported.exprs[i].get()) > 0) weights[i] = false;
  }
  return weights;
}

}  // namespace tvm::collage
