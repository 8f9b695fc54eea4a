// SPDX-License-Identifier: Apache-2.0
#include "plan_function.h"

#include <algorithm>
#include <string>

#include "candidates.h"
#include "function_search.h"

namespace tvm::collage {
namespace {

/*! \brief Each value between two of these parts, or at the function's border, that is charged. */
std::vector<ChargedTransition> TransitionsOf(const FunctionSearch& found,
                                             const std::vector<int>& ids) {
  const DataflowGraph& graph = found.imported.graph;
  std::vector<int> class_of(graph.size(), LayoutTransitions::kPlain);
  for (int id : ids) {
    const CandidatePartition& part = found.candidates[id];
    part.sub_graph.inside().ForEach(
        [&](int index) { class_of[index] = found.transitions.ClassOf(part); });
  }
  std::vector<ChargedTransition> charged;
  auto charge = [&](NodeIndex value, int to) {
    const double seconds = found.transitions.Between(value, class_of[value], to);
    if (seconds > 0) charged.push_back({value, seconds});
  };
  for (int id : ids) {
    const CandidatePartition& part = found.candidates[id];
    for (NodeIndex input : part.sub_graph.inputs()) charge(input, found.transitions.ClassOf(part));
  }
  charge(graph.result(), LayoutTransitions::kPlain);
  return charged;
}

}  // namespace

FunctionPlan PlanFunction(const ImportedFunction& imported, const std::vector<TargetSpec>& specs,
                          const CostEstimator& estimator, double search_seconds,
                          PhaseClock* clock) {
  FunctionPlan plan;
  FunctionSearch found(imported, specs, estimator, &plan.logs, clock);
  const CoverStep step = found.Run(clock, search_seconds);
  const std::vector<CandidatePartition>& candidates = found.candidates;
  const CostTable& costs = found.costs;
  plan.seconds = step.plan.seconds;
  plan.lower_bound_seconds = found.num_given_up == 0 ? step.plan.lower_bound_seconds : 0.0;
  plan.transitions = TransitionsOf(found, step.plan.candidates);
  plan.is_optimal = step.plan.optimal && found.num_given_up == 0;
  plan.cost_counts = costs.counts();
  plan.search_summary = found.search.stats().Summary();
  for (const RuleLog& log : plan.logs) {
    for (std::string& line : log.CutLines()) plan.cuts.push_back(std::move(line));
  }
  if (found.num_given_up > 0) {
    plan.cuts.push_back("search: limit search_seconds cut " + std::to_string(found.num_given_up) +
                        " distinct candidates, which were not measured");
  }
  for (int id : step.plan.candidates) plan.parts.push_back({candidates[id], costs[id]});
  for (size_t id = 0; id < candidates.size(); ++id) {
    if (candidates[id].stays_plain) continue;  // the same candidate again
    const EstimatedCost& cost = costs[static_cast<int>(id)];
    if (!cost.status.empty() && !cost.IsUsable() && !IsHost(candidates[id], specs)) {
      plan.failed.push_back({candidates[id], cost});
    }
    plan.candidates.push_back({candidates[id], cost});
  }
  plan.num_candidates = static_cast<int>(plan.candidates.size());
  return plan;
}

}  // namespace tvm::collage
