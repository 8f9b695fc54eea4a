// SPDX-License-Identifier: Apache-2.0
#include "import_pattern.h"

#include <functional>
#include <unordered_map>

#include "import_relay.h"

namespace tvm::collage {
namespace {

using pattern::Patterns;

class PatternImporter {
 public:
  DataflowPattern Visit(const ObjectRef& object) {
    auto [entry, is_new] = memo_.try_emplace(object.get());
    if (is_new) {
      DataflowPattern made = Make(object);  // may grow the map, so look up again
      return memo_[object.get()] = std::move(made);
    }
    return entry->second;
  }

 private:
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
    static const auto& makers =
        *new std::unordered_map<std::string, DataflowPattern (PatternImporter::*)(const Fields&)>{
            {"relay.dataflow_pattern.WildcardPattern", &PatternImporter::Wildcard},
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

  DataflowPattern Wildcard(const Fields& fields) {
    if (!fields.Has("pattern") || !fields.Ref("pattern").defined()) return pattern::Wildcard();
    return pattern::Redirected(Visit(fields.Ref("pattern")));
  }
  DataflowPattern Constant(const Fields&) { return pattern::Constant(); }
  DataflowPattern Var(const Fields& fields) { return pattern::Var(fields.Str("name")); }
  DataflowPattern Expr(const Fields& fields) {
    ObjectRef expr = fields.Ref("expr");
    if (IsA(expr, "Op")) return pattern::Op(Fields(expr).Str("name"));
    return pattern::Unsupported("an expression pattern of a " + expr->GetTypeKey());
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
    PatternAttrs attrs;
    auto dict =
        runtime::Downcast<Map<String, ObjectRef>>(RefField(fields.Ref("attrs"), "__dict__"));
    for (const auto& [key, value] : dict) attrs.emplace_back(key, ImportAttr(value));
    return pattern::Attributes(Visit(fields.Ref("pattern")), std::move(attrs));
  }
  DataflowPattern Type(const Fields& fields) {
    ObjectRef type = fields.Ref("type");
    return pattern::Type(Visit(fields.Ref("pattern")), ImportType(type), IsA(type, "TupleType"));
  }
  DataflowPattern Shape(const Fields& fields) {
    std::vector<int64_t> shape;
    for (const ObjectRef& dim : runtime::Downcast<Array<ObjectRef>>(fields.Ref("shape"))) {
      shape.push_back(IsA(dim, "IntImm") ? Fields(dim).Int("value") : TensorType::kDynamic);
    }
    return pattern::Shape(Visit(fields.Ref("pattern")), std::move(shape));
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

  std::unordered_map<const Object*, DataflowPattern> memo_;
};

}  // namespace

DataflowPattern ImportPattern(const ObjectRef& pattern) { return PatternImporter().Visit(pattern); }

}  // namespace tvm::collage
