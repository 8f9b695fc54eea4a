// SPDX-License-Identifier: Apache-2.0
// What it costs to leave or enter the blocked layouts that AlterOpLayout gives TVM's parts.
// The backends are asked once a tensor type, and not before Ask: until then changes are free.
// Test: estimators/test_transitions.py, tvm/tests/cpp/plan_test.cc.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends.h"

namespace tvm::collage {

// A TVM candidate's cost leaves out the layout transforms at its border, so a value that passes
// between a blocked part and any other is charged one transform of its type.
//
// A TVM part that holds a call of an op that AlterOpLayout rewrites is blocked. One that holds
// followers only, ops that keep the layout that they are given, is as its neighbours are: beside
// the candidate itself, which is blocked, the search gets a copy that stays plain.
//
// Assumption: the search picks the one that is charged less. In truth a follower is as what it
// reads, and reads blocked values only if it has to change one of them: where its result is larger
// than what it reads, a plan may be charged too little.
class LayoutTransitions {
 public:
  // Adds copies that stay plain to the end of `candidates`.
  LayoutTransitions(const DataflowGraph& graph, const Backends& backends,
                    std::vector<CandidatePartition>* candidates);
  // Has the backends tell what the changes of layout take.
  void Ask(const Backends& backends);

  // Layout class for the search: kBlocked or kPlain.
  int ClassOf(const CandidatePartition& candidate) const;
  // Seconds for the node's value between parts of these classes.
  double Between(NodeIndex node, int from, int to) const;

  static constexpr int kPlain = 0;
  static constexpr int kBlocked = 1;

 private:
  std::vector<bool> is_external_;                      // by spec
  std::vector<bool> can_be_blocked_;                   // of a node's value, when TVM makes it
  std::map<std::string, std::set<NodeIndex>> values_;  // that may change their layout, by type
  std::map<NodeIndex, double> seconds_;
};

}  // namespace tvm::collage
