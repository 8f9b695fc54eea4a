// SPDX-License-Identifier: Apache-2.0
// Replan: a function's search once more, by the costs that its plan knows and a wish of who runs
// what. Whatever is wished for, the answer is a cover that can run. Test:
// tvm/tests/cpp/plan_test.cc.
#pragma once

#include <memory>
#include <vector>

#include "plan.h"

namespace tvm::collage {

class Replan {
 public:
  // A node of which any backend will do.
  static constexpr int kAnyBackend = -1;

  // `graph` must outlive it. `plan`: the graph's, with its candidates. `specs`: the host's is the
  // last, the one before it that is not external is TVM's.
  Replan(const DataflowGraph& graph, const FunctionPlan& plan,
         const std::vector<PartitionSpec>& specs);

  // Specs by node of which a candidate with a known cost holds it. TVM runs each kernel, also where
  // that cost is not known: then the host has it.
  std::vector<std::vector<int>> Takers() const;

  // The parts of the cover that breaks the wish for the fewest nodes, of these the cheapest.
  // `wish`: a spec or kAnyBackend by node. `part_seconds`: charged for each part of an external
  // backend, beside its cost: the higher, the fewer there are.
  //
  // Its `seconds` hold the known costs and transitions, and a great number for each broken wish. A
  // kernel that no candidate with a known cost takes adds nothing: each plan has it. The search is
  // exact but for its limit on states, which is low: whole plans are measured, so that a
  // second-best sum does no harm.
  FunctionPlan Plan(const std::vector<int>& wish, double part_seconds = 0.0) const;

 private:
  const DataflowGraph& graph_;
  std::shared_ptr<const LayoutTransitions> transitions_;
  std::vector<CandidatePartition> candidates_;
  std::vector<EstimatedCost> costs_;  // by candidate
  std::vector<int> runs_on_;          // by candidate: its spec, TVM's for a kernel of the host's
  std::vector<bool> is_external_;     // by candidate
};

}  // namespace tvm::collage
