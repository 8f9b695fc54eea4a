// SPDX-License-Identifier: Apache-2.0
// SingleNode: the candidate that holds one node alone, and the rule that makes one of each node
// that a predicate takes; shared by the base rules. Test: tvm/tests/cpp/rules_basic_test.cc.
#ifndef TVM_RELAY_COLLAGE_RULES_SINGLE_NODE_H_
#define TVM_RELAY_COLLAGE_RULES_SINGLE_NODE_H_

#include <string>
#include <utility>
#include <vector>

#include "../graph/candidate_partition.h"
#include "partition_rule.h"

namespace tvm::collage {

inline CandidatePartition SingleNode(const DataflowGraph& graph, NodeIndex index, int spec,
                                     std::string rule) {
  IndexSet inside(graph.size());
  inside.Add(index);
  CandidatePartition candidate;
  candidate.sub_graph = SubGraph::Make(graph, std::move(inside));
  candidate.spec = spec;
  candidate.rule = std::move(rule);
  return candidate;
}

class SingleNodeRule : public PartitionRule {
 public:
  using Predicate = bool (*)(const Node&);
  SingleNodeRule(std::string name, std::string summary, Predicate takes)
      : PartitionRule(std::move(name)), summary_(std::move(summary)), takes_(takes) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    for (NodeIndex i = 0; i < graph.size(); ++i) {
      if (takes_(graph[i])) result.push_back(SingleNode(graph, i, spec, name()));
    }
    return result;
  }

  std::string Summary() const override { return summary_; }

 private:
  std::string summary_;
  Predicate takes_;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_SINGLE_NODE_H_
