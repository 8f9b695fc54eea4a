// SPDX-License-Identifier: Apache-2.0
// CandidatePartition: a sub-graph that one backend could run, and the rule that found it.
// Test: tvm/tests/cpp/rules_basic_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sub_graph.h"

namespace tvm::collage {

// Rule name of what was joined from several candidates after the search.
constexpr char kMergedRule[] = "merged";

struct COLLAGE_API CandidatePartition {
  SubGraph sub_graph;
  int spec = 0;      // position of the PartitionSpec in the pass's list
  std::string rule;  // path of rule names, outermost first
  // Is it to be wrapped into a function with `Primitive` and `Compiler`?
  bool is_primitive = false;
  // Does nothing inside launch a kernel, so that the host runs it for nothing?
  bool is_free = false;
  // Once chosen, does it become one function with the chosen ones that it touches?
  bool is_joinable = false;
  // Is it one of TVM's that could run in a blocked layout as well, and here does not?
  // The search has both, to pick by what surrounds it; rules make none of these.
  bool stays_plain = false;
};

// In the order of their first appearance; each (sub-graph, spec, wrapped or not) once.
class COLLAGE_API CandidateSet {
 public:
  // False when an equal candidate is already there: the first one's rule name stays, and it is free
  // or joinable when either is.
  bool Add(CandidatePartition candidate);
  size_t size() const { return candidates_.size(); }
  const std::vector<CandidatePartition>& candidates() const { return candidates_; }
  std::vector<CandidatePartition> Take() { return std::move(candidates_); }

 private:
  std::vector<CandidatePartition> candidates_;
  std::unordered_multimap<size_t, size_t> by_hash_;
};

}  // namespace tvm::collage
