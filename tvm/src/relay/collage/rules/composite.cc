// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "combinators.h"

namespace tvm::collage {
namespace {

class Composite : public PartitionRule {
 public:
  Composite(std::string composite, RulePtr sub_rule, AttrsGetter attrs)
      : PartitionRule(std::move(composite)),
        sub_rule_(std::move(sub_rule)),
        attrs_(std::move(attrs)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<CandidatePartition> result;
    for (CandidatePartition& candidate : CandidatesOf(sub_rule_, graph, spec, log)) {
      if (!IsDataflow(graph, candidate.sub_graph.inside())) {
        log->Refuse(name(), candidate.sub_graph.inside(), kNotDataflow);
        continue;
      }
      Attrs attrs;
      if (attrs_) {
        Verdict verdict = attrs_(graph, candidate.sub_graph, &attrs);
        if (!verdict.accepted) {
          log->Refuse(name(), candidate.sub_graph.inside(), std::move(verdict.reason));
          continue;
        }
      }
      candidate.sub_graph = candidate.sub_graph.WithComposite(name(), std::move(attrs));
      if (candidate.rule != name()) candidate.rule = NestRuleNames(name(), candidate.rule);
      result.push_back(std::move(candidate));
    }
    return result;
  }

  std::string Summary() const override {
    return "Composite(" + name() + (attrs_ ? ", attrs, " : ", ") + sub_rule_->Summary() + ")";
  }

 private:
  RulePtr sub_rule_;
  AttrsGetter attrs_;
};

}  // namespace

RulePtr CompositeRule(std::string composite, RulePtr sub_rule, AttrsGetter attrs) {
  return std::make_shared<Composite>(std::move(composite), std::move(sub_rule), std::move(attrs));
}

}  // namespace tvm::collage
