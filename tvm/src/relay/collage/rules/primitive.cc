// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "combinators.h"

namespace tvm::collage {
namespace {

class Primitive : public PartitionRule {
 public:
  explicit Primitive(RulePtr sub_rule) : PartitionRule(""), sub_rule_(std::move(sub_rule)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    auto result = CandidatesOf(sub_rule_, graph, spec, log);
    for (CandidatePartition& candidate : result) candidate.is_primitive = true;
    return result;
  }

  std::string Summary() const override { return "Primitive(" + sub_rule_->Summary() + ")"; }

 private:
  RulePtr sub_rule_;
};

}  // namespace

RulePtr PrimitiveRule(RulePtr sub_rule) { return std::make_shared<Primitive>(std::move(sub_rule)); }

}  // namespace tvm::collage
