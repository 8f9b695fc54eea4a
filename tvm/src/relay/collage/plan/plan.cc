// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <set>
#include <utility>

namespace tvm::collage {
namespace {

// Each value between two of these parts, or at the function's border, that is charged.
std::vector<ChargedTransition> ChargedIn(const DataflowGraph& graph,
                                         const std::vector<PlannedPart>& parts,
                                         const LayoutTransitions& transitions) {
  std::vector<int> class_of(graph.size(), LayoutTransitions::kPlain);
  for (const PlannedPart& part : parts) {
    const int layout_class = transitions.ClassOf(part.candidate);
    part.candidate.sub_graph.inside().ForEach([&](int index) { class_of[index] = layout_class; });
  }
  std::vector<ChargedTransition> charged;
  auto charge = [&](NodeIndex value, int to) {
    const double seconds = transitions.Between(value, class_of[value], to);
    if (seconds > 0) charged.push_back({value, seconds});
  };
  for (const PlannedPart& part : parts) {
    std::set<NodeIndex> values;  // a let reads its value and the variable that is bound to it
    for (NodeIndex input : part.candidate.sub_graph.inputs()) values.insert(graph.ValueOf(input));
    for (NodeIndex value : values) charge(value, transitions.ClassOf(part.candidate));
  }
  charge(graph.result(), LayoutTransitions::kPlain);
  return charged;
}

// One line a limit of a rule or of the search that cut candidates.
std::vector<std::string> CutsOf(const std::vector<RuleLog>& logs, int num_given_up) {
  std::vector<std::string> cuts;
  for (const RuleLog& log : logs) {
    for (std::string& line : log.CutLines()) cuts.push_back(std::move(line));
  }
  if (num_given_up > 0) {
    cuts.push_back("search: limit of its time cut " + std::to_string(num_given_up) +
                   " distinct candidates, which were not measured");
  }
  return cuts;
}

// All that was chosen from, and of these what failed.
void KeepCandidates(const Backends& backends, std::vector<CandidatePartition> candidates,
                    const CostTable& costs, FunctionPlan* plan) {
  for (size_t id = 0; id < candidates.size(); ++id) {
    CandidatePartition& candidate = candidates[id];
    const EstimatedCost& cost = costs[static_cast<int>(id)];
    if (!candidate.stays_plain) {  // else it is the same candidate again
      ++plan->num_candidates;
      const bool was_asked = !cost.status.empty() && !backends.IsHost(candidate);
      if (was_asked && !cost.IsUsable()) plan->failed.push_back({candidate, cost});
    }
    plan->candidates.push_back({std::move(candidate), cost});
  }
}

// A gain that comparing whole plans cannot tell from none: a plan that may win no more is no reason
// to measure.
constexpr double kLeastGain = 0.02;

// Can no cover take so much less than a backend alone that it is worth measuring? Of none (0 s)
// that is not known.
bool CannotWin(double seconds, double rival_seconds) {
  return rival_seconds > 0 && seconds > (1 - kLeastGain) * rival_seconds;
}

CoverSearch SearchFor(const DataflowGraph& graph, const std::vector<CandidatePartition>& candidates,
                      const CostTable& costs, const LayoutTransitions& transitions) {
  CoverProblem problem = MakeProblem(graph, candidates, transitions);
  costs.SetLowerBounds(&problem);
  return CoverSearch(std::move(problem));
}

// No cover costs less, by what is known while nothing is given up; `plan` is the search's.
double LeastOfAnyCover(const CoverSearch& search, const CostTable& costs, const CoverPlan& plan) {
  const bool are_proven = search.problem().are_bounds_proven;
  return are_proven ? plan.lower_bound_seconds : costs.LeastOfAnyCover(search.problem());
}

// Is it known, before any cost is asked for, that no cover of `search` can win?
bool IsHopeless(CoverSearch search, CostTable* costs) {
  costs->SetHostCosts(&search);
  return CannotWin(search.Step().plan.lower_bound_seconds, costs->rival_seconds());
}

}  // namespace

double OwnSeconds(const Backends& backends) {
  const double waited = backends.SecondsWaited();
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return now.count() - waited;
}

FoundCover FindCover(CoverSearch* search, CostTable* costs, const std::function<bool()>& is_over,
                     PhaseClock* clock) {
  bool has_given_up = false, is_beaten = false;
  double least_seconds = 0;
  clock->Enter("estimate");
  costs->SetHostCosts(search);  // the host's candidates, one for each node, are a cover
  costs->EstimateAllIfCheap(search);
  clock->Enter("search");
  CoverStep step = search->Step();
  while (step.kind == CoverStep::Kind::kNeedCosts) {
    clock->Enter("estimate");
    is_beaten = CannotWin(step.plan.lower_bound_seconds, costs->rival_seconds());
    if (is_beaten || costs->is_final()) break;
    if (!has_given_up && is_over()) {
      least_seconds = LeastOfAnyCover(*search, *costs, step.plan);
      costs->GiveUpUnknown(search);
      has_given_up = true;  // what is asked for from here on is needed
    } else if (has_given_up && costs->are_foreseen()) {
      // Whole plans tell whether this one is faster, if it is worth building it.
      const double seconds = costs->SecondsAsForeseen(search->problem(), step.plan.candidates);
      is_beaten = CannotWin(seconds, costs->rival_seconds());
      break;
    } else {
      costs->Estimate(search, costs->FirstToAsk(step.needed));
      costs->RaiseLikely(search);
    }
    clock->Enter("search");
    step = search->Step();
  }
  costs->LeaveAsForeseen(search->problem(), step.plan.candidates);
  costs->LeaveToHost(step.plan.candidates);
  clock->Leave();
  if (!has_given_up) least_seconds = LeastOfAnyCover(*search, *costs, step.plan);
  return {std::move(step.plan), is_beaten, least_seconds};
}

FunctionPlan Plan(const DataflowGraph& graph, const Backends& backends,
                  const std::function<bool()>& is_over, PhaseClock* clock) {
  FunctionPlan plan;
  clock->Enter("candidates");
  std::vector<CandidatePartition> candidates = AllCandidates(graph, backends, &plan.logs);
  clock->Enter("estimate");
  const auto layouts = std::make_shared<LayoutTransitions>(graph, backends, &candidates);
  plan.layouts = layouts;
  const LayoutTransitions& transitions = *layouts;
  CostTable costs(graph, backends, candidates);
  costs.AskForBounds();
  // Changes of layout only add to a plan: what cannot win without them is not worth measuring them.
  const auto is_hopeless = [&] {
    return costs.rival_seconds() > 0 &&
           IsHopeless(SearchFor(graph, candidates, costs, transitions), &costs);
  };
  bool is_decided = costs.is_final() || is_hopeless();
  if (!is_decided && costs.is_rough()) {
    costs.AskSharply();
    is_decided = is_hopeless();
  }
  const double asking_ends = OwnSeconds(backends) + costs.asking_seconds();
  const auto may_ask_no_more = [&] {
    return is_over() || (costs.asking_seconds() > 0 && OwnSeconds(backends) >= asking_ends);
  };
  if (!is_decided) layouts->Ask(backends);
  clock->Enter("search");
  CoverSearch search = SearchFor(graph, candidates, costs, transitions);
  const FoundCover found = FindCover(&search, &costs, may_ask_no_more, clock);
  const CoverPlan& cover = found.plan;

  for (int id : cover.candidates) plan.parts.push_back({candidates[id], costs[id]});
  plan.transitions = ChargedIn(graph, plan.parts, transitions);
  plan.cost_counts = costs.counts();
  const bool is_whole = plan.cost_counts.given_up == 0;
  plan.seconds = cover.seconds;
  plan.lower_bound_seconds = found.least_seconds;
  plan.is_beaten = found.is_beaten;
  const bool is_proven = search.problem().are_bounds_proven;
  plan.is_optimal = cover.optimal && is_whole && !plan.is_beaten && is_proven;
  plan.rival_seconds = costs.rival_seconds();
  plan.num_below_bound = costs.NumBelowBound();
  plan.search = search.stats();
  plan.furthest_below_bound = costs.FurthestBelowBound();
  plan.cuts = CutsOf(plan.logs, plan.cost_counts.given_up);
  KeepCandidates(backends, std::move(candidates), costs, &plan);
  return plan;
}

std::vector<PlacedPart> Placed(const DataflowGraph& graph, const FunctionPlan& plan,
                               const std::vector<PartitionSpec>& specs, MergeScope scope) {
  std::vector<CandidatePartition> candidates;
  std::vector<const PlannedPart*> by_first(graph.size(), nullptr);  // node: parts are disjoint
  for (const PlannedPart& part : plan.parts) {
    candidates.push_back(part.candidate);
    by_first[part.candidate.sub_graph.inside().First()] = &part;
  }
  std::vector<PlacedPart> parts;
  for (const CandidatePartition& candidate : MergeParts(graph, candidates, scope)) {
    const std::string& backend = specs[candidate.spec].name;
    const PlannedPart* planned = by_first[candidate.sub_graph.inside().First()];
    const bool is_joined = !(planned->candidate.sub_graph == candidate.sub_graph);
    parts.push_back(
        {candidate.sub_graph, backend, candidate.rule, LabelOf(graph, candidate, backend),
         candidate.is_primitive,
         is_joined ? EstimatedCost{"unknown", 0, "joined from neighbouring parts after the search"}
                   : planned->cost});
  }
  return parts;
}

}  // namespace tvm::collage
