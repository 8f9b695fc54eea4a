// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "combinators.h"

namespace tvm::collage {
namespace {

class OnlyValid : public PartitionRule {
 public:
  OnlyValid(SubGraphConfig config, RulePtr sub_rule)
      : PartitionRule(""), config_(config), sub_rule_(std::move(sub_rule)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<CandidatePartition> result;
    for (CandidatePartition& candidate : CandidatesOf(sub_rule_, graph, spec, log)) {
      std::string why;
      if (candidate.sub_graph.IsValid(graph, config_, &why)) {
        result.push_back(std::move(candidate));
      } else {
        log->Refuse(candidate.rule, candidate.sub_graph.inside(), why);
      }
    }
    return result;
  }

  std::string Summary() const override {
    return "OnlyValid(" + config_.Summary() + ", " + sub_rule_->Summary() + ")";
  }

 private:
  SubGraphConfig config_;
  RulePtr sub_rule_;
};

}  // namespace

RulePtr OnlyValidRule(SubGraphConfig config, RulePtr sub_rule) {
  return std::make_shared<OnlyValid>(config, std::move(sub_rule));
}

}  // namespace tvm::collage
