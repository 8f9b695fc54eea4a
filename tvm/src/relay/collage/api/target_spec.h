// SPDX-License-Identifier: Apache-2.0
// TargetSpec: a target of the compilation, and what its backend can run.
// Test: tvm/tests/python/collage/test_collage_partition.py.
#ifndef TVM_RELAY_COLLAGE_API_TARGET_SPEC_H_
#define TVM_RELAY_COLLAGE_API_TARGET_SPEC_H_

#include "../relay/fields.h"
#include "../rules/partition_rule.h"

namespace tvm::collage {

struct TargetSpec {
  PartitionSpec spec;
  ObjectRef target;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_TARGET_SPEC_H_
