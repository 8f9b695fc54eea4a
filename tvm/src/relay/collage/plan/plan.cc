// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <chrono>
#include <set>

namespace tvm::collage {
namespace {

/*! \brief What `make` gives, made while the clock is in that phase. */
template <typename Make>
auto InPhase(const char* phase, PhaseClock* clock, Make make) {
  clock->Enter(phase);
  return make();
}

/*! \brief A clock that stands still while this thread waits for CPUs that others measure on. */
double OwnSeconds(const Backends& backends) {
  const double waited = backends.SecondsWaited();
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return now.count() - waited;
}

/*! \brief Each value between two of these parts, or at the function's border, that is charged. */
std::vector<ChargedTransition> ChargedIn(const Planning& planning, const std::vector<int>& ids) {
  std::vector<int> class_of(planning.graph.size(), LayoutTransitions::kPlain);
  for (int id : ids) {
    const CandidatePartition& part = planning.candidates[id];
    part.sub_graph.inside().ForEach(
        [&](int index) { class_of[index] = planning.transitions.ClassOf(part); });
  }
  std::vector<ChargedTransition> charged;
  auto charge = [&](NodeIndex value, int to) {
    const double seconds = planning.transitions.Between(value, class_of[value], to);
    if (seconds > 0) charged.push_back({value, seconds});
  };
  for (int id : ids) {
    const CandidatePartition& part = planning.candidates[id];
    std::set<NodeIndex> values;  // a let reads its value and the variable that is bound to it
    for (NodeIndex input : part.sub_graph.inputs()) values.insert(planning.graph.ValueOf(input));
    for (NodeIndex value : values) charge(value, planning.transitions.ClassOf(part));
  }
  charge(planning.graph.result(), LayoutTransitions::kPlain);
  return charged;
}

/*! \brief One line a limit of a rule or of the search that cut candidates. */
std::vector<std::string> CutsOf(const std::vector<RuleLog>& logs, int num_given_up) {
  std::vector<std::string> cuts;
  for (const RuleLog& log : logs) {
    for (std::string& line : log.CutLines()) cuts.push_back(std::move(line));
  }
  if (num_given_up > 0) {
    cuts.push_back("search: limit search_seconds cut " + std::to_string(num_given_up) +
                   " distinct candidates, which were not measured");
  }
  return cuts;
}

/*! \brief What was chosen, what it was chosen from, and what failed. */
void TakeCandidates(const Planning& planning, const std::vector<int>& chosen, FunctionPlan* plan) {
  const std::vector<CandidatePartition>& candidates = planning.candidates;
  for (int id : chosen) plan->parts.push_back({candidates[id], planning.costs[id]});
  for (size_t id = 0; id < candidates.size(); ++id) {
    if (candidates[id].stays_plain) continue;  // the same candidate again
    const EstimatedCost& cost = planning.costs[static_cast<int>(id)];
    const bool was_asked = !cost.status.empty() && !planning.backends.IsHost(candidates[id]);
    if (was_asked && !cost.IsUsable()) plan->failed.push_back({candidates[id], cost});
    plan->candidates.push_back({candidates[id], cost});
  }
  plan->num_candidates = static_cast<int>(plan->candidates.size());
}

/*! \brief Costs of planned parts, found by their first nodes: parts are disjoint. */
class PlannedCosts {
 public:
  PlannedCosts(const FunctionPlan& plan, int num_nodes) : by_first_(num_nodes, nullptr) {
    for (const PlannedPart& part : plan.parts) by_first_[FirstOf(part.candidate)] = &part;
  }
  /*! \brief One that was joined from several has none. */
  EstimatedCost Of(const CandidatePartition& candidate) const {
    const PlannedPart* part = by_first_[FirstOf(candidate)];
    if (part && part->candidate.sub_graph == candidate.sub_graph) return part->cost;
    return {"unknown", 0, "joined from neighbouring parts after the search"};
  }

 private:
  static int FirstOf(const CandidatePartition& candidate) {
    return candidate.sub_graph.inside().First();
  }
  std::vector<const PlannedPart*> by_first_;
};

}  // namespace

Planning::Planning(const DataflowGraph& function, const Backends& asked, std::vector<RuleLog>* logs,
                   PhaseClock* clock)
    : graph(function),
      backends(asked),
      candidates(
          InPhase("candidates", clock, [&] { return AllCandidates(graph, backends, logs); })),
      transitions(InPhase("estimate", clock,
                          [&] { return LayoutTransitions(graph, backends, &candidates); })),
      costs(graph, backends, candidates),
      nodes(graph),
      search(InPhase("search", clock,
                     [&] { return CoverSearch(nodes.Problem(candidates, transitions)); })) {
  costs.SetHostCosts(&search);  // its candidates, one for each node, are a cover
  clock->Leave();
}

CoverStep Planning::Search(PhaseClock* clock, double most_seconds) {
  bool is_limited = most_seconds > 0;
  const double start = is_limited ? OwnSeconds(backends) : 0.0;
  const auto is_over = [&] { return is_limited && OwnSeconds(backends) - start >= most_seconds; };
  clock->Enter("estimate");
  costs.EstimateAllIfCheap(&search);
  clock->Enter("search");
  CoverStep step = search.Step();
  while (step.kind == CoverStep::Kind::kNeedCosts) {
    if (is_over()) {
      num_given_up = costs.GiveUpUnknown(&search);
      is_limited = false;  // what is asked for from here on is needed
    } else {
      clock->Enter("estimate");
      costs.Estimate(&search, step.needed);
      clock->Enter("search");
    }
    step = search.Step();
  }
  costs.LeaveToHost(step.plan.candidates);
  clock->Leave();
  return step;
}

FunctionPlan Plan(const DataflowGraph& graph, const Backends& backends, double most_seconds,
                  PhaseClock* clock) {
  FunctionPlan plan;
  Planning planning(graph, backends, &plan.logs, clock);
  const CoverStep found = planning.Search(clock, most_seconds);
  const bool is_whole = planning.num_given_up == 0;
  plan.seconds = found.plan.seconds;
  plan.lower_bound_seconds = is_whole ? found.plan.lower_bound_seconds : 0.0;
  plan.is_optimal = found.plan.optimal && is_whole;
  plan.transitions = ChargedIn(planning, found.plan.candidates);
  plan.cost_counts = planning.costs.counts();
  plan.search_summary = planning.search.stats().Summary();
  plan.cuts = CutsOf(plan.logs, planning.num_given_up);
  TakeCandidates(planning, found.plan.candidates, &plan);
  return plan;
}

std::vector<PlacedPart> Placed(const DataflowGraph& graph, const FunctionPlan& plan,
                               const std::vector<PartitionSpec>& specs, MergeScope scope) {
  std::vector<CandidatePartition> candidates;
  for (const PlannedPart& part : plan.parts) candidates.push_back(part.candidate);
  const PlannedCosts costs(plan, graph.size());
  std::vector<PlacedPart> parts;
  for (const CandidatePartition& candidate : MergeParts(graph, candidates, scope)) {
    const std::string& backend = specs[candidate.spec].name;
    parts.push_back({candidate.sub_graph, backend, candidate.rule,
                     LabelOf(graph, candidate, backend), candidate.is_primitive,
                     costs.Of(candidate)});
  }
  return parts;
}

}  // namespace tvm::collage
