// SPDX-License-Identifier: Apache-2.0
// Partition rules and combiners as TVM objects, so that Python can put them together.
// Precondition: rules built from users' functions run inside an ImportScope (user_functions.h).
// Test: rules/test_pattern_entry.py.
#pragma once

#include <utility>

#include "../rules/combinators.h"
#include "shared.h"

namespace tvm::collage {

struct SharedRule {
  SharedRule(RulePtr pointer) : rule(std::move(pointer)) {}  // implicit: PartitionRuleRef(rule)
  RulePtr rule;
  static constexpr const char* kTypeKey = "collage.PartitionRule";
};
using PartitionRuleRef = Shared<SharedRule>;

struct SharedCombiner {
  SharedCombiner(CombinerPtr pointer) : combiner(std::move(pointer)) {}
  CombinerPtr combiner;
  static constexpr const char* kTypeKey = "collage.Combiner";
};
using CombinerRef = Shared<SharedCombiner>;

}  // namespace tvm::collage
