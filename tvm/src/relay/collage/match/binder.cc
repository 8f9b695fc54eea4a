// SPDX-License-Identifier: Apache-2.0
#include "binder.h"

#include <algorithm>

namespace tvm::collage {
namespace {

bool IsCall(const Node& node) {
  return node.type == NodeType::kCall || node.type == NodeType::kCallOther;
}

bool IsLeafNode(const Node& node) {
  return node.type == NodeType::kConstant || node.type == NodeType::kVar;
}

bool IsCallOf(const DataflowPattern& pattern, const char* op) {
  return pattern->kind == PatternKind::kCall && !pattern->any_children &&
         pattern->children[0]->kind == PatternKind::kOp && pattern->children[0]->name == op;
}

bool IsOther(const Node& node, const char* name) {
  return node.type == NodeType::kOther && node.name == name;
}

bool HasAll(const Node& node, const Attrs& attrs) {
  return std::all_of(attrs.begin(), attrs.end(), [&](const auto& attr) {
    const AttrValue* value = node.FindAttr(attr.first);
    return value != nullptr && IsAttrEqual(attr.second, *value);
  });
}

bool IsTensor(const Node& node) { return !node.is_tuple_typed && node.types.size() == 1; }

}  // namespace

bool Choices::Next() {
  depth_ = 0;
  if (!is_started_) return is_started_ = true;
  while (!choices_.empty() && ++choices_.back().taken == choices_.back().num_options) {
    choices_.pop_back();
  }
  return !choices_.empty();
}

int Choices::Choose(int num_options) {
  if (num_options == 1) return 0;
  if (depth_ == choices_.size()) choices_.push_back({0, num_options});
  return choices_[depth_++].taken;
}

/*! \brief `option(k)` binds the k-th option; a failed one takes its bindings back itself. */
template <typename Option>
bool Binder::BindAny(int num_options, Option&& option) {
  if (choices_) return option(choices_->Choose(num_options));
  for (int k = 0; k < num_options; ++k) {
    if (option(k)) return true;
  }
  return false;
}

bool Binder::Try(const DataflowPattern& pattern, NodeIndex root, Choices* choices) {
  choices_ = choices;
  bindings_.clear();
  firsts_.clear();
  temporaries_.clear();
  is_shared_bound_once_ = true;
  return Bind(pattern, root);
}

Binder::Bindings Binder::TakeBindings() {
  auto is_temporary = [this](const auto& binding) {
    return std::any_of(temporaries_.begin(), temporaries_.end(),
                       [&](const auto& pattern) { return pattern.get() == binding.first; });
  };
  bindings_.erase(std::remove_if(bindings_.begin(), bindings_.end(), is_temporary),
                  bindings_.end());
  return std::move(bindings_);
}

const NodeIndex* Binder::FindBound(const Pattern* pattern) const {
  for (size_t at : firsts_) {
    if (bindings_[at].first == pattern) return &bindings_[at].second;
  }
  return nullptr;
}

void Binder::Forget(size_t watermark) {
  bindings_.resize(watermark);
  while (!firsts_.empty() && firsts_.back() >= watermark) firsts_.pop_back();
}

bool Binder::Bind(const DataflowPattern& pattern, NodeIndex index) {
  if (is_shared_bound_once_) {
    if (const NodeIndex* bound = FindBound(pattern.get())) return *bound == index;
  }
  const size_t watermark = bindings_.size();
  if (!Visit(pattern, index)) {
    Forget(watermark);
    return false;
  }
  if (!FindBound(pattern.get())) firsts_.push_back(bindings_.size());
  bindings_.emplace_back(pattern.get(), index);
  return true;
}

bool Binder::Visit(const DataflowPattern& pattern, NodeIndex index) {
  const Pattern& p = *pattern;
  const Node& node = graph_[index];
  switch (p.kind) {
    case PatternKind::kWildcard:
      if (p.back) return BindBack(p, index);
      return p.children.empty() || Bind(p.children[0], index);
    case PatternKind::kConstant:
      return node.type == NodeType::kConstant;
    case PatternKind::kVar:
      return node.type == NodeType::kVar && (p.name.empty() || p.name == node.name);
    case PatternKind::kOp:
      return node.type == NodeType::kOp && p.name == node.name;
    case PatternKind::kExpr:
      return p.test(index);
    case PatternKind::kCall:
      return BindCall(p, index);
    case PatternKind::kTuple:
      return node.type == NodeType::kTuple &&
             (p.any_children || BindAll(p.children, 0, node.inputs));
    case PatternKind::kProjection:
      return node.type == NodeType::kProjection &&
             (p.projection < 0 || p.projection == node.projection) &&
             Bind(p.children[0], node.inputs[0]);
    case PatternKind::kAlternative:
      return BindAny(2, [&](int k) { return Bind(p.children[k], index); });
    case PatternKind::kAttributes:
      return Bind(p.children[0], index) && HasAttrs(p, index);
    case PatternKind::kType:
      return (p.test ? p.test(index) : IsTensor(node) && p.type == node.types[0]) &&
             Bind(p.children[0], index);
    case PatternKind::kShape:
      return (p.test ? p.test(index) : IsTensor(node) && p.shape == node.types[0].shape) &&
             Bind(p.children[0], index);
    case PatternKind::kDataType:
      return IsTensor(node) && p.dtype == node.types[0].dtype && Bind(p.children[0], index);
    case PatternKind::kDominator:
      return BindDominator(p, index);
    case PatternKind::kFunction:
    case PatternKind::kLet:
    case PatternKind::kIf:
      return BindParts(p, index);
    case PatternKind::kUnsupported:
      return false;
  }
  return false;
}

bool Binder::HasAttrs(const Pattern& pattern, NodeIndex index) const {
  const Node& node = graph_[index];
  if (node.type == NodeType::kOp && pattern.test) return pattern.test(index);
  const bool can_have =
      node.type == NodeType::kOp || node.type == NodeType::kFunction || IsCall(node);
  return can_have && HasAll(node, pattern.attrs);
}

bool Binder::BindAll(const std::vector<DataflowPattern>& patterns, size_t first, const Args& nodes,
                     bool is_reversed) {
  if (patterns.size() - first != nodes.size()) return false;
  const size_t watermark = bindings_.size();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const size_t at = is_reversed ? patterns.size() - 1 - i : first + i;
    if (!Bind(patterns[at], nodes[i])) {
      Forget(watermark);
      return false;
    }
  }
  return true;
}

bool Binder::BindCall(const Pattern& pattern, NodeIndex index) {
  const Node& node = graph_[index];
  if (!IsCall(node)) return false;
  if (!Bind(pattern.children[0], node.inputs[0])) return BindReassociated(pattern, index);
  if (pattern.any_children) return true;
  const Args args = graph_.Args(index);
  const Pattern& callee = *pattern.children[0];
  const bool is_commutative =
      callee.kind == PatternKind::kOp && (callee.name == "add" || callee.name == "multiply");
  return BindAny(is_commutative ? 2 : 1,
                 [&](int k) { return BindAll(pattern.children, 1, args, /*is_reversed=*/k == 1); });
}

/*!
 * TVM reads (a * b) / c also as a * (b / c) and b * (a / c), and x * (y / z) also as (y * x) / z:
 * the pattern is written in its other form and tried again.
 */
bool Binder::BindReassociated(const Pattern& pattern, NodeIndex index) {
  if (pattern.any_children || pattern.children.size() != 3) return false;
  const DataflowPattern& callee = pattern.children[0];
  if (callee->kind != PatternKind::kOp) return false;
  const Node& node = graph_[index];
  auto reads = [&](const char* op) {
    return std::any_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](NodeIndex arg) { return graph_[arg].IsOpCall(op); });
  };
  auto make = [this](const DataflowPattern& op, DataflowPattern a, DataflowPattern b) {
    temporaries_.push_back(pattern::Call(op, pattern::Patterns{std::move(a), std::move(b)}));
    return temporaries_.back();
  };
  const size_t watermark = bindings_.size();
  if (callee->name == "divide") {
    const DataflowPattern& product = pattern.children[1];
    if (!IsCallOf(product, "multiply") || product->children.size() != 3 ||
        !node.IsOpCall("multiply") || !reads("divide")) {
      return false;
    }
    return BindAny(2, [&](int k) {
      DataflowPattern quotient = make(callee, product->children[1 + k], pattern.children[2]);
      if (Bind(make(product->children[0], product->children[2 - k], quotient), index)) return true;
      Forget(watermark);
      return false;
    });
  } else if (callee->name == "multiply" && node.IsOpCall("divide") && reads("multiply")) {
    for (int k = 0; k < 2; ++k) {
      const DataflowPattern& quotient = pattern.children[1 + k];
      if (!IsCallOf(quotient, "divide") || quotient->children.size() != 3) continue;
      DataflowPattern product = make(callee, quotient->children[1], pattern.children[2 - k]);
      return Bind(make(quotient->children[0], product, quotient->children[2]), index);
    }
  }
  return false;
}

/*! \brief A pattern that leads back to itself at the same node, without a step up, matches nothing.
 */
bool Binder::BindBack(const Pattern& pattern, NodeIndex index) {
  const std::pair<const Pattern*, NodeIndex> step = {&pattern, index};
  if (std::find(steps_back_.begin(), steps_back_.end(), step) != steps_back_.end()) return false;
  steps_back_.push_back(step);
  const bool is_bound = Bind(pattern.back->lock(), index);
  steps_back_.pop_back();
  return is_bound;
}

bool Binder::BindDominator(const Pattern& pattern, NodeIndex index) {
  if (!Bind(pattern.children[2], index)) return false;
  // Which nodes are the path's and which the parent's follows from what fails: nothing to choose.
  Choices* const choices = std::exchange(choices_, nullptr);
  std::unordered_set<NodeIndex> passed;
  const bool is_path = BindPath(pattern, index, &passed);
  is_shared_bound_once_ = true;
  const bool is_bound = is_path && DominatesParent(pattern.children[0], index);
  choices_ = choices;
  return is_bound;
}

/*!
 * \brief Does each way up from `index` meet the parent, with only path nodes before it? A node on
 * several ways is passed once: with shared patterns off, it would pass again.
 */
bool Binder::BindPath(const Pattern& pattern, NodeIndex index,
                      std::unordered_set<NodeIndex>* passed) {
  const Node& node = graph_[index];
  const Args inputs = graph_.FlowInputs(index);
  bool has_input = false;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (IsCall(node) && (inputs[k] == inputs[0] || IsLeafNode(graph_[inputs[k]]))) continue;
    has_input = true;
    is_shared_bound_once_ = true;
    if (Bind(pattern.children[0], inputs[k])) continue;
    is_shared_bound_once_ = false;
    if (!passed->insert(inputs[k]).second) continue;
    if (!Bind(pattern.children[1], inputs[k]) || !BindPath(pattern, inputs[k], passed))
      return false;
  }
  return has_input;
}

bool Binder::DominatesParent(const DataflowPattern& parent, NodeIndex index) {
  if (const NodeIndex* bound = FindBound(parent.get())) {
    NodeIndex below = graph_[*bound].dominator;
    while (below >= 0 && below != index) below = graph_[below].dominator;
    return below == index;
  }
  std::vector<NodeIndex> stack = {index};
  while (!stack.empty()) {
    const NodeIndex current = stack.back();
    stack.pop_back();
    for (NodeIndex below : graph_.DominatedBy(current)) {
      if (Bind(parent, below)) return true;
      stack.push_back(below);
    }
  }
  return false;
}

/*! \brief Functions, lets and ifs: children against inputs, in the order in which TVM tries. */
bool Binder::BindParts(const Pattern& pattern, NodeIndex index) {
  const Node& node = graph_[index];
  const auto& in = node.inputs;
  if (pattern.kind == PatternKind::kFunction) {
    if (node.type != NodeType::kFunction || in.empty()) return false;
    const Args params(in.begin(), in.end() - 1);
    return (pattern.any_children || BindAll(pattern.children, 1, params)) &&
           Bind(pattern.children[0], in.back());
  }
  if (in.size() != 3) return false;
  if (pattern.kind == PatternKind::kIf) {
    return IsOther(node, "If") && BindAll(pattern.children, 0, in);
  }
  return IsOther(node, "Let") && BindAll(pattern.children, 0, {in[1], in[0], in[2]});
}

}  // namespace tvm::collage
