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

class Glue : public PartitionRule {
 public:
  using PartitionRule::PartitionRule;

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    for (NodeIndex i = 0; i < graph.size(); ++i) {
      if (IsGlue(graph[i])) result.push_back(SingleNode(graph, i, spec, name()));
    }
    return result;
  }

  std::string Summary() const override { return "Glue()"; }
};

}  // namespace

RulePtr GlueRule(std::string name) { return std::make_shared<Glue>(std::move(name)); }

}  // namespace tvm::collage
