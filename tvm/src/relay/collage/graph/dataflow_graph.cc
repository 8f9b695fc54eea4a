// SPDX-License-Identifier: Apache-2.0
#include "dataflow_graph.h"

#include <algorithm>
#include <cassert>
#include <cctype>

namespace tvm::collage {
namespace {

// Bytes of one element of a dtype such as `float32`, `int8x4` or `bool`.
int64_t ElementBytes(const std::string& dtype) {
  if (dtype == "bool") return 1;
  size_t at = dtype.find_first_of("0123456789");
  if (at == std::string::npos) return 0;
  int64_t bits = 0;
  for (; at < dtype.size() && std::isdigit(static_cast<unsigned char>(dtype[at])); ++at) {
    bits = bits * 10 + (dtype[at] - '0');
  }
  int64_t lanes = at + 1 < dtype.size() && dtype[at] == 'x' ? std::stoll(dtype.substr(at + 1)) : 1;
  return (bits * lanes + 7) / 8;
}

}  // namespace

const char* NameOf(NodeType type) {
  constexpr const char* kNames[] = {"var",         "const",    "op",         "global",
                                    "constructor", "call",     "call_other", "tuple",
                                    "projection",  "function", "other",      "left_out"};
  return kNames[static_cast<int>(type)];
}

int64_t TensorType::NumBytes() const {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim == kDynamic) return 0;
    count *= dim;
  }
  return count * ElementBytes(dtype);
}

bool Node::IsPlaceable() const {
  switch (type) {
    case NodeType::kVar:
    case NodeType::kConstant:
    case NodeType::kOp:
    case NodeType::kGlobalVar:
    case NodeType::kConstructor:
    case NodeType::kLeftOut:
      return false;
    default:
      return true;
  }
}

int64_t Node::NumBytes() const {
  int64_t total = 0;
  for (const TensorType& tensor : types) total += tensor.NumBytes();
  return total;
}

std::string Node::TypesText() const {
  std::string text;
  for (const TensorType& type : types) {
    std::string dims;
    for (int64_t dim : type.shape) {
      dims += dims.empty() ? "" : ", ";
      dims += dim == TensorType::kDynamic ? "?" : std::to_string(dim);
    }
    text += (text.empty() ? "" : " ") + type.dtype + "[" + dims + "]";
  }
  return text;
}

const AttrValue* Node::FindAttr(const std::string& key) const {
  auto found = std::lower_bound(attrs.begin(), attrs.end(), key,
                                [](const auto& attr, const auto& k) { return attr.first < k; });
  return found != attrs.end() && found->first == key ? &found->second : nullptr;
}

NodeIndex DataflowGraph::Append(Node node) {
  assert(result_ < 0);
  for (NodeIndex input : node.inputs) {
    assert(input >= 0 && input < size());
    (void)input;
  }
  nodes_.push_back(std::move(node));
  return size() - 1;
}

void DataflowGraph::Finish(NodeIndex result) {
  assert(result >= 0 && result < size());
  result_ = result;
  placeable_ = IndexSet(size());
  for (Node& node : nodes_) node.outputs.clear();
  for (NodeIndex i = 0; i < size(); ++i) {
    const Node& node = nodes_[i];
    for (NodeIndex input : node.inputs) {
      auto& outputs = nodes_[input].outputs;
      if (outputs.empty() || outputs.back() != i) outputs.push_back(i);
    }
    if (node.IsPlaceable()) placeable_.Add(i);
    if (node.IsOpCall()) calls_of_[node.name].push_back(i);
  }
  nodes_[result].is_external = true;
  FindDominators();
}

// A node's immediate post-dominator is the deepest common ancestor of its readers in the tree of
// post-dominators built so far: readers come later, so one backward walk is enough. What is
// external or read by nobody is a root, and readers below different roots have no common ancestor.
void DataflowGraph::FindDominators() {
  std::vector<int> depth(nodes_.size(), 0);
  std::vector<std::vector<NodeIndex>> readers(nodes_.size());
  for (NodeIndex i = 0; i < size(); ++i) {
    for (NodeIndex input : FlowInputs(i)) readers[input].push_back(i);
  }
  auto common = [&](NodeIndex a, NodeIndex b) {
    while (a != b && a >= 0 && b >= 0) {
      if (depth[a] >= depth[b]) {
        const bool is_same_depth = depth[a] == depth[b];
        a = nodes_[a].dominator;
        if (is_same_depth) b = nodes_[b].dominator;
      } else {
        b = nodes_[b].dominator;
      }
    }
    return a == b ? a : -1;
  };
  dominated_.assign(nodes_.size(), {});
  for (NodeIndex i = size() - 1; i >= 0; --i) {
    Node& node = nodes_[i];
    node.dominator = -1;
    if (!node.is_external && !readers[i].empty()) {
      NodeIndex parent = readers[i][0];
      for (size_t k = 1; k < readers[i].size() && parent >= 0; ++k) {
        parent = common(parent, readers[i][k]);
      }
      node.dominator = parent;
    }
    depth[i] = node.dominator < 0 ? 0 : depth[node.dominator] + 1;
  }
  for (NodeIndex i = 0; i < size(); ++i) {
    if (nodes_[i].dominator >= 0) dominated_[nodes_[i].dominator].push_back(i);
  }
}

const std::vector<NodeIndex>& DataflowGraph::CallsOf(const std::string& op) const {
  static const auto* none = new std::vector<NodeIndex>();
  auto found = calls_of_.find(op);
  return found == calls_of_.end() ? *none : found->second;
}

const std::vector<NodeIndex>& DataflowGraph::DominatedBy(NodeIndex index) const {
  return dominated_[index];
}

std::vector<NodeIndex> DataflowGraph::FlowInputs(NodeIndex index) const {
  const Node& node = nodes_[index];
  const bool is_body_only =
      node.type == NodeType::kFunction || (node.type == NodeType::kOther && node.name == "Let");
  if (!is_body_only || node.inputs.empty()) return node.inputs;
  return {node.inputs.back()};
}

NodeIndex DataflowGraph::ValueOf(NodeIndex index) const {
  while (nodes_[index].type == NodeType::kVar && !nodes_[index].inputs.empty()) {
    index = nodes_[index].inputs[0];
  }
  return index;
}

std::vector<NodeIndex> DataflowGraph::Args(NodeIndex index) const {
  const Node& node = nodes_[index];
  const bool has_callee = node.type == NodeType::kCall || node.type == NodeType::kCallOther;
  return {node.inputs.begin() + (has_callee && !node.inputs.empty() ? 1 : 0), node.inputs.end()};
}

std::string DataflowGraph::Summary() const {
  int calls = 0;
  for (const Node& node : nodes_) calls += node.IsKernel();
  return "graph of " + std::to_string(size()) + " nodes, " + std::to_string(placeable_.Count()) +
         " to place, " + std::to_string(calls) + " calls";
}

std::string DataflowGraph::Summary(NodeIndex index) const {
  const Node& node = nodes_[index];
  std::string text = "%" + std::to_string(index) + " = ";
  if (!node.IsOpCall()) text += NameOf(node.type);
  if (!node.name.empty()) text += (node.IsOpCall() ? "" : " ") + node.name;
  if (node.type == NodeType::kProjection) text += " " + std::to_string(node.projection);
  std::string args;
  for (NodeIndex arg : Args(index)) args += (args.empty() ? "%" : ", %") + std::to_string(arg);
  return args.empty() && !node.IsKernel() ? text : text + "(" + args + ")";
}

}  // namespace tvm::collage
