// SPDX-License-Identifier: Apache-2.0
// CostEstimator: how the pass asks for the costs of candidates, many at a time; who answers
// (workers, a mock, a user's function) is Python's business. Test: estimators/test_estimator.py.
#pragma once

#include "shared.h"

namespace tvm::collage {

// Functions of Python's; all but the first give JSON, in the order of the questions.
struct EstimatorFunctions {
  // (the module, typed, that the next candidates are parts of) -> how many bytes it takes its
  // network to touch; null for those that ask for no network.
  PackedFunc network;
  // (modules, targets, labels for people) -> a list of costs, see EstimatedCost::Of.
  PackedFunc estimate;
  // (JSON: CostQuestions of estimators/estimator.py, their targets) -> as estimate, for estimators
  // that need no module; null for the others.
  PackedFunc price;
  // Told what the pass decided for each function, as JSON (see Observe).
  PackedFunc observe;
  // (tensor types, target) -> a list of the seconds of one layout transform of each; null when
  // costs are not measured, and transitions free.
  PackedFunc transition;
  // (JSON: CostQuestions on what candidates do at least, their targets, the host's target) -> a
  // list of seconds that no cost is below; null where nothing is known.
  PackedFunc bound;
  // (JSON: CostQuestions, their targets) -> a Foresight of estimators/estimator.py; null where no
  // run was profiled.
  PackedFunc foresee;

  static constexpr const char* kTypeKey = "collage.CostEstimator";
};
using CostEstimator = Shared<EstimatorFunctions>;

}  // namespace tvm::collage
