// SPDX-License-Identifier: Apache-2.0
// What a weight is, for signatures of candidates and keys of functions alike (costs/weights.py
// says the same of measured candidates), and these signatures: values of small constants count.
// Test: test_estimators.py, relay/test_function_key.py.
#ifndef TVM_RELAY_COLLAGE_RELAY_IMPORT_SIGNATURES_H_
#define TVM_RELAY_COLLAGE_RELAY_IMPORT_SIGNATURES_H_

#include <cstdint>
#include <vector>

#include "../graph/signature.h"
#include "import_relay.h"

namespace tvm::collage {

/*!
 * \brief Elements of a constant that is no weight, at most: axes, shapes, scales, clip bounds,
 * small biases. Predicates and compilers may look at such values; those of weights change no plan.
 */
constexpr int64_t kSmallConstant = 16;

/*!
 * \brief By node: is it a constant whose values do not belong to a candidate's identity? A large
 * one that says where or how much is computed (indexes, row pointers of sparse matrices) is none.
 */
std::vector<bool> WeightsOf(const ImportedFunction& imported);

/*! \brief `imported` must outlive the result. */
Signatures SignaturesOf(const ImportedFunction& imported);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RELAY_IMPORT_SIGNATURES_H_
