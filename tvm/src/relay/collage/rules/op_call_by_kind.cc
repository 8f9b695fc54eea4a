// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base_rules.h"
#include "single_node.h"

namespace tvm::collage {
namespace {

bool CanFuse(const Node& node) { return node.IsOpCall() && node.kind <= OpKind::kOutEWiseFusable; }

}  // namespace

RulePtr OpCallByKindRule(std::string name) {
  return std::make_shared<SingleNodeRule>(std::move(name), "OpCallByKind()", CanFuse);
}

}  // namespace tvm::collage
