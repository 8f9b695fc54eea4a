// SPDX-License-Identifier: Apache-2.0
// Marks: what a candidate is marked as, and what a candidate made of several is marked as: the one
// place that says how they combine. Test: tvm/tests/cpp/rules_marks_test.cc.
#pragma once

#include "../graph/candidate_partition.h"

namespace tvm::collage {

struct Marks {
  bool is_primitive = false;
  bool is_joinable = false;
  bool is_free = false;
  // Tuples and projections alone, in no composite: they go along with what they hold.
  bool is_glue = true;

  static Marks Of(const DataflowGraph& graph, const CandidatePartition& candidate) {
    bool is_glue = candidate.sub_graph.nested().empty();
    candidate.sub_graph.inside().ForEach([&](NodeIndex i) {
      is_glue &= graph[i].type == NodeType::kTuple || graph[i].type == NodeType::kProjection;
    });
    return {candidate.is_primitive, candidate.is_joinable, candidate.is_free, is_glue};
  }

  // Of both parts as one. What must be wrapped is wrapped with all that joins it; what may be
  // joined, or costs nothing, may or does only as a whole. Glue has no say in the latter.
  Marks With(const Marks& that) const {
    const auto both = [&](bool ours, bool theirs) {
      if (is_glue && that.is_glue) return ours || theirs;
      return (is_glue || ours) && (that.is_glue || theirs);
    };
    return {is_primitive || that.is_primitive, both(is_joinable, that.is_joinable),
            both(is_free, that.is_free), is_glue && that.is_glue};
  }

  // The same nodes, found in another way too.
  void AlsoFoundAs(const Marks& that) {
    is_joinable |= that.is_joinable;
    is_free |= that.is_free;
  }

  void SetOn(CandidatePartition* candidate) const {
    candidate->is_primitive = is_primitive;
    candidate->is_joinable = is_joinable;
    candidate->is_free = is_free;
  }
};

}  // namespace tvm::collage
