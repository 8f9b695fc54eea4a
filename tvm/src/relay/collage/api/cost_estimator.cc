// SPDX-License-Identifier: Apache-2.0
#include "cost_estimator.h"

namespace tvm::collage {

TVM_REGISTER_OBJECT_TYPE(CostEstimator::ContainerType);

namespace {

/*! \param functions by the names of EstimatorFunctions; one that is null is left out. */
CostEstimator MakeCostEstimator(Map<String, PackedFunc> functions) {
  const auto named = [&](const char* name) {
    return functions.Get(name).value_or(PackedFunc(nullptr));
  };
  return CostEstimator(
      {named("estimate"), named("price"), named("observe"), named("transition"), named("bound")});
}

TVM_REGISTER_GLOBAL("collage.MakeCostEstimator").set_body_typed(MakeCostEstimator);

}  // namespace
}  // namespace tvm::collage
