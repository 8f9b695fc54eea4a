// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base_rules.h"
#include "single_node.h"

namespace tvm::collage {
namespace {

bool IsGlue(const Node& node) {
  return (node.type == NodeType::kTuple || node.type == NodeType::kProjection) &&
         FusionKind(node) != OpKind::kOpaque;
}

}  // namespace

RulePtr GlueRule(std::string name) {
  return std::make_shared<SingleNodeRule>(std::move(name), "Glue()", IsGlue);
}

}  // namespace tvm::collage
