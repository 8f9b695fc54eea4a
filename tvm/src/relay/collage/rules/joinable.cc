// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "combinators.h"

namespace tvm::collage {
namespace {

class Joinable : public PartitionRule {
 public:
  explicit Joinable(RulePtr sub_rule) : PartitionRule(""), sub_rule_(std::move(sub_rule)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    auto result = CandidatesOf(sub_rule_, graph, spec, log);
    for (CandidatePartition& candidate : result) candidate.is_joinable = true;
    return result;
  }

  std::string Summary() const override { return "Joinable(" + sub_rule_->Summary() + ")"; }

 private:
  RulePtr sub_rule_;
};

}  // namespace

RulePtr JoinableRule(RulePtr sub_rule) { return std::make_shared<Joinable>(std::move(sub_rule)); }

}  // namespace tvm::collage
