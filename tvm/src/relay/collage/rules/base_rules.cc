// SPDX-License-Identifier: Apache-2.0
#include "base_rules.h"

#include <algorithm>
#include <utility>

namespace tvm::collage {
namespace {

/*! \brief Each node that a predicate takes, alone. */
class SingleNodeRule : public PartitionRule {
 public:
  using Predicate = bool (*)(const Node&);
  SingleNodeRule(std::string name, std::string summary, Predicate takes)
      : PartitionRule(std::move(name)), summary_(std::move(summary)), takes_(takes) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    for (NodeIndex i = 0; i < graph.size(); ++i) {
      if (takes_(graph[i])) result.push_back(SingleNode(graph, i, spec, name()));
    }
    return result;
  }

  std::string Summary() const override { return summary_; }

 private:
  std::string summary_;
  Predicate takes_;
};

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

bool IsGlue(const Node& node) {
  return (node.type == NodeType::kTuple || node.type == NodeType::kProjection) &&
         FusionKind(node) != OpKind::kOpaque;
}

class Host : public PartitionRule {
 public:
  using PartitionRule::PartitionRule;

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    graph.placeable().ForEach([&](NodeIndex i) {
      result.push_back(SingleNode(graph, i, spec, name()));
      result.back().is_free = !graph[i].IsKernel();
    });
    return result;
  }

  std::string Summary() const override { return "Host()"; }
};

bool CanFuse(const Node& node) { return node.IsOpCall() && node.kind <= OpKind::kOutEWiseFusable; }

class OpPredicate : public PartitionRule {
 public:
  OpPredicate(std::string name, CallPredicate predicate)
      : PartitionRule(std::move(name)), predicate_(std::move(predicate)) {}

  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const override {
    std::vector<CandidatePartition> result;
    for (NodeIndex i = 0; i < graph.size(); ++i) {
      if (!graph[i].IsOpCall()) continue;
      Verdict verdict = predicate_(graph, i);
      if (verdict.accepted) {
        result.push_back(SingleNode(graph, i, spec, name()));
      } else if (!verdict.reason.empty()) {
        // Most calls are simply not the backend's; only a stated reason is worth keeping.
        log->Refuse(name(), IndexSet(graph.size()).Add(i), std::move(verdict.reason));
      }
    }
    return result;
  }

  std::string Summary() const override { return "OpPredicate(" + name() + ")"; }

 private:
  CallPredicate predicate_;
};

}  // namespace

CandidatePartition SingleNode(const DataflowGraph& graph, NodeIndex index, int spec,
                              std::string rule) {
  IndexSet inside(graph.size());
  inside.Add(index);
  CandidatePartition candidate;
  candidate.sub_graph = SubGraph::Make(graph, std::move(inside));
  candidate.spec = spec;
  candidate.rule = std::move(rule);
  return candidate;
}

RulePtr DFPatternRule(std::string name, DataflowPattern pattern, MatchPredicate predicate) {
  return std::make_shared<DFPattern>(std::move(name), std::move(pattern), std::move(predicate));
}

RulePtr GlueRule(std::string name) {
  return std::make_shared<SingleNodeRule>(std::move(name), "Glue()", IsGlue);
}

RulePtr HostRule(std::string name) { return std::make_shared<Host>(std::move(name)); }

RulePtr OpCallByKindRule(std::string name) {
  return std::make_shared<SingleNodeRule>(std::move(name), "OpCallByKind()", CanFuse);
}

RulePtr OpPredicateRule(std::string name, CallPredicate predicate) {
  return std::make_shared<OpPredicate>(std::move(name), std::move(predicate));
}

}  // namespace tvm::collage
