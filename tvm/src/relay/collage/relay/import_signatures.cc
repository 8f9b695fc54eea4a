// SPDX-License-Identifier: Apache-2.0
#include "import_signatures.h"

#include <set>
#include <string>

namespace tvm::collage {
namespace {

std::string ValueOf(const ObjectRef& constant) {
  const NDArray tensor = Fields(constant).Tensor("data");
  std::string bytes(runtime::GetDataSize(*tensor.operator->()), '\0');
  tensor.CopyToBytes(bytes.data(), bytes.size());
  return "=" + bytes;
}

bool IsLarge(const NDArray& data) {
  int64_t count = 1;
  for (int64_t dim : data.Shape()) count *= dim;
  return count > kSmallConstant;
}

/*! \brief Calls that read numbers as places, and lets, if there are such calls: few networks have.
 */
Array<ObjectRef> CallsThatReadPlaces(const ImportedFunction& imported) {
  const Array<String> listed = FromPython(CallGlobal("tvm.relay.collage.reading_ops"));
  const std::set<std::string> ops(listed.begin(), listed.end());
  Array<ObjectRef> calls, lets;
  for (NodeIndex i = 0; i < imported.graph.size(); ++i) {
    const Node& node = imported.graph[i];
    if (node.IsOpCall() && ops.count(node.name) > 0) calls.push_back(imported.exprs[i]);
    if (node.type == NodeType::kOther && node.name == "Let") lets.push_back(imported.exprs[i]);
  }
  if (calls.empty()) return calls;
  for (const ObjectRef& let : lets) calls.push_back(let);
  return calls;
}

}  // namespace

Signatures SignaturesOf(const ImportedFunction& imported) {
  const std::vector<bool> is_weight = WeightsOf(imported);
  return Signatures(imported.graph, [&](NodeIndex i) {
    return is_weight[i] ? std::string() : ValueOf(imported.exprs[i]);
  });
}

std::vector<bool> WeightsOf(const ImportedFunction& imported) {
  const DataflowGraph& graph = imported.graph;
  std::vector<bool> weights(graph.size());
  bool has_any = false;
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (graph[i].type != NodeType::kConstant) continue;
    weights[i] = IsLarge(Fields(imported.exprs[i]).Tensor("data"));
    has_any |= weights[i];
  }
  if (!has_any) return weights;
  const Array<ObjectRef> calls = CallsThatReadPlaces(imported);
  if (calls.empty()) return weights;
  const Array<ObjectRef> kept = FromPython(CallGlobal("tvm.relay.collage.kept_constants", calls));
  std::set<const runtime::Object*> objects;
  for (const ObjectRef& constant : kept) objects.insert(constant.get());
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    if (objects.count(imported.exprs[i].get()) > 0) weights[i] = false;
  }
  return weights;
}

}  // namespace tvm::collage
