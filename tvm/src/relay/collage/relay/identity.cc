// SPDX-License-Identifier: Apache-2.0
#include "identity.h"

#include <set>
#include <string>

#include "../graph/json.h"
#include "construct.h"

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

// Calls that read numbers as places, and lets, if there are such calls: few networks have.
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

void AddValues(const NDArray& data, Hash* hash) {
  const size_t size = runtime::GetDataSize(*data.operator->());
  if (data->device.device_type == kDLCPU && data.IsContiguous()) {
    hash->Add(static_cast<const char*>(data->data) + data->byte_offset, size);
    return;
  }
  std::vector<char> copy(size);
  data.CopyToBytes(copy.data(), size);
  hash->Add(copy.data(), size);
}

// What the expression says beside its children and its type.
void AddOwnFields(const ObjectRef& expr, const Node& node, const ImportedFunction::Written& written,
                  Hash* hash) {
  switch (written.type) {
    case NodeType::kOp:
    case NodeType::kGlobalVar:
      hash->Add(node.name);
      break;
    case NodeType::kCall:
    case NodeType::kCallOther:
      hash->Add(StructuralHash(RefField(expr, "attrs")));
      break;
    case NodeType::kProjection:
      hash->Add(static_cast<uint64_t>(node.projection));
      break;
    case NodeType::kConstructor:
      hash->Add(StructuralHash(expr));
      break;
    case NodeType::kFunction:
      // One that was partitioned before is a single node, whatever it holds.
      hash->Add(StructuralHash(written.inputs.empty() ? expr : RefField(expr, "attrs")));
      break;
    case NodeType::kOther:
      hash->Add(node.name);
      if (!IsA(expr, "relay.Match")) break;
      for (const ObjectRef& clause : RefFieldAs<Array<ObjectRef>>(expr, "clauses")) {
        hash->Add(StructuralHash(RefField(clause, "lhs")));
      }
      break;
    default:
      break;
  }
}

// What a row shows of a node: all that people can compare but names of variables.
std::string TextOf(const DataflowGraph& graph, NodeIndex index) {
  if (graph[index].type == NodeType::kVar) return "var";
  const std::string text = graph.Summary(index);
  return text.substr(text.find(" = ") + 3);
}

// A DescribedFunction of plans/placement/types.py.
String DescribeFunction(ObjectRef function) {
  const ImportedPtr owner = ImportFunction(function);
  const ImportedFunction& imported = *owner;
  const FunctionKey key = KeyOf(imported);
  std::vector<Json> nodes;
  for (NodeIndex i = 0; i < imported.graph.size(); ++i) {
    nodes.push_back(JsonObject({{"text", TextOf(imported.graph, i)},
                                {"types", imported.graph[i].TypesText()},
                                {"key", Hex(key.nodes[i])}}));
  }
  return JsonText({{"key", Hex(key.structure)}, {"weights", Hex(key.weights)}, {"nodes", nodes}});
}

TVM_REGISTER_GLOBAL("collage.DescribeFunction").set_body_typed(DescribeFunction);

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

FunctionKey KeyOf(const ImportedFunction& imported) {
  FunctionKey key;
  Hash structure, weights;
  const std::vector<bool> is_weight = WeightsOf(imported);
  for (NodeIndex i = 0; i < imported.graph.size(); ++i) {
    const Node& node = imported.graph[i];
    const ImportedFunction::Written& written = imported.written[i];
    const ObjectRef& expr = imported.exprs[i];
    Hash own;
    own.Add(static_cast<uint64_t>(written.type)).Add(node.device);
    for (NodeIndex input : written.inputs) own.Add(static_cast<uint64_t>(input));
    AddOwnFields(expr, node, written, &own);
    if (node.type == NodeType::kConstant) {
      AddValues(Fields(expr).Tensor("data"), is_weight[i] ? &weights : &own);
    }
    if (node.type != NodeType::kOp && node.type != NodeType::kConstructor) {
      own.Add(StructuralHash(CheckedType(expr)));
    }
    key.nodes.push_back(own.Get());
    structure.Add(own.Get());
  }
  structure.Add(static_cast<uint64_t>(imported.written_result));
  key.structure = structure.Get();
  key.weights = weights.Get();
  return key;
}

}  // namespace tvm::collage
