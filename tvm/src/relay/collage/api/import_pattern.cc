// SPDX-License-Identifier: Apache-2.0
#include "import_pattern.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "../relay/import_attrs.h"
#include "../relay/import_relay.h"
#include "user_functions.h"

namespace tvm::collage {
namespace {

using pattern::Patterns;

bool IsStructurallyEqual(const ObjectRef& a, const ObjectRef& b) {
  constexpr bool kAssert = false, kMapFreeVars = false;
  return CallGlobal("node.StructuralEqual", a, b, kAssert, kMapFreeVars);
}

ObjectRef ExprOf(NodeIndex index) { return ImportScope::Current().imported().exprs[index]; }

/*! \brief Null for what has no type. */
ObjectRef CheckedTypeOf(NodeIndex index) {
  ObjectRef expr = ExprOf(index);
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

/*!
 * \brief A pattern's attribute: numbers that Python left untyped get the type that TVM gives them,
 * so that they equal what a call holds.
 */
AttrValue Typed(AttrValue value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    const bool is_small = *number == static_cast<int32_t>(*number);
    return AttrNumber{is_small ? "int32" : "int64", *number};
  }
  if (const auto* real = std::get_if<double>(&value)) return AttrNumber{"float32", *real};
  if (auto* list = std::get_if<AttrList>(&value)) {
    for (AttrValue& item : *list) item = Typed(std::move(item));
  }
  return value;
}

class PatternImporter {
 public:
  explicit PatternImporter(PatternParts* parts) : parts_(parts) {}

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
  /*! \brief Stands for a pattern that is still being made, reached again from inside. */
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
    if (IsA(object, "relay.dataflow_pattern.WildcardPattern")) return Wildcard(object);
    static const auto& makers =
        *new std::unordered_map<std::string, DataflowPattern (PatternImporter::*)(const Fields&)>{
            {"relay.dataflow_pattern.ConstantPattern", &PatternImporter::Constant},
            {"relay.dataflow_pattern.VarPattern", &PatternImporter::Var},
            {"relay.dataflow_pattern.ExprPattern", &PatternImporter::Expr},
            {"relay.dataflow_pattern.CallPattern", &PatternImporter::Call},
            {"relay.dataflow_pattern.TuplePattern", &PatternImporter::Tuple},
            {"relay.dataflow_pattern.TupleGetItemPattern", &PatternImporter::Projection},
            {"relay.dataflow_pattern.AltPattern", &PatternImporter::Alternative},
            {"relay.dataflow_pattern.AttrPattern", &PatternImporter::Attributes},
            {"relay.dataflow_pattern.TypePattern", &PatternImporter::Type},
            {"relay.dataflow_pattern.ShapePattern", &PatternImporter::Shape},
            {"relay.dataflow_pattern.DataTypePattern", &PatternImporter::DataType},
            {"relay.dataflow_pattern.DominatorPattern", &PatternImporter::Dominator},
            {"relay.dataflow_pattern.FunctionPattern", &PatternImporter::Function},
            {"relay.dataflow_pattern.LetPattern", &PatternImporter::Let},
            {"relay.dataflow_pattern.IfPattern", &PatternImporter::If},
        };
    auto found = makers.find(object->GetTypeKey());
    if (found == makers.end()) {
      return pattern::Unsupported(object->GetTypeKey() + " is no pattern of TVM 0.19");
    }
    return (this->*found->second)(Fields(object));
  }

  DataflowPattern Wildcard(const ObjectRef& object) {
    const ObjectRef& to = static_cast<const relay::WildcardPatternLayout*>(object.get())->pattern;
    if (!to.defined()) return pattern::Wildcard();
    return pattern::Redirected(Visit(to));
  }
  DataflowPattern Constant(const Fields&) { return pattern::Constant(); }
  DataflowPattern Var(const Fields& fields) { return pattern::Var(fields.Str("name")); }
  DataflowPattern Expr(const Fields& fields) {
    ObjectRef expr = fields.Ref("expr");
    if (IsA(expr, "Op")) return pattern::Op(Fields(expr).Str("name"));
    return pattern::Expr([expr](NodeIndex i) { return IsStructurallyEqual(expr, ExprOf(i)); });
  }
  DataflowPattern Call(const Fields& fields) {
    return pattern::Call(Visit(fields.Ref("op")), VisitAll(fields.Ref("args")));
  }
  DataflowPattern Tuple(const Fields& fields) {
    return pattern::Tuple(VisitAll(fields.Ref("fields")));
  }
  DataflowPattern Projection(const Fields& fields) {
    return pattern::Projection(Visit(fields.Ref("tuple")), static_cast<int>(fields.Int("index")));
  }
  DataflowPattern Alternative(const Fields& fields) {
    return pattern::Alternative(Visit(fields.Ref("left")), Visit(fields.Ref("right")));
  }
  DataflowPattern Attributes(const Fields& fields) {
    Attrs attrs = ImportAttrs(fields.Ref("attrs"));
    bool is_about_graph = true;
    for (auto& [key, value] : attrs) {
      value = Typed(std::move(value));
      is_about_graph = is_about_graph && key == "TOpPattern";
    }
    NodeTest op_test;
    if (!is_about_graph) {
      op_test = [attrs](NodeIndex index) {
        const ObjectRef op = ExprOf(index);
        return std::all_of(attrs.begin(), attrs.end(), [&](const auto& attr) {
          return IsAttrEqual(attr.second, ImportOpAttr(op, attr.first));
        });
      };
    }
    return pattern::Attributes(Visit(fields.Ref("pattern")), std::move(attrs), std::move(op_test));
  }
  DataflowPattern Type(const Fields& fields) {
    ObjectRef type = fields.Ref("type");
    if (IsStaticTensor(type))
      return pattern::Type(Visit(fields.Ref("pattern")), ImportType(type)[0]);
    return pattern::Type(Visit(fields.Ref("pattern")), [type](NodeIndex index) {
      return IsStructurallyEqual(type, CheckedTypeOf(index));
    });
  }
  DataflowPattern Shape(const Fields& fields) {
    auto dims = runtime::Downcast<Array<ObjectRef>>(fields.Ref("shape"));
    DataflowPattern inner = Visit(fields.Ref("pattern"));
    std::vector<int64_t> shape;
    for (const ObjectRef& dim : dims) {
      if (IsA(dim, "IntImm")) shape.push_back(Fields(dim).Int("value"));
    }
    if (shape.size() == dims.size()) return pattern::Shape(std::move(inner), std::move(shape));
    return pattern::Shape(std::move(inner), [dims](NodeIndex index) {
      ObjectRef type = CheckedTypeOf(index);
      return IsA(type, "relay.TensorType") && IsStructurallyEqual(dims, RefField(type, "shape"));
    });
  }
  DataflowPattern DataType(const Fields& fields) {
    return pattern::DataType(Visit(fields.Ref("pattern")),
                             runtime::DLDataType2String(fields.DType("dtype")));
  }
  DataflowPattern Dominator(const Fields& fields) {
    return pattern::Dominator(Visit(fields.Ref("parent")), Visit(fields.Ref("path")),
                              Visit(fields.Ref("child")));
  }
  DataflowPattern Function(const Fields& fields) {
    return pattern::Function(VisitAll(fields.Ref("params")), Visit(fields.Ref("body")));
  }
  DataflowPattern Let(const Fields& fields) {
    return pattern::Let(Visit(fields.Ref("var")), Visit(fields.Ref("value")),
                        Visit(fields.Ref("body")));
  }
  DataflowPattern If(const Fields& fields) {
    return pattern::If(Visit(fields.Ref("cond")), Visit(fields.Ref("true_branch")),
                       Visit(fields.Ref("false_branch")));
  }

  std::unordered_map<const Object*, DataflowPattern> memo_;  // null while it is being made
  std::unordered_map<const Object*, std::shared_ptr<std::weak_ptr<const Pattern>>> back_;
  PatternParts* parts_;
};

}  // namespace

DataflowPattern ImportPattern(const ObjectRef& pattern, PatternParts* parts) {
  return PatternImporter(parts).Visit(pattern);
}

}  // namespace tvm::collage
