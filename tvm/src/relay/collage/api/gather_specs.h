// SPDX-License-Identifier: Apache-2.0
// Phase 1 (RFC 0062): the targets of a compilation -> what each backend can run. Also the target
// kinds of backends, `Target("<name> -option=value")`, marked as external code generators.
// Precondition: external kinds bring a rule or are known to Python's make_byoc_partition_rule
// (backends/rule.py says which rule a target has).
// Test: test_collage_partition.py, backends/test_target_kind.py.
#pragma once

#include <string>
#include <vector>

#include "../relay/fields.h"
#include "../rules/partition_rule.h"

namespace tvm::collage {

struct TargetSpec {
  PartitionSpec spec;
  ObjectRef target;
};

// One spec a target, in the targets' order, and the host's last. External kinds are recognised by
// their attributes alone (IsExternalKind).
std::vector<TargetSpec> GatherSpecs(const ObjectRef& compilation_config);

// Makes all target kinds that TVM knows by now accept the attribute `partition_rule`, once; keeps
// what they were before.
void RegisterPartitionRuleAttribute();

}  // namespace tvm::collage
