// SPDX-License-Identifier: Apache-2.0
#include "combinators.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tvm::collage {
namespace {

// A sub-rule's candidates as `change` leaves them, without those for which it is false.
class EachCandidate : public PartitionRule {
 public:
  using Change = std::function<bool(const DataflowGraph&, CandidatePartition*, RuleLog*)>;

  // `head`: the summary up to the sub-rule's.
  EachCandidate(std::string name, std::string head, RulePtr sub_rule, Change change)
      : PartitionRule(std::move(name)),
        head_(std::move(head)),
        sub_rule_(std::move(sub_rule)),
        change_(std::move(change)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<CandidatePartition> result;
    for (CandidatePartition& candidate : CandidatesOf(sub_rule_, graph, spec, log)) {
      if (change_(graph, &candidate, log)) result.push_back(std::move(candidate));
    }
    return result;
  }

  std::string Summary() const override { return head_ + sub_rule_->Summary() + ")"; }

 private:
  std::string head_;
  RulePtr sub_rule_;
  Change change_;
};

RulePtr Each(std::string name, std::string head, RulePtr sub_rule, EachCandidate::Change change) {
  return std::make_shared<EachCandidate>(std::move(name), std::move(head), std::move(sub_rule),
                                         std::move(change));
}

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

RulePtr CompositeRule(std::string composite, RulePtr sub_rule, AttrsGetter attrs) {
  std::string head = "Composite(" + composite + (attrs ? ", attrs, " : ", ");
  auto label = [composite, attrs = std::move(attrs)](const DataflowGraph& graph,
                                                     CandidatePartition* candidate, RuleLog* log) {
    Attrs found;
    Verdict verdict = Verdict::Accept();
    if (!IsDataflow(graph, candidate->sub_graph.inside())) {
      verdict = Verdict::Refuse(kNotDataflow);
    } else if (attrs) {
      verdict = attrs(graph, candidate->sub_graph, &found);
    }
    if (!verdict.accepted) {
      log->Refuse(composite, candidate->sub_graph.inside(), std::move(verdict.reason));
      return false;
    }
    candidate->sub_graph = candidate->sub_graph.WithComposite(composite, std::move(found));
    if (candidate->rule != composite) candidate->rule = NestRuleNames(composite, candidate->rule);
    return true;
  };
  return Each(composite, std::move(head), std::move(sub_rule), std::move(label));
}

RulePtr PrimitiveRule(RulePtr sub_rule) {
  return Each("", "Primitive(", std::move(sub_rule), [](const auto&, auto* candidate, RuleLog*) {
    return candidate->is_primitive = true;
  });
}

RulePtr JoinableRule(RulePtr sub_rule) {
  return Each("", "Joinable(", std::move(sub_rule),
              [](const auto&, auto* candidate, RuleLog*) { return candidate->is_joinable = true; });
}

RulePtr UnionRule(std::vector<RulePtr> sub_rules) {
  return std::make_shared<Union>(std::move(sub_rules));
}

RulePtr OnlyValidRule(SubGraphConfig config, RulePtr sub_rule) {
  return Each("", "OnlyValid(" + config.Summary() + ", ", std::move(sub_rule),
              [config](const DataflowGraph& graph, CandidatePartition* candidate, RuleLog* log) {
                return IsValidOrRefused(graph, *candidate, config, log);
              });
}

RulePtr WithoutRule(std::vector<NodeIndex> nodes, RulePtr sub_rule) {
  const std::string head = "Without(" + std::to_string(nodes.size()) + " nodes, ";
  return Each("", head, std::move(sub_rule),
              [nodes = std::move(nodes)](const DataflowGraph&, CandidatePartition* candidate,
                                         RuleLog* log) {
                const IndexSet& inside = candidate->sub_graph.inside();
                const auto is_inside = [&](NodeIndex node) {
                  return node < inside.size() && inside.Contains(node);
                };
                if (std::none_of(nodes.begin(), nodes.end(), is_inside)) return true;
                log->Refuse(candidate->rule, inside, "its precision is to be the model's own");
                return false;
              });
}

}  // namespace tvm::collage
