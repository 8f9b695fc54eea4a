// SPDX-License-Identifier: Apache-2.0
// Partition rules and combiners as TVM objects, so that Python can put them together.
// Precondition: rules built from users' functions run inside an ImportScope (user_functions.h).
// Test: rules/test_pattern_entry.py.
#ifndef TVM_RELAY_COLLAGE_API_RULE_OBJECTS_H_
#define TVM_RELAY_COLLAGE_API_RULE_OBJECTS_H_

#include <utility>

#include "../relay/fields.h"
#include "../rules/combinators.h"

namespace tvm::collage {

class PartitionRuleNode : public Object {
 public:
  RulePtr rule;

  static constexpr const char* _type_key = "collage.PartitionRule";
  TVM_DECLARE_FINAL_OBJECT_INFO(PartitionRuleNode, Object);
};

class PartitionRuleRef : public ObjectRef {
 public:
  explicit PartitionRuleRef(RulePtr rule) {
    auto node = runtime::make_object<PartitionRuleNode>();
    node->rule = std::move(rule);
    data_ = std::move(node);
  }
  TVM_DEFINE_OBJECT_REF_METHODS(PartitionRuleRef, ObjectRef, PartitionRuleNode);
};

class CombinerNode : public Object {
 public:
  CombinerPtr combiner;

  static constexpr const char* _type_key = "collage.Combiner";
  TVM_DECLARE_FINAL_OBJECT_INFO(CombinerNode, Object);
};

class CombinerRef : public ObjectRef {
 public:
  explicit CombinerRef(CombinerPtr combiner) {
    auto node = runtime::make_object<CombinerNode>();
    node->combiner = std::move(combiner);
    data_ = std::move(node);
  }
  TVM_DEFINE_OBJECT_REF_METHODS(CombinerRef, ObjectRef, CombinerNode);
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_RULE_OBJECTS_H_
