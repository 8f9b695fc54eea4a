// SPDX-License-Identifier: Apache-2.0
// EstimatedCost: what is known of a part's cost. Test: tvm/tests/python/collage/test_estimator.py.
#ifndef TVM_RELAY_COLLAGE_PLAN_ESTIMATED_COST_H_
#define TVM_RELAY_COLLAGE_PLAN_ESTIMATED_COST_H_

#include <string>

namespace tvm::collage {

/*! \brief What is answered; `status` is one of the names in costs/cost.py. */
struct EstimatedCost {
  std::string status;
  double seconds = 0;
  std::string message;

  bool IsUsable() const { return status == "measured" || status == "estimated"; }
  /*! \brief As Cost.Summary in costs/cost.py: "estimated 1.23 ms", "timeout: after 60 s". */
  std::string Summary() const;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_PLAN_ESTIMATED_COST_H_
