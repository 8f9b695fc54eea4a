// SPDX-License-Identifier: Apache-2.0
#include "function_key.h"

#include "../graph/hash.h"
#include "import_signatures.h"

namespace tvm::collage {
namespace {

uint64_t StructuralHash(const ObjectRef& object) {
  if (!object.defined()) return 0;
  constexpr bool kMapFreeVars = true;
  return static_cast<uint64_t>(
      CallGlobal("node.StructuralHash", object, kMapFreeVars).operator int64_t());
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

/*! \brief What the expression says beside its children and its type. */
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

/*! \brief What a row shows of a node: all that people can compare but names of variables. */
std::string TextOf(const DataflowGraph& graph, NodeIndex index) {
  if (graph[index].type == NodeType::kVar) return "var";
  const std::string text = graph.Summary(index);
  return text.substr(text.find(" = ") + 3);
}

/*! \brief [structure, weights, [[text, types, key] a node]]. */
Array<ObjectRef> DescribeFunction(ObjectRef function) {
  const ImportedPtr owner = ImportFunction(function);
  const ImportedFunction& imported = *owner;
  const FunctionKey key = KeyOf(imported);
  Array<ObjectRef> rows;
  for (NodeIndex i = 0; i < imported.graph.size(); ++i) {
    rows.push_back(
        Array<String>{TextOf(imported.graph, i), imported.graph[i].TypesText(), Hex(key.nodes[i])});
  }
  return {String(Hex(key.structure)), String(Hex(key.weights)), rows};
}

TVM_REGISTER_GLOBAL("collage.DescribeFunction").set_body_typed(DescribeFunction);

}  // namespace

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
