// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base_rules.h"
#include "single_node.h"

namespace tvm::collage {
namespace {

bool CanFuse(const Node& node) { return node.IsOpCall() && node.kind <= OpKind::kOutEWiseFusable; }

class OpCallByKind : public PartitionRule {
 public:
  using PartitionRule::PartitionRule;

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    for (NodeIndex i = 0; i < graph.size(); ++i) {
      if (CanFuse(graph[i])) result.push_back(SingleNode(graph, i, spec, name()));
    }
    return result;
  }

  std::string Summary() const override { return "OpCallByKind()"; }
};

}  // namespace

RulePtr OpCallByKindRule(std::string name) {
  return std::make_shared<OpCallByKind>(std::move(name));
}

}  // namespace tvm::collage
