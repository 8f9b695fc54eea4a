// SPDX-License-Identifier: Apache-2.0
// Collage's options: one table of name, type, default and meaning for C++, Python and tvmc.
// Precondition: RegisterPassOptions ran (Init does). Test:
// tvm/tests/python/collage/test_options.py.
#ifndef TVM_RELAY_COLLAGE_FFI_OPTIONS_H_
#define TVM_RELAY_COLLAGE_FFI_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "fields.h"

namespace tvm::collage {

// X(type, name, default, meaning); the key in the PassContext is "relay.collage." + name.
// The first group keeps TVM's own names and meanings.
#define COLLAGE_OPTIONS(X)                                                                        \
  X(int64_t, tvm_max_depth, 8, "longest chain of calls in one candidate for TVM")                 \
  X(int64_t, byoc_max_depth, 8, "longest chain of calls in one candidate for a pattern backend")  \
  X(Names, byoc_fusion_style, Names(), "how patterns combine, as <backend>.NoFusion")             \
  X(bool, enable_collage, false, "place every part of the model on its fastest backend")          \
  X(int64_t, max_candidates_per_node, 2048, "most candidates of one rule that start at one node") \
  X(bool, merge_parts, false, "join neighbouring parts of one external backend after the search") \
  X(bool, guard, true, "measure the plan whole beside each backend alone, ship the fastest")      \
  X(int64_t, guard_rounds, 30, "interleaved rounds of the guard")                                 \
  X(double, measure_seconds, 0.3, "time spent running one candidate, in seconds")                 \
  X(double, measure_timeout, 60.0, "a candidate's build or run longer than this is a timeout")    \
  X(int64_t, workers, 0, "processes that build candidates; 0 means one a thread, 8 at most")      \
  X(int64_t, seed, 0, "seed of the random inputs that are measured")                              \
  X(std::string, progress, "auto", "auto, rich, quiet or json")

using Names = std::vector<std::string>;

struct CollageOptions {
#define COLLAGE_FIELD(type, name, default_value, meaning) type name = default_value;
  COLLAGE_OPTIONS(COLLAGE_FIELD)
#undef COLLAGE_FIELD

  /*! \brief The options of the innermost PassContext; what is not set there has its default. */
  static CollageOptions Current();
};

/*!
 * \brief Makes the PassContext accept the options. A value of a wrong type is then a TypeError that
 * names the option, what it takes and what it got. Options that TVM or a second copy of this
 * library registered before are left as they are.
 */
void RegisterPassOptions();

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_FFI_OPTIONS_H_
