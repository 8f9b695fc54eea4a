// SPDX-License-Identifier: Apache-2.0
#include "rule_log.h"

namespace tvm::collage {

std::vector<std::string> RuleLog::CutLines() const {
  std::vector<std::string> lines;
  for (const auto& [where, count] : cuts) {
    lines.push_back("rule " + where.first + ": limit " + where.second + " cut " +
                    std::to_string(count));
  }
  return lines;
}

}  // namespace tvm::collage
