// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "combinators.h"

namespace tvm::collage {
namespace {

class Composite : public PartitionRule {
 public:
  Composite(std::string composite, RulePtr sub_rule)
      : PartitionRule(std::move(composite)), sub_rule_(std::move(sub_rule)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    auto result = sub_rule_->AllCandidates(graph, spec, log);
    for (CandidatePartition& candidate : result) {
      candidate.sub_graph = candidate.sub_graph.WithComposite(name());
      if (candidate.rule != name()) candidate.rule = NestRuleNames(name(), candidate.rule);
    }
    return result;
  }

  std::string Summary() const override {
    return "Composite(" + name() + ", " + sub_rule_->Summary() + ")";
  }

 private:
  RulePtr sub_rule_;
};

}  // namespace

RulePtr CompositeRule(std::string composite, RulePtr sub_rule) {
  return std::make_shared<Composite>(std::move(composite), std::move(sub_rule));
}

}  // namespace tvm::collage
