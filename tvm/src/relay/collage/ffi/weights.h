// SPDX-License-Identifier: Apache-2.0
// What a weight is, for signatures of candidates and keys of functions alike; measure/weights.py
// says the same of measured candidates. Test: tvm/tests/python/collage/test_placement_key.py.
#ifndef TVM_RELAY_COLLAGE_FFI_WEIGHTS_H_
#define TVM_RELAY_COLLAGE_FFI_WEIGHTS_H_

#include "fields.h"

namespace tvm::collage {

/*!
 * \brief Elements of a constant that is no weight, at most: axes, shapes, scales, clip bounds,
 * small biases. Predicates and compilers may look at such values; those of weights change no plan.
 */
constexpr int64_t kSmallConstant = 16;

inline bool IsWeight(const NDArray& data) {
  int64_t count = 1;
  for (int64_t dim : data.Shape()) count *= dim;
  return count > kSmallConstant;
}

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_FFI_WEIGHTS_H_
