// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base_rules.h"
#include "single_node.h"

namespace tvm::collage {
namespace {

class Host : public PartitionRule {
 public:
  using PartitionRule::PartitionRule;

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    graph.placeable().ForEach([&](NodeIndex i) {
      result.push_back(SingleNode(graph, i, spec, name()));
      result.back().is_free = !graph[i].IsKernel();
    });
    return result;
  }

  std::string Summary() const override { return "Host()"; }
};

}  // namespace

RulePtr HostRule(std::string name) { return std::make_shared<Host>(std::move(name)); }

}  // namespace tvm::collage
