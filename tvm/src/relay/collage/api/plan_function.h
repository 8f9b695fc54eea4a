// SPDX-License-Identifier: Apache-2.0
// Phases 2 and 3 (RFC 0062): one function -> its candidates -> the cheapest cover.
// Precondition: the function is typed. Test: tvm/tests/python/collage/test_collage_partition.py.
#ifndef TVM_RELAY_COLLAGE_API_PLAN_FUNCTION_H_
#define TVM_RELAY_COLLAGE_API_PLAN_FUNCTION_H_

#include <string>
#include <vector>

#include "../graph/candidate_partition.h"
#include "../plan/function_plan.h"
#include "../plan/phase_clock.h"
#include "../relay/import_relay.h"
#include "cost_estimator.h"
#include "gather_specs.h"

namespace tvm::collage {

/*!
 * \brief Alternates between the search, which names the costs that it needs, and the estimator.
 * A kernel that no candidate with a cost covers falls to the host target, as a constant of the
 * plan. Times its phases on `clock`.
 */
FunctionPlan PlanFunction(const ImportedFunction& imported, const std::vector<TargetSpec>& specs,
                          const CostEstimator& estimator, double search_seconds, PhaseClock* clock);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_PLAN_FUNCTION_H_
