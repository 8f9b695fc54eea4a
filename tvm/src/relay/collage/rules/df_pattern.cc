// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base_rules.h"

namespace tvm::collage {
namespace {

/*! \brief Matches of one root that are of the same nodes, whatever these are bound to, are one. */
std::vector<Match> FindParts(const DataflowGraph& graph, const DataflowPattern& pattern,
                             int64_t* num_cut) {
  std::vector<Match> parts;
  for (Match& match : FindMatches(graph, pattern, num_cut)) {
    const bool is_known = [&] {
      for (auto known = parts.rbegin(); known != parts.rend() && known->root == match.root; ++known)
        if (known->inside == match.inside) return true;
      return false;
    }();
    if (!is_known) parts.push_back(std::move(match));
  }
  return parts;
}

class DFPattern : public PartitionRule {
 public:
  DFPattern(std::string name, DataflowPattern pattern, MatchPredicate predicate)
      : PartitionRule(std::move(name)),
        pattern_(std::move(pattern)),
        predicate_(std::move(predicate)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    const std::string unsupported = UnsupportedReason(pattern_);
    if (!unsupported.empty()) log->Refuse(name(), IndexSet(graph.size()), unsupported);
    CandidateSet result;
    int64_t num_cut = 0;
    for (Match& match : FindParts(graph, pattern_, &num_cut)) {
      if (match.inside.IsEmpty()) continue;  // the pattern describes no computation here
      if (predicate_) {
        Verdict verdict = predicate_(graph, match);
        if (!verdict.accepted) {
          log->Refuse(name(), std::move(match.inside), std::move(verdict.reason));
          continue;
        }
      }
      CandidatePartition candidate;
      candidate.sub_graph = SubGraph::Make(graph, std::move(match.inside));
      std::string why;
      if (!candidate.sub_graph.IsValid(graph, SubGraphConfig(), &why)) {
        log->Refuse(name(), candidate.sub_graph.inside(), why);
        continue;
      }
      candidate.spec = spec;
      candidate.rule = name();
      result.Add(std::move(candidate));
    }
    log->Cut(name(), "matches of one root", num_cut);
    return result.Take();
  }

  std::string Summary() const override {
    return "DFPattern(" + collage::Summary(pattern_) + (predicate_ ? ", predicate)" : ")");
  }

 private:
  DataflowPattern pattern_;
  MatchPredicate predicate_;
};

}  // namespace

RulePtr DFPatternRule(std::string name, DataflowPattern pattern, MatchPredicate predicate) {
  return std::make_shared<DFPattern>(std::move(name), std::move(pattern), std::move(predicate));
}

}  // namespace tvm::collage
