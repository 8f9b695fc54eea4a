// SPDX-License-Identifier: Apache-2.0
#include "construct.h"

#include <atomic>

#include "import_attrs.h"

namespace tvm::collage {
namespace {

const ObjectRef kKeep;  // null leaves a field of TVM's ...WithFields functions as it was

// Proves to a test which implementation it has met (upstream/test_collage.py).
std::atomic<int64_t> num_pass_runs{0};
TVM_REGISTER_GLOBAL("collage.NumPartitionRuns").set_body_typed([]() -> int64_t {
  return num_pass_runs;
});

Array<Expr> Slice(const Array<Expr>& items, size_t begin, size_t end) {
  return Array<Expr>(items.begin() + begin, items.begin() + end);
}

void AppendPatternVars(const ObjectRef& pattern, std::vector<Expr>* out) {
  if (IsA(pattern, "relay.PatternVar")) {
    out->push_back(RefField(pattern, "var"));
  } else if (IsA(pattern, "relay.PatternConstructor") || IsA(pattern, "relay.PatternTuple")) {
    for (const ObjectRef& child : RefFieldAs<Array<ObjectRef>>(pattern, "patterns")) {
      AppendPatternVars(child, out);
    }
  }
}

Expr MatchWithChildren(const Expr& match, const Array<Expr>& children) {
  Fields fields(match);
  Array<ObjectRef> clauses;
  // Children are the matched value, then for each clause its variables and its right-hand side.
  size_t next = 1;
  for (const ObjectRef& clause : runtime::Downcast<Array<ObjectRef>>(fields.Ref("clauses"))) {
    Fields old(clause);
    next += PatternVars(old.Ref("lhs")).size();
    clauses.push_back(CallGlobal("relay.ir.Clause", old.Ref("lhs"), children[next++]));
  }
  return CallGlobal("relay.ir.Match", children[0], clauses, fields.Int("complete") != 0);
}

}  // namespace

Expr WithChildren(const Expr& expr, const Array<Expr>& children) {
  if (children.empty()) return expr;
  const size_t n = children.size();
  if (IsA(expr, "relay.Call")) {
    return CallGlobal("relay.ir.CallWithFields", expr, children[0], Slice(children, 1, n), kKeep,
                      kKeep, kKeep, kKeep);
  }
  if (IsA(expr, "relay.Tuple")) {
    return CallGlobal("relay.ir.TupleWithFields", expr, children, kKeep, kKeep);
  }
  if (IsA(expr, "relay.TupleGetItem")) {
    return CallGlobal("relay.ir.TupleGetItemWithFields", expr, children[0], kKeep, kKeep, kKeep);
  }
  if (IsA(expr, "relay.Function")) return WithBody(expr, children[n - 1]);
  if (IsA(expr, "relay.Let")) {
    return CallGlobal("relay.ir.LetWithFields", expr, children[1], children[0], children[2], kKeep,
                      kKeep);
  }
  if (IsA(expr, "relay.If")) {
    return CallGlobal("relay.ir.IfWithFields", expr, children[0], children[1], children[2], kKeep,
                      kKeep);
  }
  if (IsA(expr, "relay.Match")) return MatchWithChildren(expr, children);
  if (IsA(expr, "relay.RefCreate")) {
    return CallGlobal("relay.ir.RefCreateWithFields", expr, children[0], kKeep, kKeep);
  }
  if (IsA(expr, "relay.RefRead")) {
    return CallGlobal("relay.ir.RefReadWithFields", expr, children[0], kKeep, kKeep);
  }
  if (IsA(expr, "relay.RefWrite")) {
    return CallGlobal("relay.ir.RefWriteWithFields", expr, children[0], children[1], kKeep, kKeep);
  }
  LOG(FATAL) << "InternalError: no way to rebuild a " << expr->GetTypeKey();
  throw;  // LOG(FATAL) has thrown
}

std::vector<Expr> PatternVars(const ObjectRef& pattern) {
  std::vector<Expr> vars;
  AppendPatternVars(pattern, &vars);
  return vars;
}

Expr MakeVar(const std::string& name, const ObjectRef& type) {
  return CallGlobal("relay.ir.Var", String(name), type, kKeep);
}

Expr MakeTuple(const Array<Expr>& fields) { return CallGlobal("relay.ir.Tuple", fields, kKeep); }

Expr MakeProjection(const Expr& tuple, int index) {
  if (IsA(tuple, "relay.Tuple")) return RefFieldAs<Array<Expr>>(tuple, "fields")[index];
  return CallGlobal("relay.ir.TupleGetItem", tuple, index, kKeep);
}

Expr MakeCall(const Expr& callee, const Array<Expr>& args) {
  return CallGlobal("relay.ir.Call", callee, args, kKeep, Array<ObjectRef>(), kKeep);
}

Expr MakeFunction(const Array<Expr>& params, const Expr& body, const ObjectRef& return_type) {
  // A function without attributes must still have a (then empty) dictionary of them.
  ObjectRef attrs = CallGlobal("node.MakeNode", "DictAttrs");
  return CallGlobal("relay.ir.Function", params, body, return_type, Array<ObjectRef>(), attrs,
                    kKeep);
}

Expr WithAttr(const Expr& function, const char* key, const ObjectRef& value) {
  return CallGlobal("ir.BaseFuncWithAttr", function, String(key), value);
}

Expr WithBody(const Expr& function, const Expr& body) {
  return CallGlobal("relay.ir.FunctionWithFields", function, kKeep, body, kKeep, kKeep, kKeep,
                    kKeep, kKeep);
}

Expr MakeGlobalVar(const std::string& name) {
  return CallGlobal("ir.GlobalVar", String(name), kKeep);
}

ObjectRef MakeTupleType(const Array<ObjectRef>& fields) {
  return CallGlobal("ir.TupleType", fields);
}

ObjectRef ExportAttr(const AttrValue& untyped) {
  const AttrValue value = WithNumberTypes(untyped);
  if (const auto* number = std::get_if<AttrNumber>(&value)) {
    runtime::DataType dtype(runtime::String2DLDataType(number->dtype));
    const auto* integer = std::get_if<int64_t>(&number->value);
    if (integer) return CallGlobal("ir.IntImm", dtype, *integer, kKeep);
    return CallGlobal("ir.FloatImm", dtype, std::get<double>(number->value), kKeep);
  }
  if (const auto* text = std::get_if<std::string>(&value)) return String(*text);
  if (const auto* list = std::get_if<AttrList>(&value)) {
    Array<ObjectRef> items;
    for (const AttrValue& item : *list) items.push_back(ExportAttr(item));
    return items;
  }
  ThrowUserError(
      "TypeError",
      "a composite's attribute is a number, a text or a list of such, not " + Summary(value));
}

ObjectRef One() { return ExportAttr(int64_t{1}); }

ObjectRef InferTypes(const ObjectRef& mod) {
  ObjectRef pass = CallGlobal("relay._transform.InferType");
  return CallGlobal("transform.RunPass", pass, mod);
}

ObjectRef MakeModulePass(const std::string& name,
                         std::function<ObjectRef(const ObjectRef&)> apply) {
  PackedFunc pass([apply = std::move(apply)](runtime::TVMArgs args, TVMRetValue* result) {
    ++num_pass_runs;
    *result = apply(args[0]);
  });
  constexpr int kOptLevel = 0;
  constexpr bool kTraceable = false;
  ObjectRef info =
      CallGlobal("transform.PassInfo", kOptLevel, String(name), Array<String>(), kTraceable);
  return CallGlobal("transform.MakeModulePass", pass, info);
}

ObjectRef CheckedType(const Expr& expr) {
  ObjectRef type = RefField(expr, "_checked_type_");
  ICHECK(type.defined()) << "InternalError: a " << expr->GetTypeKey() << " was not typed";
  return type;
}

}  // namespace tvm::collage
