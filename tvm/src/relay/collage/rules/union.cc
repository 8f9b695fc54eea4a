// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "combinators.h"

namespace tvm::collage {
namespace {

class Union : public PartitionRule {
 public:
  explicit Union(std::vector<RulePtr> sub_rules)
      : PartitionRule(""), sub_rules_(std::move(sub_rules)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    CandidateSet result;
    for (const RulePtr& sub_rule : sub_rules_) {
      for (CandidatePartition& candidate : CandidatesOf(sub_rule, graph, spec, log)) {
        result.Add(std::move(candidate));
      }
    }
    return result.Take();
  }

  std::string Summary() const override {
    std::string text;
    for (const RulePtr& sub_rule : sub_rules_) {
      text += (text.empty() ? "" : ", ") + sub_rule->Summary();
    }
    return "Union(" + text + ")";
  }

 private:
  std::vector<RulePtr> sub_rules_;
};

}  // namespace

RulePtr UnionRule(std::vector<RulePtr> sub_rules) {
  return std::make_shared<Union>(std::move(sub_rules));
}

}  // namespace tvm::collage
