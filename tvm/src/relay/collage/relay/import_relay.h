// SPDX-License-Identifier: Apache-2.0
// Relay function -> DataflowGraph, with the expression of each node kept beside it.
// Precondition: the function is typed (InferType). Test: relay/test_import_relay.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../graph/dataflow_graph.h"
#include "fields.h"

namespace tvm::collage {

// Always owned by a shared_ptr, since views of it may outlive the pass.
struct ImportedFunction : std::enable_shared_from_this<ImportedFunction> {
  ObjectRef function;            // relay.Function
  DataflowGraph graph;           // parameters first, then the body; the function itself is no node
  std::vector<ObjectRef> exprs;  // node -> expression, over values in place of names
  // What a node was before names were replaced (named_values.h).
  struct Written {
    NodeType type;
    std::vector<NodeIndex> inputs;
  };
  std::vector<Written> written;
  NodeIndex written_result = -1;
};
using ImportedPtr = std::shared_ptr<const ImportedFunction>;

// What becomes of expressions that only name a value (named_values.h).
enum class Naming { kReplaced, kAsWritten };

// Flattens a function. Bodies of functions that are partitioned already (attributes Primitive,
// Composite or Compiler) stay closed: such a function is one node without inputs.
ImportedPtr ImportFunction(const ObjectRef& function, Naming naming = Naming::kReplaced);

// The module with a type at each expression of its functions. TVM infers all types anew each time,
// which can take longer than a search, so one that has them already is left alone.
ObjectRef Typed(const ObjectRef& mod);

// Is it Relay, and not an op's or a backend's kernel already?
bool CanBePartitioned(const ObjectRef& function);
// Why it cannot, for reports; empty when it can.
std::string WhyNotPartitioned(const ObjectRef& function);

// Has the function been given to a kernel or a backend before?
bool IsPartitioned(const ObjectRef& function);

// A type as plain tensors, tuples flattened; empty for functions, references and ADTs.
std::vector<TensorType> ImportType(const ObjectRef& type);

}  // namespace tvm::collage
