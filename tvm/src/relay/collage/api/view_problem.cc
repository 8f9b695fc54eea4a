// SPDX-License-Identifier: Apache-2.0
// What the search of one function was asked, with every cost, and its answer: for oracles.
// Precondition: the function is typed. Test: search/test_ilp.py.
#include "../graph/json.h"
#include "../plan/plan.h"
#include "tvm_backends.h"
#include "view_objects.h"

namespace tvm::collage {
namespace {

// What is not free: a value, the layout classes of its maker and reader, seconds.
Json Crossings(int num_values, const std::function<double(int, int, int)>& seconds_of) {
  std::vector<Json> rows;
  for (int value = 0; value < num_values; ++value) {
    for (int from : {LayoutTransitions::kPlain, LayoutTransitions::kBlocked}) {
      for (int to : {LayoutTransitions::kPlain, LayoutTransitions::kBlocked}) {
        const double seconds = seconds_of(value, from, to);
        if (seconds == 0) continue;
        rows.push_back(
            JsonObject({{"value", value}, {"from", from}, {"to", to}, {"seconds", seconds}}));
      }
    }
  }
  return rows;
}

// The problem's fields; `seconds` is -1 for a candidate that cannot be used. Values from outside
// are numbered as in the graph, and plain. `plan`: candidates in the order of execution.
String CoverProblemFields(const ObjectRef& function, const Array<PartitionSpecView>& spec_views,
                          const CostEstimator& estimator) {
  std::vector<TargetSpec> targets;
  for (const PartitionSpecView& view : spec_views) targets.push_back(view->target_spec);
  const ImportedPtr imported = ImportFunction(function);
  std::vector<RuleLog> logs;
  PhaseClock clock;
  const TvmBackends backends(*imported, std::move(targets), estimator);
  std::vector<CandidatePartition> candidates = AllCandidates(imported->graph, backends, &logs);
  LayoutTransitions transitions(imported->graph, backends, &candidates);
  transitions.Ask(backends);
  CostTable costs(imported->graph, backends, candidates);
  CoverProblem asked = MakeProblem(imported->graph, candidates, transitions);
  costs.AskForBounds();
  costs.SetLowerBounds(&asked);
  CoverSearch search(std::move(asked));
  const auto never = [] { return false; };
  const CoverPlan plan = FindCover(&search, &costs, never, &clock).plan;
  const int num_candidates = static_cast<int>(candidates.size());
  std::vector<int> unknown;
  for (int id = 0; id < num_candidates; ++id) {
    if (costs[id].status.empty()) unknown.push_back(id);
  }
  costs.Ask(unknown);

  const CoverProblem& problem = search.problem();
  std::vector<std::vector<int>> insides;
  std::vector<int> classes;
  std::vector<double> seconds;
  std::vector<double> least_seconds;
  for (int id = 0; id < num_candidates; ++id) {
    insides.push_back(problem.candidates[id].inside);
    classes.push_back(problem.candidates[id].layout_class);
    const EstimatedCost& cost = costs[id];
    seconds.push_back(cost.IsUsable() ? cost.seconds : -1.0);
    least_seconds.push_back(costs.LeastSeconds(id));
  }
  return JsonText({
      {"inputs", problem.inputs},
      {"outside_inputs", problem.outside_inputs},
      {"outputs", problem.outputs},
      {"candidates", insides},
      {"classes", classes},
      {"seconds", seconds},
      {"least_seconds", least_seconds},
      {"crossings", Crossings(problem.num_nodes, problem.transitions.between)},
      {"outside_crossings", Crossings(imported->graph.size(),
                                      [&](int value, int from, int to) {
                                        return transitions.Between(value, from, to);
                                      })},
      {"plan", plan.candidates},
      {"plan_seconds", plan.seconds},
      {"bound_seconds", search.stats().bound_seconds},
  });
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.view.CoverProblem").set_body_typed(CoverProblemFields);

}  // namespace tvm::collage
