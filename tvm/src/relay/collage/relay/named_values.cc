// SPDX-License-Identifier: Apache-2.0
#include "named_values.h"

#include <algorithm>

#include "construct.h"
#include "device_domains.h"
#include "import_attrs.h"

namespace tvm::collage {
namespace {

constexpr NodeIndex kNone = -1;
constexpr int kElsewhere = -1;  // a scope that no node is in

bool IsLet(const Node& node) { return node.type == NodeType::kOther && node.name == "Let"; }

bool IsName(const Node& node) { return node.type == NodeType::kProjection || IsLet(node); }

bool HasState(const ObjectRef& op) {
  const AttrValue stateful = ImportOpAttr(op, "TOpIsStateful");
  const auto* number = std::get_if<int64_t>(&stateful);
  return number != nullptr && *number != 0;
}

// Is a value all that comes of it, whenever it is computed?
std::vector<bool> ArePure(const std::vector<Node>& nodes, const std::vector<ObjectRef>& exprs) {
  std::vector<bool> pure(nodes.size(), false);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    switch (node.type) {
      case NodeType::kVar:
      case NodeType::kConstant:
        pure[i] = true;
        break;
      case NodeType::kOp:
        pure[i] = !HasState(exprs[i]);
        break;
      case NodeType::kCall:
      case NodeType::kTuple:
      case NodeType::kProjection:
      case NodeType::kOther:
        pure[i] = (node.type != NodeType::kOther || IsLet(node)) &&
                  std::all_of(node.inputs.begin(), node.inputs.end(),
                              [&](NodeIndex input) { return pure[input]; });
        break;
      default:  // a function may have effects when it is called
        break;
    }
  }
  return pure;
}

// Does a function begin, or a branch, between the node and this input?
bool OpensScope(const Node& node, size_t input) {
  if (node.type == NodeType::kFunction) return true;
  return node.type == NodeType::kOther && !IsLet(node) && input > 0;
}

// By variable the let that binds it, if the variable is a name.
std::vector<NodeIndex> LetsOfNames(const std::vector<Node>& nodes,
                                   const std::vector<ObjectRef>& exprs,
                                   const std::vector<int>& scopes, const std::vector<bool>& pure) {
  std::vector<NodeIndex> let_of(nodes.size(), kNone);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!IsLet(nodes[i])) continue;
    const NodeIndex value = nodes[i].inputs[0];
    const NodeIndex variable = nodes[i].inputs[1];
    if (pure[value] && value < variable && !HasOwnDevice(exprs[variable])) {
      let_of[variable] = static_cast<NodeIndex>(i);
    }
  }
  std::vector<bool> is_read(nodes.size(), false);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool is_let = IsLet(nodes[i]);
    for (size_t k = 0; k < nodes[i].inputs.size(); ++k) {
      if (is_let && k == 1) continue;  // it binds the variable
      is_read[nodes[i].inputs[k]] = true;
      NodeIndex& let = let_of[nodes[i].inputs[k]];
      if (let == kNone) continue;
      const int scope = OpensScope(nodes[i], k) ? kElsewhere : scopes[i];
      if (scope != scopes[let]) let = kNone;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!is_read[i]) let_of[i] = kNone;
  }
  return let_of;
}

}  // namespace

std::vector<NodeIndex> NamedValues(const std::vector<Node>& nodes,
                                   const std::vector<ObjectRef>& exprs,
                                   const std::vector<int>& scopes) {
  std::vector<NodeIndex> values(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) values[i] = static_cast<NodeIndex>(i);
  if (std::none_of(nodes.begin(), nodes.end(), IsName)) return values;
  const std::vector<bool> pure = ArePure(nodes, exprs);
  const std::vector<NodeIndex> let_of = LetsOfNames(nodes, exprs, scopes, pure);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (let_of[i] != kNone) {
      values[i] = values[nodes[let_of[i]].inputs[0]];
    } else if (IsLet(node) && let_of[node.inputs[1]] == static_cast<NodeIndex>(i)) {
      values[i] = values[node.inputs[2]];
    } else if (node.type == NodeType::kProjection) {
      const NodeIndex tuple = values[node.inputs[0]];
      const bool is_written_out = nodes[tuple].type == NodeType::kTuple && pure[tuple];
      if (is_written_out) values[i] = values[nodes[tuple].inputs[node.projection]];
    }
  }
  return values;
}

void ReplaceNames(const std::vector<NodeIndex>& values, NodeIndex result, std::vector<Node>* nodes,
                  std::vector<ObjectRef>* exprs) {
  std::vector<bool> is_read(nodes->size(), false);
  is_read[values[result]] = true;
  std::vector<std::vector<NodeIndex>> written(nodes->size());
  for (size_t i = nodes->size(); i-- > 0;) {
    Node& node = (*nodes)[i];
    written[i] = std::move(node.inputs);
    node.inputs.clear();
    if (!is_read[i]) {
      if (node.IsPlaceable()) node.type = NodeType::kLeftOut;
      continue;
    }
    for (NodeIndex input : written[i]) {
      node.inputs.push_back(values[input]);
      is_read[values[input]] = true;
    }
  }
  const std::vector<ObjectRef> old = *exprs;
  for (size_t i = 0; i < nodes->size(); ++i) {
    const Node& node = (*nodes)[i];
    if (node.type == NodeType::kVar) continue;  // reads its value in the graph alone
    Array<Expr> children;
    bool is_changed = false;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      children.push_back((*exprs)[node.inputs[k]]);
      is_changed |= !children.back().same_as(old[written[i][k]]);
    }
    if (is_changed) (*exprs)[i] = WithChildren(old[i], children);
  }
}

}  // namespace tvm::collage
