// SPDX-License-Identifier: Apache-2.0
// Observe: tells the estimator's `observe` what the pass decided for a function, for reports, and
// gives it a way to other plans of the function. Test: test_collage_partition.py,
// plans/graph_search/test_genomes.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../relay/placement.h"
#include "cost_estimator.h"

namespace tvm::collage {

// `observe` gets the report and a function that plans again (Replan): JSON {"wish": nodes by
// backend, "join": whether all neighbours are joined, "part_seconds": what each part of an external
// backend is charged} -> JSON {"parts": PartsJson, "seconds": their costs and transitions}; and {}
// -> {"takers": backends by node that may be wished for}.
//
// Does nothing when the estimator does not ask to be told. `function` has the plan's parts
// as they are deployed, `merged` with all neighbours of one backend joined, `found` as they were
// found.
void Observe(const CostEstimator& estimator, const PlacedFunction& function,
             const std::vector<PlacedPart>& merged, const std::vector<PartitionSpec>& specs,
             const std::shared_ptr<const FunctionPlan>& found);

// The same for functions that the pass leaves as they are, by name: nothing but why.
void ObserveSkipped(const CostEstimator& estimator, const ObjectRef& mod);

}  // namespace tvm::collage
