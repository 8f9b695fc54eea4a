// SPDX-License-Identifier: Apache-2.0
// SubGraph: a set of placeable nodes of one DataflowGraph, with what crosses its border (RFC 0062).
// Precondition: every member is placeable; constants, variables and op nodes are never members.
// Test: tvm/tests/cpp/sub_graph_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dataflow_graph.h"

namespace tvm::collage {

class JsonValue;

// Limits that a backend sets on its partitions; the defaults allow everything.
struct SubGraphConfig {
  int max_depth = 0;  // calls on the longest inside path; 0 means no limit
  int max_exits = 0;  // 0 means no limit
  bool allow_taps = true;

  // Of JSON fields of these names.
  static SubGraphConfig Of(const JsonValue& fields);
  // "depth <= 4, exits <= 1, no taps"; "no limit" for the defaults.
  std::string Summary() const;
};

// A part of a sub-graph that becomes one function with a `Composite` attribute.
struct NestedSubGraph {
  std::string composite;
  IndexSet inside;
  // What the function gets beside its label.
  Attrs attrs = {};
  bool operator==(const NestedSubGraph& that) const {
    return composite == that.composite && inside == that.inside && attrs == that.attrs;
  }
};

class COLLAGE_API SubGraph {
 public:
  // `nested` may come in any order; what they must be, IsValid says.
  // Throws std::invalid_argument when a set is of another graph or holds what cannot be placed.
  static SubGraph Make(const DataflowGraph& graph, IndexSet inside,
                       std::vector<NestedSubGraph> nested = {});
  // Disjoint union, nested parts of both kept.
  SubGraph Union(const DataflowGraph& graph, const SubGraph& that) const;
  // The same nodes as one composite; labels that lie inside are replaced.
  SubGraph WithComposite(const std::string& composite, Attrs attrs = {}) const;

  const IndexSet& inside() const { return inside_; }
  const std::vector<NestedSubGraph>& nested() const { return nested_; }
  // Node lists are ascending and without duplicates.
  // Inside nodes that read an input.
  const std::vector<NodeIndex>& entries() const { return entries_; }
  // Inside nodes that are read outside or are the function's result.
  const std::vector<NodeIndex>& exits() const { return exits_; }
  // Outside nodes that are read: variables and placeable nodes, no constant, no callee.
  const std::vector<NodeIndex>& inputs() const { return inputs_; }
  // Outside nodes that read an exit.
  const std::vector<NodeIndex>& outputs() const { return outputs_; }
  // Constants that are read; they are bound into the exported function.
  const std::vector<NodeIndex>& constants() const { return constants_; }

  // The strongest kind inside; tuples of tensors and their projections are injective.
  OpKind kind() const { return kind_; }
  // Calls on the longest inside path.
  int depth() const { return depth_; }
  int size() const { return size_; }

  // Does an exit also feed an inside node?
  bool HasTaps(const DataflowGraph& graph) const;
  bool IsInOneScope(const DataflowGraph& graph) const;
  // Is it within `config`, in one scope and convex, and are its composites disjoint, convex and
  // without a cycle among them? On false, `why` (may be null) names the first that is broken.
  bool IsValid(const DataflowGraph& graph, const SubGraphConfig& config,
               std::string* why = nullptr) const;

  // Identity is the inside set with its nested parts.
  bool operator==(const SubGraph& that) const {
    return inside_ == that.inside_ && nested_ == that.nested_;
  }
  size_t Hash() const;
  std::string Summary(const DataflowGraph& graph) const;

 private:
  IndexSet inside_;
  std::vector<NestedSubGraph> nested_;  // sorted by first member
  std::vector<NodeIndex> entries_, exits_, inputs_, outputs_, constants_;
  OpKind kind_ = OpKind::kElemWise;
  int depth_ = 0;
  int size_ = 0;
};

// Is it free of control flow, functions and calls of function values? Only then can it become a
// function of its own.
COLLAGE_API bool IsDataflow(const DataflowGraph& graph, const IndexSet& inside);
// The reason to refuse where IsDataflow is false.
constexpr char kNotDataflow[] =
    "unsupported: a part for a backend cannot hold control flow, functions or calls of function "
    "values";

// Does no path leave `inside` and come back? Costs the nodes between its ends at most.
COLLAGE_API bool IsConvex(const DataflowGraph& graph, const IndexSet& inside);

// IsConvex of the union of two disjoint convex sets, from the border of `part` alone: cheap where
// `part` is small, however large `whole` is.
COLLAGE_API bool IsConvexUnion(const DataflowGraph& graph, const IndexSet& whole,
                               const IndexSet& part);

// Positions of disjoint sets of which each reads the next one and the last reads the first; empty
// when there are none, so that they can run one after the other, each whole. A variable that is
// let-bound stands for its value. Precondition: together the sets hold every placeable node, or
// those of a convex set. Test: tvm/tests/cpp/quotient_test.cc.
std::vector<int> FindCycle(const DataflowGraph& graph, const std::vector<IndexSet>& sets);

// What fusion rules see: a tuple of tensors or its projection counts as injective.
COLLAGE_API OpKind FusionKind(const Node& node);

}  // namespace tvm::collage
