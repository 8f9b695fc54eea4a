// SPDX-License-Identifier: Apache-2.0
#include "signature.h"

#include <atomic>

#include "hash.h"

namespace tvm::collage {
namespace {

uint64_t HashOf(const std::vector<TensorType>& types) {
  Hash hash;
  hash.Add(types.size());
  for (const TensorType& type : types) {
    hash.Add(type.dtype).Add(type.shape.size());
    for (int64_t dim : type.shape) hash.Add(static_cast<uint64_t>(dim));
  }
  return hash.Get();
}

// Not equal to the label of any node of any graph.
uint64_t UniqueLabel() {
  static std::atomic<uint64_t> count{0};
  return Hash().Add(std::string("unique")).Add(++count).Get();
}

// Is its value a tensor or a tuple, not a function, reference or ADT?
bool HasTensorType(const Node& node) { return !node.types.empty() || node.is_tuple_typed; }

bool IsKnown(const Node& node) {
  switch (node.type) {
    case NodeType::kCall:
    case NodeType::kTuple:
    case NodeType::kProjection:
    case NodeType::kVar:
    case NodeType::kConstant:
      return HasTensorType(node);
    default:
      return false;
  }
}

uint64_t LabelOf(const Node& node, const std::string& constant_text) {
  if (!IsKnown(node)) return UniqueLabel();
  Hash hash;
  hash.Add(static_cast<uint64_t>(node.type)).Add(node.is_tuple_typed).Add(HashOf(node.types));
  if (node.type == NodeType::kCall) {
    hash.Add(node.name).Add(node.attrs.size());
    for (const auto& [key, value] : node.attrs) hash.Add(key).Add(Summary(value));
  }
  hash.Add(static_cast<uint64_t>(node.projection)).Add(constant_text);
  return hash.Get();
}

// What a reader sees of a value that is made elsewhere.
uint64_t InputLabelOf(const Node& node, uint64_t label) {
  if (node.type == NodeType::kConstant || !HasTensorType(node)) return label;
  return Hash().Add(node.is_tuple_typed).Add(HashOf(node.types)).Get();
}

}  // namespace

size_t SignatureHash::operator()(const Signature& signature) const {
  Hash hash;
  for (uint64_t word : signature) hash.Add(word);
  return hash.Get();
}

Signatures::Signatures(const DataflowGraph& graph, const ConstantText& text_of)
    : graph_(graph), position_(graph.size(), -1) {
  for (NodeIndex i = 0; i < graph.size(); ++i) {
    const bool is_constant = graph[i].type == NodeType::kConstant;
    labels_.push_back(LabelOf(graph[i], is_constant ? text_of(i) : ""));
  }
}

Signature Signatures::Of(const CandidatePartition& candidate) const {
  const SubGraph& sub_graph = candidate.sub_graph;
  Signature signature = {static_cast<uint64_t>(candidate.spec), candidate.is_primitive,
                         static_cast<uint64_t>(sub_graph.size())};
  std::vector<NodeIndex> numbered;
  auto number = [&](NodeIndex i) {
    position_[i] = static_cast<int>(numbered.size());
    numbered.push_back(i);
  };
  sub_graph.inside().ForEach(number);
  sub_graph.inside().ForEach([&](NodeIndex i) {
    const Node& node = graph_[i];
    signature.push_back(labels_[i]);
    signature.push_back(node.inputs.size());
    for (NodeIndex input : node.inputs) {
      if (graph_[input].type == NodeType::kOp) continue;  // it is in the call's label
      const bool is_new = position_[input] < 0;
      if (is_new) number(input);
      signature.push_back(static_cast<uint64_t>(position_[input]));
      if (is_new) signature.push_back(InputLabelOf(graph_[input], labels_[input]));
    }
  });
  signature.push_back(sub_graph.exits().size());
  for (NodeIndex exit : sub_graph.exits()) {
    signature.push_back(static_cast<uint64_t>(position_[exit]));
  }
  for (const NestedSubGraph& nested : sub_graph.nested()) {
    Hash label;
    label.Add(nested.composite);
    for (const auto& [key, value] : nested.attrs) label.Add(key).Add(Summary(value));
    signature.push_back(label.Get());
    signature.push_back(static_cast<uint64_t>(nested.inside.Count()));
    nested.inside.ForEach(
        [&](NodeIndex i) { signature.push_back(static_cast<uint64_t>(position_[i])); });
  }
  for (NodeIndex i : numbered) position_[i] = -1;
  return signature;
}

}  // namespace tvm::collage
