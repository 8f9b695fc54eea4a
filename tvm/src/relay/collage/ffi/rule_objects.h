// SPDX-License-Identifier: Apache-2.0
// Partition rules as TVM objects, so that Python can put them together from pattern tables.
// Precondition: rules built from predicates run inside an ImportScope. Test:
// tvm/tests/python/collage/test_rules.py.
#ifndef TVM_RELAY_COLLAGE_FFI_RULE_OBJECTS_H_
#define TVM_RELAY_COLLAGE_FFI_RULE_OBJECTS_H_

#include "../rules/default_rules.h"
#include "import_relay.h"

namespace tvm::collage {

class PartitionRuleNode : public Object {
 public:
  RulePtr rule;        // of a backend, else null
  PatternEntry entry;  // of one line of a pattern table

  static constexpr const char* _type_key = "collage.PartitionRule";
  TVM_DECLARE_FINAL_OBJECT_INFO(PartitionRuleNode, Object);
};

class PartitionRuleRef : public ObjectRef {
 public:
  explicit PartitionRuleRef(RulePtr rule, PatternEntry entry = {});
  TVM_DEFINE_OBJECT_REF_METHODS(PartitionRuleRef, ObjectRef, PartitionRuleNode);
};

/*! \brief While it lives, predicates find the expressions of this function's graph. */
class ImportScope {
 public:
  explicit ImportScope(const ImportedFunction* imported);
  ~ImportScope();
  ImportScope(const ImportScope&) = delete;
  ImportScope& operator=(const ImportScope&) = delete;
  static const ImportedFunction& Current();

 private:
  const ImportedFunction* outer_;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_FFI_RULE_OBJECTS_H_
