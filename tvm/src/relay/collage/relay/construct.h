// SPDX-License-Identifier: Apache-2.0
// Makes Relay expressions and functions through TVM's global functions.
// Precondition: libtvm.so is loaded. Test: relay/test_rewrite.py.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../graph/dataflow_graph.h"
#include "fields.h"

namespace tvm::collage {

using Expr = ObjectRef;

// The same expression over other children, given in the order in which post-dfs meets them.
Expr WithChildren(const Expr& expr, const Array<Expr>& children);

// Variables that a match clause's pattern binds, left to right.
std::vector<Expr> PatternVars(const ObjectRef& pattern);

Expr MakeVar(const std::string& name, const ObjectRef& type);
Expr MakeTuple(const Array<Expr>& fields);
// A field of the tuple; where that is written out, what stands there.
Expr MakeProjection(const Expr& tuple, int index);
Expr MakeCall(const Expr& callee, const Array<Expr>& args);
// `return_type` may be null: InferType then finds it.
Expr MakeFunction(const Array<Expr>& params, const Expr& body, const ObjectRef& return_type);
Expr WithAttr(const Expr& function, const char* key, const ObjectRef& value);
Expr WithBody(const Expr& function, const Expr& body);
Expr MakeGlobalVar(const std::string& name);
ObjectRef MakeTupleType(const Array<ObjectRef>& fields);
// An attribute as Relay's parser would hold it; the inverse of ImportAttr.
ObjectRef ExportAttr(const AttrValue& value);
// The literal 1 as Relay's function attributes hold it.
ObjectRef One();

// The module with every expression typed. Throws TVM's own error for an ill-typed module.
ObjectRef InferTypes(const ObjectRef& mod);

// A module pass of opt level 0.
ObjectRef MakeModulePass(const std::string& name,
                         std::function<ObjectRef(const ObjectRef& mod)> apply);

// The type that InferType left on the expression. Throws when there is none.
ObjectRef CheckedType(const Expr& expr);

}  // namespace tvm::collage
