// SPDX-License-Identifier: Apache-2.0
#include "plan_function.h"

#include <algorithm>
#include <string>

#include "device_domains.h"
#include "function_search.h"
#include "user_error.h"
#include "user_functions.h"

namespace tvm::collage {
namespace {

/*! \brief What the backend's rule finds; what it throws is an error that names both. */
std::vector<CandidatePartition> AskRule(const PartitionSpec& backend, const DataflowGraph& graph,
                                        int spec, RuleLog* log) {
  auto raise = [&](const std::string& what) {
    ThrowUserError("RuntimeError", "backend " + backend.name + ": its rule " +
                                       backend.rule->Summary() + " raised " + what);
  };
  try {
    return backend.AllCandidates(graph, spec, log);
  } catch (const dmlc::Error&) {
    throw;  // carries a Python exception, an error of ours too, or is an internal one
  } catch (const std::exception& error) {
    raise(error.what());
  } catch (...) {
    raise("what is no std::exception");
  }
  return {};
}

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

std::vector<CandidatePartition> AllCandidates(const ImportedFunction& imported,
                                              const std::vector<TargetSpec>& specs,
                                              std::vector<RuleLog>* logs) {
  ImportScope scope(&imported, &specs);
  CandidateSet all;
  logs->resize(specs.size());
  for (size_t s = 0; s < specs.size(); ++s) {
    for (CandidatePartition& candidate :
         AskRule(specs[s].spec, imported.graph, static_cast<int>(s), &(*logs)[s])) {
      // Its nodes are in one region, hence of one demand. The host has what nobody else may have.
      const Node& first = imported.graph[candidate.sub_graph.inside().First()];
      if (!IsAllowedOn(specs[s].device, first) && !IsHost(candidate, specs)) continue;
      all.Add(std::move(candidate));
    }
  }
  std::vector<CandidatePartition> candidates = all.Take();
  // The search breaks ties by least number: among equal plans small parts come first, as in TVM's.
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.sub_graph.size() < b.sub_graph.size();
  });
  return candidates;
}

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

std::string LabelOf(const ImportedFunction& imported, const CandidatePartition& candidate,
                    const std::vector<TargetSpec>& specs) {
  constexpr int kMostOps = 8;  // a region's list of ops tells nothing more
  std::string ops;
  int count = 0;
  candidate.sub_graph.inside().ForEach([&](int index) {
    if (!imported.graph[index].IsOpCall()) return;
    if (++count <= kMostOps) ops += (ops.empty() ? "" : ", ") + imported.graph[index].name;
  });
  if (count > kMostOps) ops += ", ... " + std::to_string(count) + " ops";
  return specs[candidate.spec].spec.name + "(" + ops + ")";
}

}  // namespace tvm::collage
