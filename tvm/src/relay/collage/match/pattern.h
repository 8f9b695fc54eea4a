// SPDX-License-Identifier: Apache-2.0
// DataflowPattern: relay.dataflow_pattern as plain data, a DAG in which one shared node must bind
// one expression wherever it occurs. Precondition: built by the functions below; only a redirected
// wildcard may lead back to what it is part of.
// Test: tvm/tests/cpp/match_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../graph/dataflow_graph.h"

namespace tvm::collage {

enum class PatternKind {
  kWildcard,
  kConstant,
  kVar,
  kOp,
  kExpr,         // an expression given whole
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
// What the graph's plain data cannot tell of a node; the importer of the pattern can.
using NodeTest = std::function<bool(NodeIndex)>;

struct Pattern {
  PatternKind kind = PatternKind::kWildcard;
  std::vector<DataflowPattern> children;
  bool any_children = false;   // arguments, fields or parameters were not given
  std::string name;            // op, or a variable's hint (empty matches any variable)
  int projection = -1;         // -1 matches any field
  Attrs attrs;                 // all must be there and equal; others are ignored
  TensorType type;             // of kType
  std::vector<int64_t> shape;  // of kShape
  std::string dtype;           // of kDataType
  NodeTest
      test;  // of kExpr; of kType and kShape in place of plain data; of kAttributes about an op
  std::shared_ptr<std::weak_ptr<const Pattern>> back;  // of kWildcard, see RedirectedBack
  std::string reason;  // of kUnsupported: what it is and why we cannot match it
};

// All of it is for plugins.
#pragma GCC visibility push(default)
namespace pattern {

using Patterns = std::vector<DataflowPattern>;

DataflowPattern Wildcard();
// `relay.dataflow_pattern.wildcard().redirect_to(to)`.
DataflowPattern Redirected(DataflowPattern to);
// Redirected to a pattern that it is part of, set once that is made: chains of any length.
DataflowPattern RedirectedBack(std::shared_ptr<std::weak_ptr<const Pattern>> to);
DataflowPattern Constant();
DataflowPattern Var(std::string name = "");
DataflowPattern Op(std::string name);
DataflowPattern Expr(NodeTest is_equal);
DataflowPattern Call(DataflowPattern callee, std::optional<Patterns> args);
DataflowPattern Call(std::string op, std::optional<Patterns> args);
DataflowPattern Tuple(std::optional<Patterns> fields);
DataflowPattern Projection(DataflowPattern tuple, int index = -1);
DataflowPattern Alternative(DataflowPattern left, DataflowPattern right);
// `base.optional(wrap)`: `wrapped` holds `base`; tried when `base` fails.
DataflowPattern Optional(DataflowPattern base, DataflowPattern wrapped);
// On a call or a function: its attributes. On an op: the op's own, which the graph holds for
// TOpPattern alone; with other names `op_test` is asked, and without it none matches.
DataflowPattern Attributes(DataflowPattern inner, Attrs attrs, NodeTest op_test = nullptr);
// A tensor of that type, which has no dynamic dimension; any other type by a test.
DataflowPattern Type(DataflowPattern inner, TensorType type);
DataflowPattern Type(DataflowPattern inner, NodeTest has_type);
DataflowPattern Shape(DataflowPattern inner, std::vector<int64_t> shape);
DataflowPattern Shape(DataflowPattern inner, NodeTest has_shape);
DataflowPattern DataType(DataflowPattern inner, std::string dtype);
DataflowPattern Dominator(DataflowPattern parent, DataflowPattern path, DataflowPattern child);
DataflowPattern Function(std::optional<Patterns> params, DataflowPattern body);
DataflowPattern Let(DataflowPattern var, DataflowPattern value, DataflowPattern body);
DataflowPattern If(DataflowPattern condition, DataflowPattern if_true, DataflowPattern if_false);
// Never matches; `reason` is what the user reads.
DataflowPattern Unsupported(std::string reason);

}  // namespace pattern
#pragma GCC visibility pop

// Does an attribute have the value that a pattern asks for? A number equals a field of the same
// value; in a list or an object only one of its own type. Null equals nothing.
bool IsAttrEqual(const AttrValue& asked, const AttrValue& value);

// Has the pattern no parts, so that it leaves open what is above its node?
bool IsLeaf(const Pattern& pattern);

// Reason of the first unsupported part, or empty.
std::string UnsupportedReason(const DataflowPattern& pattern);
// As relay would print it, in short: `nn.relu(nn.conv2d(*, const))`. A long part that occurs again
// is `%1=(..)` the first time and `%1` after that.
std::string Summary(const DataflowPattern& pattern);

}  // namespace tvm::collage
