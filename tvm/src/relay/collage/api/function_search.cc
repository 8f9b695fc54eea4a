// SPDX-License-Identifier: Apache-2.0
#include "function_search.h"

#include <chrono>

#include "../relay/fields.h"

namespace tvm::collage {
namespace {

/*! \brief `value`, made while the clock is in that phase. */
template <typename Make>
auto InPhase(const char* phase, PhaseClock* clock, Make make) {
  clock->Enter(phase);
  return make();
}

/*! \brief A clock that stands still while this thread waits for CPUs that others measure on. */
double OwnSeconds() {
  const double waited = CallGlobal("tvm.relay.collage.seconds_waited");
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return now.count() - waited;
}

}  // namespace

FunctionSearch::FunctionSearch(const ImportedFunction& function,
                               const std::vector<TargetSpec>& specs, const CostEstimator& estimator,
                               std::vector<RuleLog>* logs, PhaseClock* clock)
    : imported(function),
      candidates(
          InPhase("candidates", clock, [&] { return AllCandidates(function, specs, logs); })),
      transitions(
          InPhase("estimate", clock,
                  [&] { return LayoutTransitions(function, specs, estimator, &candidates); })),
      costs(function, specs, candidates, estimator),
      nodes(function.graph),
      search(InPhase("search", clock,
                     [&] { return CoverSearch(nodes.Problem(candidates, transitions)); })) {
  costs.SetHostCosts(&search);
  clock->Leave();
}

CoverStep FunctionSearch::Run(PhaseClock* clock, double most_seconds) {
  bool is_limited = most_seconds > 0;
  const double start = is_limited ? OwnSeconds() : 0.0;
  const auto is_over = [&] { return is_limited && OwnSeconds() - start >= most_seconds; };
  clock->Enter("estimate");
  costs.EstimateAllIfCheap(&search);
  clock->Enter("search");
  CoverStep step = search.Step();
  while (step.kind != CoverStep::Kind::kPlan) {
    if (step.kind == CoverStep::Kind::kNeedCosts && is_over()) {
      num_given_up = costs.GiveUpUnknown(&search);
      is_limited = false;  // what is asked for from here on is needed
    } else if (step.kind == CoverStep::Kind::kNeedCosts) {
      clock->Enter("estimate");
      costs.Estimate(&search, step.needed);
      clock->Enter("search");
    } else if (!costs.FallBackToHost(&search, nodes.NodeOf(step.uncovered_node))) {
      LOG(FATAL) << "InternalError: no cover of node "
                 << imported.graph.Summary(nodes.NodeOf(step.uncovered_node)) << ": "
                 << step.message;
    }
    step = search.Step();
  }
  clock->Leave();
  return step;
}

}  // namespace tvm::collage
