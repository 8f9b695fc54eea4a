// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base_rules.h"
#include "combinators.h"
#include "growth.h"

namespace tvm::collage {
namespace {

class Combine : public PartitionRule {
 public:
  Combine(RulePtr sub_rule, std::vector<CombinerPtr> combiners, CombineLimits limits)
      : PartitionRule("combine"),
        sub_rule_(std::move(sub_rule)),
        combiners_(std::move(combiners)),
        limits_(limits) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<CandidatePartition> sub_candidates = CandidatesOf(sub_rule_, graph, spec, log);
    std::vector<Growth::Unit> units;
    for (size_t i = 0; i < sub_candidates.size(); ++i) {
      const CandidatePartition& candidate = sub_candidates[i];
      std::string why;
      if (!candidate.sub_graph.IsValid(graph, limits_.Config(), &why)) {
        log->Refuse(candidate.rule, candidate.sub_graph.inside(), why);
        if (!candidate.sub_graph.IsValid(graph, SubGraphConfig())) continue;
      }
      // With too many exits alone, it may still be valid together with the readers of its values.
      units.push_back({candidate.sub_graph, static_cast<int>(i), -1, Marks::Of(graph, candidate)});
    }
    AppendGlue(graph, &units);

    CandidateSet result;
    Growth growth(graph, units, combiners_, limits_, name(), log);
    for (Growth::Grown& grown : growth.All()) {
      const Growth::Unit& unit = units[grown.first_unit];
      CandidatePartition candidate;
      if (unit.candidate >= 0) candidate.rule = sub_candidates[unit.candidate].rule;
      if (!(grown.sub_graph == unit.sub_graph)) candidate.rule = name();
      candidate.sub_graph = std::move(grown.sub_graph);
      candidate.spec = spec;
      grown.marks.SetOn(&candidate);
      result.Add(std::move(candidate));
    }
    return result.Take();
  }

  std::string Summary() const override {
    std::string text = "Combine(";
    for (const CombinerPtr& combiner : combiners_) text += combiner->Summary() + ", ";
    return text + "depth " + std::to_string(limits_.max_depth) + ", " + sub_rule_->Summary() + ")";
  }

 private:
  /*! \brief Tuples and projections that no sub-candidate is already. */
  void AppendGlue(const DataflowGraph& graph, std::vector<Growth::Unit>* units) const {
    IndexSet known(graph.size());
    for (const Growth::Unit& unit : *units) {
      if (unit.sub_graph.size() == 1) known |= unit.sub_graph.inside();
    }
    for (const CombinerPtr& combiner : combiners_) {
      for (NodeIndex glue : combiner->Glue(graph)) {
        if (known.Contains(glue)) continue;
        known.Add(glue);
        units->push_back({SingleNode(graph, glue, 0, "").sub_graph, -1, glue});
      }
    }
  }

  RulePtr sub_rule_;
  std::vector<CombinerPtr> combiners_;
  CombineLimits limits_;
};

}  // namespace

RulePtr CombineRule(RulePtr sub_rule, std::vector<CombinerPtr> combiners, CombineLimits limits) {
  return std::make_shared<Combine>(std::move(sub_rule), std::move(combiners), limits);
}

}  // namespace tvm::collage
