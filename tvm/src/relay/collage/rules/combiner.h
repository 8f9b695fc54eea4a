// SPDX-License-Identifier: Apache-2.0
// Combiner: may a touching pair of sub-graphs, upstream feeding downstream, be one candidate?
// docs/rules.md lists them. Test: tvm/tests/cpp/rules_combine_test.cc.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../graph/sub_graph.h"

namespace tvm::collage {

// What a combiner sees of one side.
struct CombinePart {
  const IndexSet& inside;
  OpKind kind;
  // The node when the part is a single tuple or projection, else -1.
  NodeIndex glue = -1;
};

class COLLAGE_API Combiner {
 public:
  // Asked where an edge from `upstream` to `downstream` exists.
  using Test = std::function<bool(const DataflowGraph& graph, const CombinePart& upstream,
                                  const CombinePart& downstream)>;
  // `glue`: the type of the nodes that it joins beside the sub-rule's candidates.
  Combiner(std::string summary, Test fires, std::optional<NodeType> glue = std::nullopt)
      : summary_(std::move(summary)), fires_(std::move(fires)), glue_(glue) {}

  bool Fires(const DataflowGraph& graph, const CombinePart& upstream,
             const CombinePart& downstream) const {
    return fires_(graph, upstream, downstream);
  }
  // Tuples and projections that the combiner joins, beside the sub-rule's candidates.
  std::vector<NodeIndex> Glue(const DataflowGraph& graph) const;
  const std::string& Summary() const { return summary_; }

 private:
  std::string summary_;
  Test fires_;
  std::optional<NodeType> glue_;
};

using CombinerPtr = std::shared_ptr<const Combiner>;

// Kinds at most these, as in TVM's FuseOps.
COLLAGE_API CombinerPtr ByKindCombiner(OpKind upstream, OpKind downstream);
// A tuple into the injective call that reads it, injective fields into the tuple.
COLLAGE_API CombinerPtr TupleArgCombiner();
// A projection onto the call that makes the tuple.
COLLAGE_API CombinerPtr TupleProjectionCombiner();
// Anything that touches and is not opaque.
COLLAGE_API CombinerPtr JoinAnythingCombiner();
// RFC 0062's combiner of calls with the constants that they read. It joins nothing here: constants
// are no members of a sub-graph, they belong to whoever reads them.
COLLAGE_API CombinerPtr ConstantsCombiner();

// The three pairs of kinds, tuple arguments and projections: what TVM fuses.
COLLAGE_API std::vector<CombinerPtr> TvmCombiners();

}  // namespace tvm::collage
