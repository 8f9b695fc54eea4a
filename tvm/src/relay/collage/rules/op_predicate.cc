// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base_rules.h"
#include "single_node.h"

namespace tvm::collage {
namespace {

class OpPredicate : public PartitionRule {
 public:
  OpPredicate(std::string name, CallPredicate predicate)
      : PartitionRule(std::move(name)), predicate_(std::move(predicate)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<CandidatePartition> result;
    for (NodeIndex i = 0; i < graph.size(); ++i) {
      if (!graph[i].IsOpCall()) continue;
      Verdict verdict = predicate_(graph, i);
      if (verdict.accepted) {
        result.push_back(SingleNode(graph, i, spec, name()));
      } else if (!verdict.reason.empty()) {
        // Most calls are simply not the backend's; only a stated reason is worth keeping.
        log->Refuse(name(), IndexSet(graph.size()).Add(i), std::move(verdict.reason));
      }
    }
    return result;
  }

  std::string Summary() const override { return "OpPredicate(" + name() + ")"; }

 private:
  CallPredicate predicate_;
};

}  // namespace

RulePtr OpPredicateRule(std::string name, CallPredicate predicate) {
  return std::make_shared<OpPredicate>(std::move(name), std::move(predicate));
}

}  // namespace tvm::collage
