// SPDX-License-Identifier: Apache-2.0
#include "replan.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace tvm::collage {
namespace {

// More than any plan takes, so that a wish counts before all costs.
constexpr double kBrokenWishSeconds = 1000.0;
// A kernel of TVM's without a cost, more than a part takes: it is taken where a wish wants it, or
// nothing else fits.
constexpr double kUnknownSeconds = 20.0;
// Enough for the optimum on most graphs, and a fraction of a second on the others.
constexpr int64_t kMaxStates = 500;

}  // namespace

Replan::Replan(const DataflowGraph& graph, const FunctionPlan& plan,
               const std::vector<PartitionSpec>& specs)
    : graph_(graph), transitions_(plan.layouts) {
  const int host = static_cast<int>(specs.size()) - 1;
  int tvm = host;
  for (int k = 0; k < host; ++k) {
    if (!specs[k].is_external) tvm = k;
  }
  for (const PlannedPart& part : plan.candidates) {
    const bool is_host = part.candidate.spec == host;
    const bool is_unknown_kernel = is_host && !part.candidate.is_free;
    if (!part.cost.IsUsable() && !is_host) continue;
    candidates_.push_back(part.candidate);
    costs_.push_back(is_unknown_kernel ? EstimatedCost{"unknown", 0.0, "left to the host target"}
                                       : part.cost);
    runs_on_.push_back(is_unknown_kernel ? tvm : part.candidate.spec);
    is_external_.push_back(specs[part.candidate.spec].is_external);
  }
}

std::vector<std::vector<int>> Replan::Takers() const {
  std::vector<std::set<int>> takers(graph_.size());
  for (size_t id = 0; id < candidates_.size(); ++id) {
    if (candidates_[id].is_free) continue;
    candidates_[id].sub_graph.inside().ForEach(
        [&](int node) { takers[node].insert(runs_on_[id]); });
  }
  std::vector<std::vector<int>> result;
  for (const std::set<int>& specs : takers) result.emplace_back(specs.begin(), specs.end());
  return result;
}

FunctionPlan Replan::Plan(const std::vector<int>& wish, double part_seconds) const {
  CoverProblem problem = MakeProblem(graph_, candidates_, *transitions_);
  for (size_t id = 0; id < candidates_.size(); ++id) {
    const CandidatePartition& candidate = candidates_[id];
    int num_broken = 0;
    if (!candidate.is_free) {
      candidate.sub_graph.inside().ForEach(
          [&](int node) { num_broken += wish[node] != kAnyBackend && wish[node] != runs_on_[id]; });
    }
    const double seconds = (costs_[id].IsUsable() ? costs_[id].seconds : kUnknownSeconds) +
                           (is_external_[id] ? part_seconds : 0.0) +
                           kBrokenWishSeconds * num_broken;
    problem.costs.push_back(CandidateCost::Known(std::min(seconds, kMaxSeconds)));
  }
  CoverSearchOptions options;
  options.max_states_per_position = kMaxStates;
  CoverSearch search(std::move(problem), options);
  const CoverStep step = search.Step();
  if (step.kind != CoverStep::Kind::kPlan) throw std::logic_error("replan: " + step.message);
  FunctionPlan plan;
  plan.seconds = step.plan.seconds;
  for (int id : step.plan.candidates) {
    plan.parts.push_back({candidates_[id], costs_[id]});
    if (is_external_[id]) plan.seconds -= part_seconds;
    if (!costs_[id].IsUsable()) plan.seconds -= kUnknownSeconds;
  }
  return plan;
}

}  // namespace tvm::collage
