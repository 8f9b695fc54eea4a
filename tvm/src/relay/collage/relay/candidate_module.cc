// SPDX-License-Identifier: Apache-2.0
#include "candidate_module.h"

namespace tvm::collage {
namespace {

/*! \brief A value of the type, made of new parameters of tensor type that are added to `params`. */
Expr ArgumentOf(const ObjectRef& type, Array<Expr>* params) {
  if (!IsA(type, "TupleType")) {
    params->push_back(MakeVar("input_" + std::to_string(params->size()), type));
    return params->back();
  }
  Array<Expr> fields;
  for (const ObjectRef& field : RefFieldAs<Array<ObjectRef>>(type, "fields")) {
    fields.push_back(ArgumentOf(field, params));
  }
  return MakeTuple(fields);
}

/*! \brief @main: tensors -> what `function` gives for them, called when it has a name, else inline.
 */
Expr MainOf(const Expr& function, const Optional<Expr>& global_var) {
  Array<Expr> params;
  Array<Expr> args;
  Map<ObjectRef, ObjectRef> bound;
  for (const ObjectRef& param : RefFieldAs<Array<ObjectRef>>(function, "params")) {
    args.push_back(ArgumentOf(RefField(param, "type_annotation"), &params));
    bound.Set(param, args.back());
  }
  Expr body = global_var ? MakeCall(global_var.value(), args)
                         : CallGlobal("relay.ir.Bind", RefField(function, "body"), bound);
  return MakeFunction(params, body, ObjectRef());
}

/*! \brief By function, the module that is measured for each part in rows (see PartRows). */
Map<String, Array<ObjectRef>> PartModules(const ObjectRef& untyped,
                                          Map<String, Array<ObjectRef>> rows_of) {
  Placement placement = EmptyPlacement(InferTypes(untyped));
  SetParts(rows_of, &placement);
  Map<String, Array<ObjectRef>> modules;
  for (const PlacedFunction& function : placement.functions) {
    Array<ObjectRef> made;
    for (const PlacedPart& part : function.parts) {
      made.push_back(
          CandidateModule(*function.imported, part.sub_graph, part.is_primitive, part.backend));
    }
    modules.Set(Fields(function.global_var).Str("name_hint"), made);
  }
  return modules;
}

}  // namespace

ObjectRef CandidateModule(const ImportedFunction& imported, const SubGraph& sub_graph,
                          bool is_primitive, const std::string& compiler) {
  Map<ObjectRef, ObjectRef> functions;
  Expr main;
  if (is_primitive) {
    NameSupply names;
    ExternalFunction external = MakeExternal(imported, sub_graph, compiler, &names);
    functions.Set(external.global_var, external.function);
    main = MainOf(external.function, external.global_var);
  } else {
    main = MainOf(ExtractFunction(imported, sub_graph), tvm::NullOpt);
  }
  functions.Set(MakeGlobalVar("main"), main);
  ObjectRef mod = CallGlobal("ir.IRModule", functions, Map<ObjectRef, ObjectRef>(), ObjectRef(),
                             Map<String, ObjectRef>());
  return InferTypes(mod);
}

TVM_REGISTER_GLOBAL("collage.PartModules").set_body_typed(PartModules);

}  // namespace tvm::collage
