// SPDX-License-Identifier: Apache-2.0
// What is the same: which constants are weights (candidate/weights.py says the same of measured
// candidates), signatures of candidates, and FunctionKey, which tells whether a saved placement's
// node indexes still mean the same nodes. Precondition: the function is typed. Test:
// estimators/test_estimator.py, relay/test_identity.py.
#pragma once

#include <cstdint>
#include <vector>

#include "../graph/signature.h"
#include "import_relay.h"

namespace tvm::collage {

// Elements of a constant that is no weight, at most: axes, shapes, scales, clip bounds, small
// biases. Predicates and compilers may look at such values; those of weights change no plan.
constexpr int64_t kSmallConstant = 16;

// By node: is it a constant whose values do not belong to a candidate's identity? A large one that
// says where or how much is computed (indexes, row pointers of sparse matrices) is none.
std::vector<bool> WeightsOf(const ImportedFunction& imported);

// `imported` must outlive the result.
Signatures SignaturesOf(const ImportedFunction& imported);

// Equal in every process for the same model, however its variables are called.
struct FunctionKey {
  // By node: what it is, its attributes, type and device, and which nodes it reads.
  std::vector<uint64_t> nodes;
  // All of them and the result: the function without the values of its weights.
  uint64_t structure = 0;
  // The values of its weights, in the order of the nodes.
  uint64_t weights = 0;
};

// What is no weight (WeightsOf) belongs to the structure with its values.
FunctionKey KeyOf(const ImportedFunction& imported);

}  // namespace tvm::collage
