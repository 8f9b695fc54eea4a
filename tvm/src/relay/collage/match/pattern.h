// SPDX-License-Identifier: Apache-2.0
// DataflowPattern: relay.dataflow_pattern as plain data, a DAG in which one shared node must bind
// one expression wherever it occurs. Precondition: built by the Make functions below, never cyclic.
// Test: tvm/tests/cpp/match_test.cc.
#ifndef TVM_RELAY_COLLAGE_MATCH_PATTERN_H_
#define TVM_RELAY_COLLAGE_MATCH_PATTERN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../graph/dataflow_graph.h"

namespace tvm::collage {

enum class PatternKind {
  kWildcard,
  kConstant,
  kVar,
  kOp,
  kExpr,         // an expression given whole, compared by structural hash
  kCall,         // children: callee, then the arguments unless any_children
  kTuple,        // children: fields unless any_children
  kProjection,   // children: tuple
  kAlternative,  // children: left, right
  kAttributes,   // children: pattern
  kType,         // children: pattern
  kShape,        // children: pattern
  kDataType,     // children: pattern
  kDominator,    // children: parent, path, child
  kFunction,     // children: body, then the parameters unless any_children
  kLet,          // children: variable, value, body
  kIf,           // children: condition, true branch, false branch
  kUnsupported,
};

struct Pattern;
using DataflowPattern = std::shared_ptr<const Pattern>;
using PatternAttrs = std::vector<std::pair<std::string, AttrValue>>;

struct Pattern {
  PatternKind kind = PatternKind::kWildcard;
  std::vector<DataflowPattern> children;
  bool any_children = false;      // arguments, fields or parameters were not given
  std::string name;               // op, or a variable's hint (empty matches any variable)
  int projection = -1;            // -1 matches any field
  PatternAttrs attrs;             // all must be there and equal; others are ignored
  std::vector<TensorType> types;  // of kType, flattened as in Node
  bool is_tuple_typed = false;    // of kType
  std::vector<int64_t> shape;     // of kShape; TensorType::kDynamic equals only itself
  std::string dtype;              // of kDataType
  uint64_t hash = 0;              // of kExpr
  std::string reason;             // of kUnsupported: what it is and why we cannot match it
};

namespace pattern {

using Patterns = std::vector<DataflowPattern>;

DataflowPattern Wildcard();
/*! \brief `relay.dataflow_pattern.wildcard().redirect_to(to)`. */
DataflowPattern Redirected(DataflowPattern to);
DataflowPattern Constant();
DataflowPattern Var(std::string name = "");
DataflowPattern Op(std::string name);
/*! \brief Any expression whose Node::hash is `hash`; a graph without hashes never matches. */
DataflowPattern Expr(uint64_t hash);
DataflowPattern Call(DataflowPattern callee, std::optional<Patterns> args);
DataflowPattern Call(std::string op, std::optional<Patterns> args);
DataflowPattern Tuple(std::optional<Patterns> fields);
DataflowPattern Projection(DataflowPattern tuple, int index = -1);
DataflowPattern Alternative(DataflowPattern left, DataflowPattern right);
/*! \brief `base.optional(wrap)`: `wrapped` is the larger pattern, which holds `base` itself. */
DataflowPattern Optional(DataflowPattern base, DataflowPattern wrapped);
/*! \brief On a call: its attributes. On an op: the op's own, such as TOpPattern. */
DataflowPattern Attributes(DataflowPattern inner, PatternAttrs attrs);
DataflowPattern Type(DataflowPattern inner, std::vector<TensorType> types, bool is_tuple = false);
DataflowPattern Shape(DataflowPattern inner, std::vector<int64_t> shape);
DataflowPattern DataType(DataflowPattern inner, std::string dtype);
DataflowPattern Dominator(DataflowPattern parent, DataflowPattern path, DataflowPattern child);
DataflowPattern Function(std::optional<Patterns> params, DataflowPattern body);
DataflowPattern Let(DataflowPattern var, DataflowPattern value, DataflowPattern body);
DataflowPattern If(DataflowPattern condition, DataflowPattern if_true, DataflowPattern if_false);
/*! \brief Never matches; `reason` is what the user reads. */
DataflowPattern Unsupported(std::string reason);

}  // namespace pattern

/*! \brief Reason of the first unsupported part, or empty. */
std::string UnsupportedReason(const DataflowPattern& pattern);
/*! \brief As relay would print it, in short: `nn.relu(nn.conv2d(*, const))`. */
std::string Summary(const DataflowPattern& pattern);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_MATCH_PATTERN_H_
