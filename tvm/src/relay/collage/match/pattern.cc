// SPDX-License-Identifier: Apache-2.0
#include "pattern.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tvm::collage::pattern {
namespace {

std::shared_ptr<Pattern> Make(PatternKind kind, Patterns children = {}) {
  auto result = std::make_shared<Pattern>();
  result->kind = kind;
  result->children = std::move(children);
  return result;
}

// `head` first, then `rest`; without `rest` anything may follow.
std::shared_ptr<Pattern> MakeList(PatternKind kind, Patterns head, std::optional<Patterns> rest) {
  auto result = Make(kind, std::move(head));
  result->any_children = !rest.has_value();
  if (rest) result->children.insert(result->children.end(), rest->begin(), rest->end());
  return result;
}

std::shared_ptr<Pattern> MakeNamed(PatternKind kind, std::string name) {
  auto result = Make(kind);
  result->name = std::move(name);
  return result;
}

std::shared_ptr<Pattern> MakeTested(PatternKind kind, Patterns children, NodeTest test) {
  auto result = Make(kind, std::move(children));
  result->test = std::move(test);
  return result;
}

}  // namespace

DataflowPattern Wildcard() { return Make(PatternKind::kWildcard); }
DataflowPattern Redirected(DataflowPattern to) {
  return Make(PatternKind::kWildcard, {std::move(to)});
}
DataflowPattern RedirectedBack(std::shared_ptr<std::weak_ptr<const Pattern>> to) {
  auto result = Make(PatternKind::kWildcard);
  result->back = std::move(to);
  return result;
}
DataflowPattern Constant() { return Make(PatternKind::kConstant); }
DataflowPattern Var(std::string name) { return MakeNamed(PatternKind::kVar, std::move(name)); }
DataflowPattern Op(std::string name) { return MakeNamed(PatternKind::kOp, std::move(name)); }

DataflowPattern Expr(NodeTest is_equal) {
  return MakeTested(PatternKind::kExpr, {}, std::move(is_equal));
}

DataflowPattern Call(DataflowPattern callee, std::optional<Patterns> args) {
  return MakeList(PatternKind::kCall, {std::move(callee)}, std::move(args));
}
DataflowPattern Call(std::string op, std::optional<Patterns> args) {
  return Call(Op(std::move(op)), std::move(args));
}
DataflowPattern Tuple(std::optional<Patterns> fields) {
  return MakeList(PatternKind::kTuple, {}, std::move(fields));
}

DataflowPattern Projection(DataflowPattern tuple, int index) {
  auto result = Make(PatternKind::kProjection, {std::move(tuple)});
  result->projection = index;
  return result;
}

DataflowPattern Alternative(DataflowPattern left, DataflowPattern right) {
  return Make(PatternKind::kAlternative, {std::move(left), std::move(right)});
}
DataflowPattern Optional(DataflowPattern base, DataflowPattern wrapped) {
  return Alternative(std::move(base), std::move(wrapped));
}

DataflowPattern Attributes(DataflowPattern inner, Attrs attrs, NodeTest op_test) {
  auto result = MakeTested(PatternKind::kAttributes, {std::move(inner)}, std::move(op_test));
  result->attrs = std::move(attrs);
  return result;
}
DataflowPattern Type(DataflowPattern inner, TensorType type) {
  auto result = Make(PatternKind::kType, {std::move(inner)});
  result->type = std::move(type);
  return result;
}
DataflowPattern Type(DataflowPattern inner, NodeTest has_type) {
  return MakeTested(PatternKind::kType, {std::move(inner)}, std::move(has_type));
}
DataflowPattern Shape(DataflowPattern inner, std::vector<int64_t> shape) {
  auto result = Make(PatternKind::kShape, {std::move(inner)});
  result->shape = std::move(shape);
  return result;
}
DataflowPattern Shape(DataflowPattern inner, NodeTest has_shape) {
  return MakeTested(PatternKind::kShape, {std::move(inner)}, std::move(has_shape));
}
DataflowPattern DataType(DataflowPattern inner, std::string dtype) {
  auto result = Make(PatternKind::kDataType, {std::move(inner)});
  result->dtype = std::move(dtype);
  return result;
}

DataflowPattern Dominator(DataflowPattern parent, DataflowPattern path, DataflowPattern child) {
  return Make(PatternKind::kDominator, {std::move(parent), std::move(path), std::move(child)});
}
DataflowPattern Function(std::optional<Patterns> params, DataflowPattern body) {
  return MakeList(PatternKind::kFunction, {std::move(body)}, std::move(params));
}
DataflowPattern Let(DataflowPattern var, DataflowPattern value, DataflowPattern body) {
  return Make(PatternKind::kLet, {std::move(var), std::move(value), std::move(body)});
}
DataflowPattern If(DataflowPattern condition, DataflowPattern if_true, DataflowPattern if_false) {
  return Make(PatternKind::kIf, {std::move(condition), std::move(if_true), std::move(if_false)});
}
DataflowPattern Unsupported(std::string reason) {
  auto result = Make(PatternKind::kUnsupported);
  result->reason = std::move(reason);
  return result;
}

}  // namespace tvm::collage::pattern

namespace tvm::collage {

bool IsAttrEqual(const AttrValue& asked, const AttrValue& value) {
  if (const auto* number = std::get_if<AttrNumber>(&asked)) {
    if (const auto* field = std::get_if<int64_t>(&value))
      return number->value == AttrNumber::Value(*field);
    if (const auto* field = std::get_if<double>(&value))
      return number->value == AttrNumber::Value(*field);
  }
  if (const auto* list = std::get_if<AttrList>(&asked)) {
    const auto* values = std::get_if<AttrList>(&value);
    return values != nullptr &&
           std::equal(list->begin(), list->end(), values->begin(), values->end(), IsAttrEqual);
  }
  return !std::holds_alternative<std::monostate>(asked) && asked == value;
}

bool IsLeaf(const Pattern& pattern) {
  // A tuple or a call whose children were not given still says what its node is.
  return pattern.children.empty() && pattern.kind != PatternKind::kTuple && !pattern.back;
}

namespace {

// `visit` gets each part once, however many others share it; true from it ends the walk.
template <typename Visit>
bool VisitOnce(const DataflowPattern& pattern, std::unordered_set<const Pattern*>* seen,
               Visit&& visit) {
  if (!seen->insert(pattern.get()).second) return false;
  if (visit(*pattern)) return true;
  return std::any_of(pattern->children.begin(), pattern->children.end(),
                     [&](const auto& child) { return VisitOnce(child, seen, visit); });
}

// What many parts share is printed where it is met first, by its number after that.
class Printer {
 public:
  explicit Printer(const DataflowPattern& pattern) {
    std::unordered_set<const Pattern*> seen;
    VisitOnce(pattern, &seen, [this](const Pattern& part) {
      for (const DataflowPattern& child : part.children) ++num_uses_[child.get()];
      return false;
    });
  }

  std::string Text(const DataflowPattern& pattern) {
    auto known = texts_.find(pattern.get());
    if (known != texts_.end()) return known->second;
    std::string text = Write(*pattern);
    if (num_uses_[pattern.get()] < 2) return text;
    if (text.size() <= kMostRepeated) return texts_[pattern.get()] = text;
    const std::string number = "%" + std::to_string(++num_numbers_);
    texts_[pattern.get()] = number;
    return number + "=" + text;
  }

 private:
  static constexpr size_t kMostRepeated = 60;

  std::string List(const Pattern& pattern, size_t first) {
    if (pattern.any_children) return "(..)";
    std::string text = "(";
    for (size_t i = first; i < pattern.children.size(); ++i) {
      text += (i > first ? ", " : "") + Text(pattern.children[i]);
    }
    return text + ")";
  }

  // Children in the order in which they are read: the first of equals has the text.
  std::string Write(const Pattern& p) {
    auto child = [&](size_t i) { return Text(p.children[i]); };
    switch (p.kind) {
      case PatternKind::kWildcard:
        return p.back ? "(back)" : p.children.empty() ? "*" : child(0);
      case PatternKind::kConstant:
        return "const";
      case PatternKind::kVar:
        return "var" + (p.name.empty() ? "" : " " + p.name);
      case PatternKind::kOp:
        return p.name;
      case PatternKind::kExpr:
        return "expr";
      case PatternKind::kCall: {
        const std::string callee = child(0);
        return callee + List(p, 1);
      }
      case PatternKind::kTuple:
        return "tuple" + List(p, 0);
      case PatternKind::kProjection:
        return child(0) + "." + (p.projection < 0 ? "*" : std::to_string(p.projection));
      case PatternKind::kAlternative: {
        const std::string left = child(0);
        return "(" + left + " | " + child(1) + ")";
      }
      case PatternKind::kAttributes:
      case PatternKind::kType:
      case PatternKind::kShape:
      case PatternKind::kDataType: {
        std::string text = child(0) + "{";
        for (const auto& attr : p.attrs) text += attr.first + ",";
        if (p.kind == PatternKind::kType) text += "type";
        if (p.kind == PatternKind::kShape) text += "shape";
        return text + p.dtype + "}";
      }
      case PatternKind::kDominator:
        return "dominator" + List(p, 0);
      case PatternKind::kFunction: {
        const std::string params = List(p, 1);
        return "fn" + params + " { " + child(0) + " }";
      }
      case PatternKind::kLet:
        return "let" + List(p, 0);
      case PatternKind::kIf:
        return "if" + List(p, 0);
      case PatternKind::kUnsupported:
        return "unsupported";
    }
    return "?";
  }

  std::unordered_map<const Pattern*, int> num_uses_;
  std::unordered_map<const Pattern*, std::string> texts_;
  int num_numbers_ = 0;
};

}  // namespace

std::string UnsupportedReason(const DataflowPattern& pattern) {
  std::string reason;
  std::unordered_set<const Pattern*> seen;
  VisitOnce(pattern, &seen, [&](const Pattern& part) {
    if (part.kind == PatternKind::kUnsupported) reason = part.reason;
    return !reason.empty();
  });
  return reason;
}

std::string Summary(const DataflowPattern& pattern) { return Printer(pattern).Text(pattern); }

}  // namespace tvm::collage
