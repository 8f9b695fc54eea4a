// SPDX-License-Identifier: Apache-2.0
// Signatures: which candidates are the same computation, so that one measurement does for all.
// Precondition: all candidates are of this graph. Test: tvm/tests/cpp/signature_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "candidate_partition.h"

namespace tvm::collage {

// Ops, attributes, types, wiring, composites, values read from outside and given to it, and the
// spec, one word an item; names of variables and values of weights are left out. Equal in any graph
// for equal candidates. What is not known to be equal differs: a node that is more than a call of
// an op, tuple or projection is like no other.
using Signature = std::vector<uint64_t>;

struct SignatureHash {
  size_t operator()(const Signature& signature) const;
};

class Signatures {
 public:
  // What of a constant's value belongs to a candidate's identity; "" for a weight.
  using ConstantText = std::function<std::string(NodeIndex)>;

  Signatures(const DataflowGraph& graph, const ConstantText& text_of);

  Signature Of(const CandidatePartition& candidate) const;

 private:
  const DataflowGraph& graph_;
  std::vector<uint64_t> labels_;       // by node
  mutable std::vector<int> position_;  // by node, in the candidate at hand; -1 elsewhere
};

}  // namespace tvm::collage
