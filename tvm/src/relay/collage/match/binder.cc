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

// Is it a call of that op with two arguments?
bool IsPairOf(const DataflowPattern& pattern, const char* op) {
  return pattern->kind == PatternKind::kCall && !pattern->any_children &&
         pattern->children.size() == 3 && pattern->children[0]->kind == PatternKind::kOp &&
         pattern->children[0]->name == op;
}

bool IsCommutative(const Pattern& call) {
  const Pattern& callee = *call.children[0];
  return callee.kind == PatternKind::kOp && (callee.name == "add" || callee.name == "multiply");
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

// Of two options those that `fits(k)`: `option(k)` binds the k-th; a failed one takes its bindings
// back itself.
template <typename Test, typename Option>
bool Binder::BindAny(Test&& fits, Option&& option) {
  const bool fit[] = {fits(0), fits(1)};
  if (choices_) {
    if (fit[0] && fit[1]) return option(choices_->Choose(2));
    return fit[0] ? option(0) : fit[1] && option(1);
  }
  return (fit[0] && option(0)) || (fit[1] && option(1));
}

bool Binder::Try(const DataflowPattern& pattern, NodeIndex root, Choices* choices) {
  choices_ = choices;
  bindings_.clear();
  firsts_.clear();
  is_shared_bound_once_ = true;
  return Bind(pattern, root);
}

Binder::Bindings Binder::TakeBindings() {
  auto is_temporary = [this](const auto& binding) { return temporaries_.count(binding.first) > 0; };
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
  if (!Fits(pattern, index)) return false;
  const size_t watermark = bindings_.size();
  if (!Visit(pattern, index)) {
    Forget(watermark);
    return false;
  }
  if (!FindBound(pattern.get())) firsts_.push_back(bindings_.size());
  bindings_.emplace_back(pattern.get(), index);
  return true;
}

bool Binder::Fits(const DataflowPattern& pattern, NodeIndex index) {
  if (pattern->children.empty() && !pattern->test) return FindFits(pattern, index);  // seen at once
  const std::pair<const Pattern*, NodeIndex> key = {pattern.get(), index};
  auto known = fits_.find(key);
  if (known != fits_.end()) return known->second;
  ++num_steps_;
  const bool fits = FindFits(pattern, index);
  return fits_[key] = fits;
}

bool Binder::FindFits(const DataflowPattern& pattern, NodeIndex index) {
  const Pattern& p = *pattern;
  const Node& node = graph_[index];
  auto child = [&](size_t k) { return Fits(p.children[k], index); };
  switch (p.kind) {
    case PatternKind::kWildcard:
      return p.back || p.children.empty() || child(0);  // one that leads back is followed later
    case PatternKind::kConstant:
      return node.type == NodeType::kConstant;
    case PatternKind::kVar:
      return node.type == NodeType::kVar && (p.name.empty() || p.name == node.name);
    case PatternKind::kOp:
      return node.type == NodeType::kOp && p.name == node.name;
    case PatternKind::kExpr:
      return p.test(index);
    case PatternKind::kCall:
      return IsCall(node) && FitsCall(p, index);
    case PatternKind::kTuple:
      return node.type == NodeType::kTuple &&
             (p.any_children || FitAll(p.children, 0, node.inputs));
    case PatternKind::kProjection:
      return node.type == NodeType::kProjection &&
             (p.projection < 0 || p.projection == node.projection) &&
             Fits(p.children[0], node.inputs[0]);
    case PatternKind::kAlternative:
      return child(0) || child(1);
    case PatternKind::kAttributes:
      return HasAttrs(p, index) && child(0);
    case PatternKind::kType:
      return (p.test ? p.test(index) : IsTensor(node) && p.type == node.types[0]) && child(0);
    case PatternKind::kShape:
      return (p.test ? p.test(index) : IsTensor(node) && p.shape == node.types[0].shape) &&
             child(0);
    case PatternKind::kDataType:
      return IsTensor(node) && p.dtype == node.types[0].dtype && child(0);
    case PatternKind::kDominator:
      return child(2);
    case PatternKind::kFunction:
      return node.type == NodeType::kFunction && !node.inputs.empty();
    case PatternKind::kLet:
      return IsOther(node, "Let") && node.inputs.size() == 3;
    case PatternKind::kIf:
      return IsOther(node, "If") && node.inputs.size() == 3;
    case PatternKind::kUnsupported:
      return false;
  }
  return false;
}

bool Binder::FitAll(const std::vector<DataflowPattern>& patterns, size_t first, const Args& nodes,
                    bool is_reversed) {
  if (patterns.size() - first != nodes.size()) return false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!Fits(patterns[is_reversed ? patterns.size() - 1 - i : first + i], nodes[i])) return false;
  }
  return true;
}

bool Binder::FitsCall(const Pattern& pattern, NodeIndex index) {
  if (!Fits(pattern.children[0], graph_[index].inputs[0])) return IsReassociated(pattern, index);
  if (pattern.any_children) return true;
  const Args args = graph_.Args(index);
  return FitAll(pattern.children, 1, args) ||
         (IsCommutative(pattern) && FitAll(pattern.children, 1, args, /*is_reversed=*/true));
}

// Of a pattern that fits the node.
bool Binder::Visit(const DataflowPattern& pattern, NodeIndex index) {
  ++num_steps_;
  const Pattern& p = *pattern;
  const Node& node = graph_[index];
  switch (p.kind) {
    case PatternKind::kWildcard:
      if (p.back) return BindBack(p, index);
      return p.children.empty() || Bind(p.children[0], index);
    case PatternKind::kConstant:
    case PatternKind::kVar:
    case PatternKind::kOp:
    case PatternKind::kExpr:
      return true;
    case PatternKind::kCall:
      return BindCall(p, index);
    case PatternKind::kTuple:
      return p.any_children || BindAll(p.children, 0, node.inputs);
    case PatternKind::kProjection:
      return Bind(p.children[0], node.inputs[0]);
    case PatternKind::kAlternative:
      return BindAny([&](int k) { return Fits(p.children[k], index); },
                     [&](int k) { return Bind(p.children[k], index); });
    case PatternKind::kAttributes:
    case PatternKind::kType:
    case PatternKind::kShape:
    case PatternKind::kDataType:
      return Bind(p.children[0], index);
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
  if (!Bind(pattern.children[0], graph_[index].inputs[0])) return BindReassociated(pattern, index);
  if (pattern.any_children) return true;
  const Args args = graph_.Args(index);
  if (!IsCommutative(pattern)) return BindAll(pattern.children, 1, args);
  return BindAny([&](int k) { return FitAll(pattern.children, 1, args, k == 1); },
                 [&](int k) { return BindAll(pattern.children, 1, args, k == 1); });
}

// TVM reads (a * b) / c also as a * (b / c) and b * (a / c), and x * (y / z) also as (y * x) / z:
// the pattern is written in its other form and tried again.
bool Binder::IsReassociated(const Pattern& pattern, NodeIndex index) const {
  if (pattern.any_children || pattern.children.size() != 3) return false;
  if (pattern.children[0]->kind != PatternKind::kOp) return false;
  const std::string& op = pattern.children[0]->name;
  const Node& node = graph_[index];
  auto reads = [&](const char* name) {
    return std::any_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](NodeIndex arg) { return graph_[arg].IsOpCall(name); });
  };
  if (op == "divide") {
    return IsPairOf(pattern.children[1], "multiply") && node.IsOpCall("multiply") &&
           reads("divide");
  }
  return op == "multiply" && node.IsOpCall("divide") && reads("multiply") &&
         (IsPairOf(pattern.children[1], "divide") || IsPairOf(pattern.children[2], "divide"));
}

// The pattern in its other form: of a quotient the first or the second of two.
const DataflowPattern& Binder::Reassociated(const Pattern& pattern, int way) {
  auto [entry, is_new] = reassociated_.try_emplace({&pattern, way});
  if (!is_new) return entry->second;
  auto make = [this](const DataflowPattern& op, DataflowPattern a, DataflowPattern b) {
    DataflowPattern made = pattern::Call(op, pattern::Patterns{std::move(a), std::move(b)});
    temporaries_.insert(made.get());
    return made;
  };
  const DataflowPattern& callee = pattern.children[0];
  if (callee->name == "divide") {
    const Pattern& product = *pattern.children[1];
    DataflowPattern quotient = make(callee, product.children[1 + way], pattern.children[2]);
    return entry->second = make(product.children[0], product.children[2 - way], quotient);
  }
  const int at = IsPairOf(pattern.children[1], "divide") ? 1 : 2;
  const Pattern& quotient = *pattern.children[at];
  DataflowPattern product = make(callee, quotient.children[1], pattern.children[3 - at]);
  return entry->second = make(quotient.children[0], product, quotient.children[2]);
}

bool Binder::BindReassociated(const Pattern& pattern, NodeIndex index) {
  if (!IsReassociated(pattern, index)) return false;
  if (pattern.children[0]->name == "multiply") return Bind(Reassociated(pattern, 0), index);
  return BindAny([&](int k) { return Fits(Reassociated(pattern, k), index); },
                 [&](int k) { return Bind(Reassociated(pattern, k), index); });
}

// A pattern that leads back to itself at the same node, without a step up, matches nothing.
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

// Does each way up from `index` meet the parent, with only path nodes before it? A node on several
// ways is passed once: with shared patterns off, it would pass again.
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

// Functions, lets and ifs: children against inputs, in the order in which TVM tries.
bool Binder::BindParts(const Pattern& pattern, NodeIndex index) {
  const Node& node = graph_[index];
  const auto& in = node.inputs;
  if (pattern.kind == PatternKind::kFunction) {
    const Args params(in.begin(), in.end() - 1);
    return (pattern.any_children || BindAll(pattern.children, 1, params)) &&
           Bind(pattern.children[0], in.back());
  }
  if (pattern.kind == PatternKind::kIf) return BindAll(pattern.children, 0, in);
  return BindAll(pattern.children, 0, {in[1], in[0], in[2]});
}

}  // namespace tvm::collage
