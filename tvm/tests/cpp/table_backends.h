// SPDX-License-Identifier: Apache-2.0
// Backends that answer from a table, and plans by them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "graph_text.h"
#include "src/relay/collage/plan/plan.h"
#include "src/relay/collage/rules/base_rules.h"

namespace tvm::collage::testing {

// Finds these sub-graphs, given as "a b | c".
class Finds : public PartitionRule {
 public:
  Finds(const NamedGraph& g, const std::string& text) : PartitionRule("finds") {
    std::istringstream stream(text);
    for (std::string names; std::getline(stream, names, '|');) subs_.push_back(g.Sub(names));
  }
  std::vector<CandidatePartition> AllCandidates(const DataflowGraph&, int spec,
                                                RuleLog*) const override {
    std::vector<CandidatePartition> result;
    for (const SubGraph& sub : subs_) {
      CandidatePartition candidate;
      candidate.sub_graph = sub;
      candidate.spec = spec;
      candidate.rule = name();
      candidate.is_primitive = candidate.is_joinable = true;
      result.push_back(std::move(candidate));
    }
    return result;
  }
  std::string Summary() const override { return "Finds()"; }

 private:
  std::vector<SubGraph> subs_;
};

// "mine" and "tvm", which find these sub-graphs, and the host.
inline std::vector<PartitionSpec> Specs(const NamedGraph& g, const std::string& mine,
                                        const std::string& tvm) {
  return {{"mine", true, std::make_shared<Finds>(g, mine)},
          {"tvm", false, std::make_shared<Finds>(g, tvm)},
          {"host", false, HostRule()}};
}

class TableBackends final : public Backends {
 public:
  // By "backend: a b"; a candidate without a row fails.
  using Table = std::map<std::string, double>;
  TableBackends(const NamedGraph& g, std::vector<PartitionSpec> specs, Table table)
      : Backends(std::move(specs)), g_(g), table_(std::move(table)) {}

  Signatures SignaturesOf(const DataflowGraph& graph) const final {
    return Signatures(graph, [](NodeIndex) { return std::string(); });
  }
  std::vector<EstimatedCost> Price(const DataflowGraph&,
                                   const std::vector<CostQuestion>& questions) const final {
    std::vector<EstimatedCost> answers;
    for (const CostQuestion& question : questions) {
      const std::string key =
          SpecOf(question.candidate).name + ": " + g_.Names(question.candidate.sub_graph.inside());
      asked.push_back(key);
      auto row = table_.find(key);
      answers.push_back(row == table_.end() ? EstimatedCost{"compile_failed", 0, "not in the table"}
                                            : EstimatedCost{"measured", row->second, ""});
    }
    return answers;
  }
  std::vector<double> LeastSeconds(const DataflowGraph&,
                                   const std::vector<CostQuestion>& questions) const final {
    if (bounds.empty()) return {};
    std::vector<double> answers;
    for (const CostQuestion& question : questions) {
      const CandidatePartition& candidate = question.candidate;
      auto row =
          bounds.find(SpecOf(candidate).name + ": " + g_.Names(candidate.sub_graph.inside()));
      answers.push_back(row == bounds.end() ? 0.0 : row->second);
    }
    return answers;
  }
  Foresight Foresee(const DataflowGraph&, const std::vector<CostQuestion>& questions,
                    bool sharply) const final {
    was_asked_sharply |= sharply;
    Foresight foresight;
    foresight.is_rough = is_rough && !sharply;
    foresight.asking_seconds = asking_seconds;
    foresight.rival_seconds = rival_seconds;
    foresight.is_final = is_final;
    for (const CostQuestion& question : questions) {
      if (foreseen.empty()) break;
      const std::string nodes = g_.Names(question.candidate.sub_graph.inside());
      auto row = foreseen.find(SpecOf(question.candidate).name + ": " + nodes);
      foresight.likely.push_back(row == foreseen.end() ? 0.0 : row->second);
      if (sharply) foresight.likely.back() *= sharper;
      foresight.least.push_back(foresight.likely.back() * least_share);
    }
    return foresight;
  }
  bool ArePricesCheap() const final { return are_cheap; }
  bool HasTransitions() const final { return !rewritten.empty(); }
  LayoutRole RoleOf(NodeIndex call) const final {
    return rewritten.count(call) > 0 ? LayoutRole::kRewritten : LayoutRole::kPlain;
  }
  std::vector<double> TransitionSeconds(const std::vector<NodeIndex>& values) const final {
    return std::vector<double>(values.size(), 1.0);
  }
  double SecondsWaited() const final { return 0; }

  mutable std::vector<std::string> asked;
  bool are_cheap = false;
  Table bounds;
  Table foreseen;
  double least_share = 1;  // of what is foreseen
  bool is_rough = false;
  double asking_seconds = 0;
  double sharper = 1;  // so many times what is foreseen, asked sharply
  mutable bool was_asked_sharply = false;
  bool is_final = false;
  double rival_seconds = 0;
  std::set<NodeIndex> rewritten;

 private:
  const NamedGraph& g_;
  const Table table_;
};

inline FunctionPlan PlanOf(const NamedGraph& g, const Backends& backends, bool is_over = false) {
  PhaseClock clock;
  return Plan(g.graph, backends, [=] { return is_over; }, &clock);
}

// "mine(a b) tvm(c)" in the order of execution.
inline std::string Text(const NamedGraph& g, const Backends& backends, const FunctionPlan& plan) {
  std::string text;
  for (const PlannedPart& part : plan.parts) {
    text += (text.empty() ? "" : " ") + backends.SpecOf(part.candidate).name + "(" +
            g.Names(part.candidate.sub_graph.inside()) + ")";
  }
  return text;
}

inline const char* const kChain = "x:var; a=conv(x)@4; b=relu(a); c=tanh(b)";

}  // namespace tvm::collage::testing
