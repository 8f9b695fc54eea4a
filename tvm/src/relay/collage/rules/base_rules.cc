// SPDX-License-Identifier: Apache-2.0
#include "base_rules.h"

namespace tvm::collage {
namespace {

// Each node that a predicate takes, alone.
class SingleNodeRule : public PartitionRule {
 public:
  using Predicate = std::function<bool(const DataflowGraph&, NodeIndex, RuleLog*)>;
  SingleNodeRule(std::string name, std::string summary, Predicate takes)
      : PartitionRule(std::move(name)), summary_(std::move(summary)), takes_(std::move(takes)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<CandidatePartition> result;
    for (NodeIndex i = 0; i < graph.size(); ++i) {
      if (takes_(graph, i, log)) result.push_back(SingleNode(graph, i, spec, name()));
    }
    return result;
  }

  std::string Summary() const override { return summary_; }

 private:
  std::string summary_;
  Predicate takes_;
};

class Host : public SingleNodeRule {
 public:
  explicit Host(std::string name) : SingleNodeRule(std::move(name), "Host()", IsPlaceable) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    auto result = SingleNodeRule::AllCandidates(graph, spec, log);
    for (CandidatePartition& candidate : result) {
      candidate.is_free = candidate.sub_graph.depth() == 0;  // no kernel
    }
    return result;
  }

 private:
  static bool IsPlaceable(const DataflowGraph& graph, NodeIndex index, RuleLog*) {
    return graph[index].IsPlaceable();
  }
};

// Matches of one root that are of the same nodes, whatever these are bound to, are one.
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
      CandidatePartition candidate{SubGraph::Make(graph, std::move(match.inside)), spec, name()};
      if (IsValidOrRefused(graph, candidate, {}, log)) result.Add(std::move(candidate));
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

CandidatePartition SingleNode(const DataflowGraph& graph, NodeIndex index, int spec,
                              std::string rule) {
  return {SubGraph::Make(graph, IndexSet(graph.size(), {index})), spec, std::move(rule)};
}

RulePtr DFPatternRule(std::string name, DataflowPattern pattern, MatchPredicate predicate) {
  return std::make_shared<DFPattern>(std::move(name), std::move(pattern), std::move(predicate));
}

RulePtr GlueRule(std::string name) {
  return std::make_shared<SingleNodeRule>(
      std::move(name), "Glue()", [](const DataflowGraph& graph, NodeIndex i, RuleLog*) {
        const Node& node = graph[i];
        return (node.type == NodeType::kTuple || node.type == NodeType::kProjection) &&
               FusionKind(node) != OpKind::kOpaque;
      });
}

RulePtr HostRule(std::string name) { return std::make_shared<Host>(std::move(name)); }

RulePtr OpCallByKindRule(std::string name) {
  return std::make_shared<SingleNodeRule>(
      std::move(name), "OpCallByKind()", [](const DataflowGraph& graph, NodeIndex i, RuleLog*) {
        return graph[i].IsOpCall() && graph[i].kind <= OpKind::kOutEWiseFusable;
      });
}

RulePtr OpPredicateRule(std::string name, CallPredicate predicate) {
  auto takes = [name, predicate = std::move(predicate)](const DataflowGraph& graph, NodeIndex i,
                                                        RuleLog* log) {
    if (!graph[i].IsOpCall()) return false;
    Verdict verdict = predicate(graph, i);
    // Most calls are simply not the backend's; only a stated reason is worth keeping.
    if (!verdict.accepted && !verdict.reason.empty()) {
      log->Refuse(name, IndexSet(graph.size(), {i}), std::move(verdict.reason));
    }
    return verdict.accepted;
  };
  return std::make_shared<SingleNodeRule>(name, "OpPredicate(" + name + ")", std::move(takes));
}

}  // namespace tvm::collage
