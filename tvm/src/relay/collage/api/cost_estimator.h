// SPDX-License-Identifier: Apache-2.0
// CostEstimator: how the pass asks for the costs of candidates, many at a time; who answers
// (workers, a mock, a user's function) is Python's business. Test: test_estimators.py.
#ifndef TVM_RELAY_COLLAGE_API_COST_ESTIMATOR_H_
#define TVM_RELAY_COLLAGE_API_COST_ESTIMATOR_H_

#include <functional>
#include <string>
#include <vector>

#include "../plan/backends.h"
#include "../relay/fields.h"
#include "../rules/work_estimate.h"

namespace tvm::collage {

/*! \brief What is asked: a candidate, and the target that runs it. */
struct CostRequest {
  /*! \brief Makes the module whose @main is the candidate; called when the estimator wants it. */
  std::function<ObjectRef()> module;
  ObjectRef target;
  std::string label;      // for people: backend, rule and ops
  std::string signature;  // equal for candidates that must cost the same
  // For estimators that need no module, else 0; see rules/work_estimate.h.
  int num_calls = 0;
  double operations = 0;
  double bytes = 0;
};

/*! \brief A bound that is asked for: what a candidate cannot do without, and its target. */
struct BoundRequest {
  LeastWork work;
  ObjectRef target;
};

class CostEstimatorNode : public Object {
 public:
  /*! \brief (modules, targets, labels) -> JSON: a list of costs, see EstimatedCost::Of. */
  PackedFunc estimate;
  /*!
   * \brief (JSON: a list of {signature, target: its place in targets, num_calls, operations,
   * bytes}, targets) -> as estimate, for estimators that need no module; null for the others.
   */
  PackedFunc price;
  /*! \brief Told what the pass decided for each function, as JSON; may be null. */
  PackedFunc observe;
  /*!
   * \brief (tensor types, target) -> JSON: a list of the seconds of one layout transform of each;
   * null when costs are not measured, and transitions free.
   */
  PackedFunc transition;
  /*!
   * \brief (JSON: a list of {target: its place in targets, num_calls, operations}, what candidates
   * do at least; targets, the host's target) -> JSON: a list of seconds that no cost is below; null
   * where nothing is known.
   */
  PackedFunc bound;

  std::vector<EstimatedCost> Estimate(const std::vector<CostRequest>& requests) const;
  /*! \brief Seconds for each type. */
  std::vector<double> Transitions(const Array<ObjectRef>& types, const ObjectRef& target) const;
  /*! \brief Needs that bounds can be given. */
  std::vector<double> Bounds(const std::vector<BoundRequest>& requests,
                             const ObjectRef& host) const;

  static constexpr const char* _type_key = "collage.CostEstimator";
  TVM_DECLARE_FINAL_OBJECT_INFO(CostEstimatorNode, Object);

 private:
  String Measure(const std::vector<CostRequest>& requests) const;
  String Price(const std::vector<CostRequest>& requests) const;
};

class CostEstimator : public ObjectRef {
 public:
  CostEstimator(PackedFunc estimate, PackedFunc price, PackedFunc observe, PackedFunc transition,
                PackedFunc bound);
  TVM_DEFINE_OBJECT_REF_METHODS(CostEstimator, ObjectRef, CostEstimatorNode);
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_COST_ESTIMATOR_H_
