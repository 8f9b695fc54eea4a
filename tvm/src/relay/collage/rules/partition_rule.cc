// SPDX-License-Identifier: Apache-2.0
#include "partition_rule.h"

namespace tvm::collage {

std::string PartitionSpec::Summary() const {
  return name + (is_external ? " (external): " : ": ") + (rule ? rule->Summary() : "no rule");
}

std::string NestRuleNames(const std::string& outer, const std::string& inner) {
  if (outer.empty() || inner.empty()) return outer + inner;
  return outer + "/" + inner;
}

}  // namespace tvm::collage
