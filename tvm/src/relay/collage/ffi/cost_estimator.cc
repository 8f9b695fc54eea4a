// SPDX-License-Identifier: Apache-2.0
#include "cost_estimator.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "user_error.h"

namespace tvm::collage {

TVM_REGISTER_OBJECT_TYPE(CostEstimatorNode);

namespace {

// As measure/cost.py lists them.
constexpr const char* kStatuses[] = {"unknown",        "measured",     "estimated",
                                     "compile_failed", "run_failed",   "timeout",
                                     "crashed",        "wrong_result", "unsupported"};

void Check(const EstimatedCost& cost) {
  if (std::find(std::begin(kStatuses), std::end(kStatuses), cost.status) == std::end(kStatuses)) {
    ThrowUserError("ValueError", "the cost estimator gave the status '" + cost.status +
                                     "', which is none of measure.STATUSES");
  }
  if (cost.IsUsable() && !(std::isfinite(cost.seconds) && cost.seconds >= 0)) {
    ThrowUserError("ValueError", "the cost estimator gave " + std::to_string(cost.seconds) +
                                     " seconds as " + cost.status +
                                     "; a cost is finite and not negative");
  }
}

}  // namespace

CostEstimator::CostEstimator(PackedFunc estimate, PackedFunc observe, PackedFunc transition) {
  auto node = runtime::make_object<CostEstimatorNode>();
  node->estimate = std::move(estimate);
  node->observe = std::move(observe);
  node->transition = std::move(transition);
  data_ = std::move(node);
}

std::vector<EstimatedCost> CostEstimatorNode::Estimate(
    const std::vector<CostRequest>& requests) const {
  Array<ObjectRef> mods;
  Array<ObjectRef> targets;
  Array<String> labels;
  for (const CostRequest& request : requests) {
    mods.push_back(request.mod);
    targets.push_back(request.target);
    labels.push_back(request.label);
  }
  Array<Array<ObjectRef>> answers = estimate(mods, targets, labels);
  if (answers.size() != requests.size()) {
    ThrowUserError("ValueError", "the cost estimator was asked for " +
                                     std::to_string(requests.size()) + " costs and gave " +
                                     std::to_string(answers.size()));
  }
  std::vector<EstimatedCost> costs;
  for (const Array<ObjectRef>& answer : answers) {
    EstimatedCost cost;
    cost.status = runtime::Downcast<String>(answer[0]);
    cost.seconds = runtime::Downcast<runtime::Float>(answer[1])->value;
    cost.message = runtime::Downcast<String>(answer[2]);
    Check(cost);
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::map<std::string, double> CostEstimatorNode::Transitions(
    const std::map<std::string, ObjectRef>& types, const ObjectRef& target) const {
  Array<ObjectRef> asked;
  for (const auto& [key, type] : types) asked.push_back(type);
  Array<runtime::Float> answers = transition(asked, target);
  ICHECK_EQ(answers.size(), types.size()) << "the cost estimator left transitions out";
  std::map<std::string, double> seconds;
  size_t next = 0;
  for (const auto& [key, type] : types) {
    seconds[key] = answers[next++]->value;
    ICHECK(std::isfinite(seconds[key]) && seconds[key] >= 0)
        << "a transition of " << key << " costs " << seconds[key] << " seconds";
  }
  return seconds;
}

TVM_REGISTER_GLOBAL("collage.MakeCostEstimator")
    .set_body_typed([](PackedFunc estimate, PackedFunc observe, PackedFunc transition) {
      return CostEstimator(std::move(estimate), std::move(observe), std::move(transition));
    });

}  // namespace tvm::collage
