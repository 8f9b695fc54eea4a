// SPDX-License-Identifier: Apache-2.0
#include "plan_function.h"

#include <algorithm>
#include <map>
#include <set>

#include "../search/cover_search.h"
#include "candidate_module.h"
#include "layout_transitions.h"
#include "rule_objects.h"

namespace tvm::collage {
namespace {

/*! \brief The nodes to place, numbered densely in their order, and what feeds what. */
class Placement {
 public:
  explicit Placement(const DataflowGraph& graph) : graph_(graph), number_(graph.size(), -1) {
    graph.placeable().ForEach([this](int index) {
      number_[index] = static_cast<int>(nodes_.size());
      nodes_.push_back(index);
    });
  }

  /*! \brief The placement and `transitions` must outlive the problem's search. */
  CoverProblem Problem(const std::vector<CandidatePartition>& candidates,
                       const LayoutTransitions& transitions) const {
    CoverProblem problem;
    problem.num_nodes = static_cast<int>(nodes_.size());
    for (NodeIndex index : nodes_) {
      problem.inputs.push_back(InputsOf(index));
      problem.outside_inputs.push_back(VariablesOf(index));
    }
    if (number_[graph_.result()] >= 0) problem.outputs.push_back(number_[graph_.result()]);
    for (const CandidatePartition& candidate : candidates) {
      CoverCandidate cover;
      cover.backend = transitions.ClassOf(candidate);
      candidate.sub_graph.inside().ForEach(
          [&](int index) { cover.inside.push_back(number_[index]); });
      problem.candidates.push_back(std::move(cover));
    }
    // Whoever calls the function passes and takes plain layouts.
    constexpr int kOutside = LayoutTransitions::kPlain;
    problem.transitions.between = [this, &transitions](int number, int from, int to) {
      return transitions.Between(nodes_[number], from, to);
    };
    problem.transitions.from_outside = [&transitions](int variable, int to) {
      return transitions.Between(variable, kOutside, to);
    };
    problem.transitions.to_outside = [this, &transitions](int number, int from) {
      return transitions.Between(nodes_[number], from, kOutside);
    };
    return problem;
  }

  NodeIndex NodeOf(int number) const { return nodes_[number]; }

 private:
  /*! \brief Placed nodes whose value the node sees, through variables that are let-bound. */
  std::vector<int> InputsOf(NodeIndex index) const {
    std::set<int> found;
    std::vector<NodeIndex> open(graph_[index].inputs);
    while (!open.empty()) {
      NodeIndex input = open.back();
      open.pop_back();
      if (number_[input] >= 0) {
        found.insert(number_[input]);
      } else {
        open.insert(open.end(), graph_[input].inputs.begin(), graph_[input].inputs.end());
      }
    }
    return {found.begin(), found.end()};
  }

  /*! \brief Parameters that the node reads; a let-bound variable is its value instead. */
  std::vector<int> VariablesOf(NodeIndex index) const {
    std::set<int> found;
    for (NodeIndex input : graph_[index].inputs) {
      if (graph_[input].type == NodeType::kVar && graph_[input].inputs.empty()) found.insert(input);
    }
    return {found.begin(), found.end()};
  }

  const DataflowGraph& graph_;
  std::vector<int> number_;
  std::vector<NodeIndex> nodes_;
};

std::vector<CandidatePartition> AllCandidates(const ImportedFunction& imported,
                                              const std::vector<TargetSpec>& specs, RuleLog* log) {
  ImportScope scope(&imported);
  CandidateSet all;
  for (size_t s = 0; s < specs.size(); ++s) {
    for (CandidatePartition& candidate :
         specs[s].spec.rule->AllCandidates(imported.graph, static_cast<int>(s), log)) {
      all.Add(std::move(candidate));
    }
  }
  return all.Take();
}

bool IsHost(const CandidatePartition& candidate, const std::vector<TargetSpec>& specs) {
  return candidate.spec == static_cast<int>(specs.size()) - 1;
}

/*! \brief Costs by candidate, filled as the search asks. */
class CostTable {
 public:
  CostTable(const ImportedFunction& imported, const std::vector<TargetSpec>& specs,
            const std::vector<CandidatePartition>& candidates, const CostEstimator& estimator)
      : imported_(imported), specs_(specs), candidates_(candidates), estimator_(estimator) {
    costs_.resize(candidates.size());
  }

  /*! \brief What needs no measuring: glue is free, a kernel is not the host's while others can. */
  void SetHostCosts(CoverSearch* search) {
    for (size_t id = 0; id < candidates_.size(); ++id) {
      if (!IsHost(candidates_[id], specs_)) continue;
      const bool is_free = candidates_[id].is_free;
      costs_[id] = is_free ? EstimatedCost{"estimated", 0.0, ""}
                           : EstimatedCost{"unsupported", 0.0, "left to the other backends"};
      search->SetCost(static_cast<int>(id),
                      is_free ? CandidateCost::Known(0.0) : CandidateCost::Failed());
    }
  }

  /*!
   * \brief Lets the host have a node that no cover gets past, for as much as the dearest usable
   * candidate that holds it (a constant of every plan when there is none): never a bargain.
   * \return false when the host has it already.
   */
  bool FallBackToHost(CoverSearch* search, NodeIndex node) {
    int host = -1;
    double seconds = 0.0;
    for (size_t id = 0; id < candidates_.size(); ++id) {
      if (!candidates_[id].sub_graph.inside().Contains(node)) continue;
      if (IsHost(candidates_[id], specs_)) {
        if (!costs_[id].IsUsable()) host = static_cast<int>(id);
      } else if (costs_[id].IsUsable()) {
        seconds = std::max(seconds, costs_[id].seconds);
      }
    }
    if (host < 0) return false;
    costs_[host] = {"estimated", seconds, "no candidate with a cost fits: left to the host target"};
    search->SetCost(host, CandidateCost::Known(seconds));
    return true;
  }

  void Estimate(CoverSearch* search, const std::vector<int>& needed) {
    std::vector<CostRequest> requests;
    for (int id : needed) {
      const CandidatePartition& candidate = candidates_[id];
      const TargetSpec& spec = specs_[candidate.spec];
      requests.push_back({CandidateModule(imported_, candidate, spec.spec.name), spec.target,
                          LabelOf(imported_, candidate, specs_)});
    }
    std::vector<EstimatedCost> answers = estimator_->Estimate(requests);
    for (size_t k = 0; k < needed.size(); ++k) {
      costs_[needed[k]] = answers[k];
      search->SetCost(needed[k], answers[k].IsUsable() ? CandidateCost::Known(answers[k].seconds)
                                                       : CandidateCost::Failed());
    }
  }

  const EstimatedCost& operator[](int id) const { return costs_[id]; }

 private:
  const ImportedFunction& imported_;
  const std::vector<TargetSpec>& specs_;
  const std::vector<CandidatePartition>& candidates_;
  const CostEstimator& estimator_;
  std::vector<EstimatedCost> costs_;
};

}  // namespace

FunctionPlan PlanFunction(const ImportedFunction& imported, const std::vector<TargetSpec>& specs,
                          const CostEstimator& estimator) {
  RuleLog log;
  std::vector<CandidatePartition> candidates = AllCandidates(imported, specs, &log);
  Placement placement(imported.graph);
  LayoutTransitions transitions(imported, specs, candidates, estimator);
  CoverSearch search(placement.Problem(candidates, transitions));
  CostTable costs(imported, specs, candidates, estimator);
  costs.SetHostCosts(&search);
  CoverStep step = search.Step();
  while (step.kind != CoverStep::Kind::kPlan) {
    if (step.kind == CoverStep::Kind::kNeedCosts) {
      costs.Estimate(&search, step.needed);
    } else if (!costs.FallBackToHost(&search, placement.NodeOf(step.uncovered_node))) {
      LOG(FATAL) << "InternalError: no cover of node "
                 << imported.graph.Summary(placement.NodeOf(step.uncovered_node)) << ": "
                 << step.message;
    }
    step = search.Step();
  }
  FunctionPlan plan;
  plan.seconds = step.plan.seconds;
  plan.is_optimal = step.plan.optimal;
  plan.num_candidates = static_cast<int>(candidates.size());
  plan.search_summary = search.stats().Summary();
  plan.cuts = log.CutLines();
  for (int id : step.plan.candidates) plan.parts.push_back({candidates[id], costs[id]});
  for (size_t id = 0; id < candidates.size(); ++id) {
    const EstimatedCost& cost = costs[static_cast<int>(id)];
    if (!cost.status.empty() && !cost.IsUsable() && !IsHost(candidates[id], specs)) {
      plan.failed.push_back({candidates[id], cost});
    }
  }
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
