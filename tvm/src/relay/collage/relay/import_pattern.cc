// SPDX-License-Identifier: Apache-2.0
#include "import_pattern.h"

#include <algorithm>
#include <unordered_map>

#include "import_attrs.h"
#include "import_relay.h"

namespace tvm::collage {
namespace {

using pattern::Patterns;

bool IsEqual(const ObjectRef& a, const ObjectRef& b) {
  constexpr bool kMapFreeVars = false;
  return IsStructurallyEqual(a, b, kMapFreeVars);
}

// Null for what has no type.
ObjectRef TypeOf(const ObjectRef& expr) {
  if (IsA(expr, "Op")) return RefField(expr, "op_type");
  Fields fields(expr);
  return fields.Has("_checked_type_") ? fields.Ref("_checked_type_") : ObjectRef();
}

bool IsStaticTensor(const ObjectRef& type) {
  if (!IsA(type, "relay.TensorType")) return false;
  const auto shape = RefFieldAs<Array<ObjectRef>>(type, "shape");
  return std::all_of(shape.begin(), shape.end(),
                     [](const ObjectRef& dim) { return IsA(dim, "IntImm"); });
}

class PatternImporter {
 public:
  PatternImporter(ExprGetter expr_of, PatternParts* parts) : expr_of_(expr_of), parts_(parts) {}

  DataflowPattern Visit(const ObjectRef& object) {
    auto [entry, is_new] = memo_.try_emplace(object.get());
    if (!is_new) return entry->second ? entry->second : LeadBack(object);
    DataflowPattern made = Make(object);  // may grow the map, so look up again
    if (parts_) parts_->emplace_back(object, made);
    auto waiting = back_.find(object.get());
    if (waiting != back_.end()) *waiting->second = made;
    return memo_[object.get()] = std::move(made);
  }

 private:
  // Stands for a pattern that is still being made, reached again from inside.
  DataflowPattern LeadBack(const ObjectRef& object) {
    auto [slot, is_new] = back_.try_emplace(object.get());
    if (is_new) slot->second = std::make_shared<std::weak_ptr<const Pattern>>();
    return pattern::RedirectedBack(slot->second);
  }

  // Children that were not given (any number will do) are null in TVM.
  std::optional<Patterns> VisitAll(const ObjectRef& array) {
    if (!array.defined()) return std::nullopt;
    Patterns patterns;
    for (const ObjectRef& item : runtime::Downcast<Array<ObjectRef>>(array)) {
      patterns.push_back(Visit(item));
    }
    return patterns;
  }

  DataflowPattern Make(const ObjectRef& object) {
    const std::string key = object->GetTypeKey();
    const std::string prefix = "relay.dataflow_pattern.";
    const auto unsupported = [&] {
      return pattern::Unsupported(key + " is no pattern of TVM 0.19");
    };
    if (key.rfind(prefix, 0) != 0) return unsupported();
    const std::string kind = key.substr(prefix.size());
    if (kind == "WildcardPattern") return Wildcard(object);
    const Fields fields(object);
    const auto child = [&](const char* name) { return Visit(fields.Ref(name)); };
    const auto children = [&](const char* name) { return VisitAll(fields.Ref(name)); };
    if (kind == "ConstantPattern") return pattern::Constant();
    if (kind == "VarPattern") return pattern::Var(fields.Str("name"));
    if (kind == "ExprPattern") return Expr(fields.Ref("expr"));
    if (kind == "CallPattern") return pattern::Call(child("op"), children("args"));
    if (kind == "TuplePattern") return pattern::Tuple(children("fields"));
    if (kind == "TupleGetItemPattern") {
      return pattern::Projection(child("tuple"), static_cast<int>(fields.Int("index")));
    }
    if (kind == "AltPattern") return pattern::Alternative(child("left"), child("right"));
    if (kind == "AttrPattern") return Attributes(fields);
    if (kind == "TypePattern") return Type(child("pattern"), fields.Ref("type"));
    if (kind == "ShapePattern") return Shape(child("pattern"), fields.Ref("shape"));
    if (kind == "DataTypePattern") {
      return pattern::DataType(child("pattern"), runtime::DLDataType2String(fields.DType("dtype")));
    }
    if (kind == "DominatorPattern") {
      return pattern::Dominator(child("parent"), child("path"), child("child"));
    }
    if (kind == "FunctionPattern") return pattern::Function(children("params"), child("body"));
    if (kind == "LetPattern") return pattern::Let(child("var"), child("value"), child("body"));
    if (kind == "IfPattern") {
      return pattern::If(child("cond"), child("true_branch"), child("false_branch"));
    }
    return unsupported();
  }

  DataflowPattern Wildcard(const ObjectRef& object) {
    const ObjectRef& to = static_cast<const relay::WildcardPatternLayout*>(object.get())->pattern;
    if (!to.defined()) return pattern::Wildcard();
    return pattern::Redirected(Visit(to));
  }
  DataflowPattern Expr(const ObjectRef& expr) {
    if (IsA(expr, "Op")) return pattern::Op(Fields(expr).Str("name"));
    return pattern::Expr([expr, of = expr_of_](NodeIndex i) { return IsEqual(expr, of(i)); });
  }
  DataflowPattern Attributes(const Fields& fields) {
    Attrs attrs = ImportAttrs(fields.Ref("attrs"));
    bool is_about_graph = true;
    for (auto& [key, value] : attrs) {
      value = WithNumberTypes(std::move(value));  // then they equal what a call holds
      is_about_graph = is_about_graph && key == "TOpPattern";
    }
    NodeTest op_test;
    if (!is_about_graph) {
      op_test = [attrs, of = expr_of_](NodeIndex index) {
        const ObjectRef op = of(index);
        return std::all_of(attrs.begin(), attrs.end(), [&](const auto& attr) {
          return IsAttrEqual(attr.second, ImportOpAttr(op, attr.first));
        });
      };
    }
    return pattern::Attributes(Visit(fields.Ref("pattern")), std::move(attrs), std::move(op_test));
  }
  DataflowPattern Type(DataflowPattern inner, const ObjectRef& type) {
    if (IsStaticTensor(type)) return pattern::Type(std::move(inner), ImportType(type)[0]);
    return pattern::Type(std::move(inner), [type, of = expr_of_](NodeIndex index) {
      return IsEqual(type, TypeOf(of(index)));
    });
  }
  DataflowPattern Shape(DataflowPattern inner, const ObjectRef& dims) {
    std::vector<int64_t> shape;
    const auto all = runtime::Downcast<Array<ObjectRef>>(dims);
    for (const ObjectRef& dim : all) {
      if (IsA(dim, "IntImm")) shape.push_back(Fields(dim).Int("value"));
    }
    if (shape.size() == all.size()) return pattern::Shape(std::move(inner), std::move(shape));
    return pattern::Shape(std::move(inner), [dims, of = expr_of_](NodeIndex index) {
      ObjectRef type = TypeOf(of(index));
      return IsA(type, "relay.TensorType") && IsEqual(dims, RefField(type, "shape"));
    });
  }

  std::unordered_map<const Object*, DataflowPattern> memo_;  // null while it is being made
  std::unordered_map<const Object*, std::shared_ptr<std::weak_ptr<const Pattern>>> back_;
  const ExprGetter expr_of_;
  PatternParts* parts_;
};

}  // namespace

DataflowPattern ImportPattern(const ObjectRef& pattern, ExprGetter expr_of, PatternParts* parts) {
  return PatternImporter(expr_of, parts).Visit(pattern);
}

}  // namespace tvm::collage
