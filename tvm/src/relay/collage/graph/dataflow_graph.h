// SPDX-License-Identifier: Apache-2.0
// DataflowGraph: one function as flat arrays over its post-dfs order, knowing nothing of TVM.
// Precondition: nodes are appended in post-dfs order (a node's inputs come before it), then
// Finish() is called once. Test: tvm/tests/cpp/dataflow_graph_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "attr_value.h"
#include "index_set.h"

namespace tvm::collage {

// Position of a sub-expression in the post-dfs order of its function (RFC 0062).
using NodeIndex = int;

// What TVM can fuse; the numbers are those of TVM's `TOpPattern` attribute.
enum class OpKind : int {
  kElemWise = 0,
  kBroadcast = 1,
  kInjective = 2,
  kCommReduce = 3,
  kOutEWiseFusable = 4,
  kTuple = 7,
  kOpaque = 8,
};

enum class NodeType {  // in the order of NameOf's table
  kVar,                // parameter, let-bound or pattern-bound variable
  kConstant,
  kOp,  // the operator itself, as callee
  kGlobalVar,
  kConstructor,
  kCall,       // of an op
  kCallOther,  // of a function, closure, global or constructor
  kTuple,
  kProjection,
  kFunction,  // inputs: parameters, then the body
  kOther,     // name says which: "Let" (inputs: value, variable, body), "If" (condition, true and
              // false branch), "Match", "RefCreate", "RefRead", "RefWrite"
  kLeftOut,   // kept for its index: it named another node's value, or nobody reads it; no inputs
};

// "var", "call", ...: the names in every Summary.
const char* NameOf(NodeType type);

// Tensor type; a dimension that is not known at compile time is kDynamic.
struct COLLAGE_API TensorType {
  static constexpr int64_t kDynamic = -1;
  std::vector<int64_t> shape;
  std::string dtype;
  int64_t NumBytes() const;  // 0 when a dimension is dynamic
  bool operator==(const TensorType& that) const {
    return shape == that.shape && dtype == that.dtype;
  }
};

struct COLLAGE_API Node {
  NodeType type = NodeType::kOther;
  OpKind kind = OpKind::kOpaque;
  std::string name;  // op of a call or op node, hint of a variable, which one of kOther
  Attrs attrs;       // of a call or a function, all of them; of an op node, its TOpPattern if any
  std::vector<TensorType> types;  // flattened: one for a tensor, several for a tuple
  bool is_tuple_typed = false;
  int projection = -1;             // of a kProjection
  std::vector<NodeIndex> inputs;   // callee first, then arguments, duplicates kept
  std::vector<NodeIndex> outputs;  // each reader once, ascending; filled by Finish()
  NodeIndex scope = -1;            // the function, branch, clause or let body it belongs to
  NodeIndex dominator =
      -1;  // immediate post-dominator, by FlowInputs; -1 for none; filled by Finish()
  bool is_external = false;  // the function's result
  // A call that launches no kernel of its own: of a function that is planned by itself, of a
  // constructor, or a device's annotation.
  bool is_free_call = false;
  std::string device;  // that the program wants the value on; empty when it says nothing

  bool IsOpCall() const { return type == NodeType::kCall; }
  bool IsOpCall(const std::string& op) const { return IsOpCall() && name == op; }
  // Does running the node launch a kernel? Everything else costs nothing on the host.
  bool IsKernel() const {
    return (type == NodeType::kCall || type == NodeType::kCallOther) && !is_free_call;
  }
  // Can a candidate hold the node? Leaves are reached from inside without being placed.
  bool IsPlaceable() const;
  // May a backend that runs on that device have the node?
  bool IsAllowedOn(const std::string& other) const { return device.empty() || device == other; }
  int64_t NumBytes() const;
  // "float32[1, ?]", several for a tuple, nothing for what is no tensor.
  std::string TypesText() const;
  const AttrValue* FindAttr(const std::string& key) const;
};

class COLLAGE_API DataflowGraph {
 public:
  NodeIndex Append(Node node);
  // Fills outputs and dominators. `result`: the function's body.
  void Finish(NodeIndex result);

  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& operator[](NodeIndex index) const { return nodes_[index]; }
  NodeIndex result() const { return result_; }
  // Calls of that op, ascending.
  const std::vector<NodeIndex>& CallsOf(const std::string& op) const;
  // Nodes whose immediate post-dominator is `index`, ascending.
  const std::vector<NodeIndex>& DominatedBy(NodeIndex index) const;
  // The nodes that a cover must place.
  const IndexSet& placeable() const { return placeable_; }
  // Inputs whose values flow straight into the node. A function's parameters, a let's value and
  // variable do so only through those that read them.
  std::vector<NodeIndex> FlowInputs(NodeIndex index) const;
  // The node itself, or for a variable that a let binds the value.
  NodeIndex ValueOf(NodeIndex index) const;
  // Nodes that `index` reads, the callee left out.
  std::vector<NodeIndex> Args(NodeIndex index) const;
  std::string Summary() const;
  std::string Summary(NodeIndex index) const;

 private:
  void FindDominators();

  std::vector<Node> nodes_;
  std::vector<std::vector<NodeIndex>> dominated_;
  std::unordered_map<std::string, std::vector<NodeIndex>> calls_of_;
  IndexSet placeable_{0};
  NodeIndex result_ = -1;
};

}  // namespace tvm::collage
