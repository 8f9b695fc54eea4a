// SPDX-License-Identifier: Apache-2.0
// Relay function -> DataflowGraph, with the expression of each node kept beside it.
// Precondition: the function is typed (InferType). Test: tvm/tests/python/collage/test_import.py.
#ifndef TVM_RELAY_COLLAGE_FFI_IMPORT_RELAY_H_
#define TVM_RELAY_COLLAGE_FFI_IMPORT_RELAY_H_

#include <vector>

#include "../graph/dataflow_graph.h"
#include "fields.h"

namespace tvm::collage {

struct ImportedFunction {
  ObjectRef function;            // relay.Function
  DataflowGraph graph;           // parameters first, then the body; the function itself is no node
  std::vector<ObjectRef> exprs;  // node -> expression
};

/*!
 * \brief Flattens a function. Bodies of functions that are partitioned already (attributes
 * Primitive, Composite or Compiler) stay closed: such a function is one node without inputs.
 */
ImportedFunction ImportFunction(const ObjectRef& function);

/*! \brief Has the function been given to a kernel or a backend before? */
bool IsPartitioned(const ObjectRef& function);

/*! \brief A type as plain tensors, tuples flattened; empty for functions, references and ADTs. */
std::vector<TensorType> ImportType(const ObjectRef& type);

/*! \brief A boxed attribute as plain data. */
AttrValue ImportAttr(const ObjectRef& value);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_FFI_IMPORT_RELAY_H_
