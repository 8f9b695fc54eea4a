// SPDX-License-Identifier: Apache-2.0
// PartitionRule: finds candidates in a graph; base rules look at nodes, others at a sub-rule's
// candidates. Rules are immutable and shared. docs/rules.md lists them all. Also the log of what
// they turned down, for reports.
// Test: tvm/tests/cpp/rules_basic_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../graph/candidate_partition.h"

namespace tvm::collage {

class PartitionRule;

// What rules refused or left out, and why.
struct COLLAGE_API RuleLog {
  // A match that its predicate, or a sub-graph that a limit, turned down.
  struct Refusal {
    std::string rule;
    IndexSet inside;
    std::string reason;
  };
  std::vector<Refusal> refusals;
  // (rule, limit) -> number of growth steps or candidates that the limit cut.
  std::map<std::pair<std::string, std::string>, int64_t> cuts;
  using Found =
      std::unordered_map<std::shared_ptr<const PartitionRule>, std::vector<CandidatePartition>>;
  // What each rule found, kept while a backend's runs (see CandidatesOf).
  std::optional<Found> found;

  void Refuse(std::string rule, IndexSet inside, std::string reason) {
    refusals.push_back({std::move(rule), std::move(inside), std::move(reason)});
  }
  void Cut(const std::string& rule, const std::string& limit, int64_t count = 1) {
    if (count > 0) cuts[{rule, limit}] += count;
  }
  // One line a limit that cut something; empty when none did.
  std::vector<std::string> CutLines() const;
};

class COLLAGE_API PartitionRule {
 public:
  explicit PartitionRule(std::string name) : name_(std::move(name)) {}
  virtual ~PartitionRule() = default;

  // Candidates for backend `spec`, each once; they may overlap.
  virtual std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                        RuleLog* log) const = 0;
  // The rule with its sub-rules on one line.
  virtual std::string Summary() const = 0;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

using RulePtr = std::shared_ptr<const PartitionRule>;

// What a rule's sub-rule finds. One that several rules share runs once for a backend, so that its
// predicates are asked, and its refusals appear, once.
COLLAGE_API std::vector<CandidatePartition> CandidatesOf(const RulePtr& sub_rule,
                                                         const DataflowGraph& graph, int spec,
                                                         RuleLog* log);

// Is the candidate valid within `config`? If not, the log is told why.
COLLAGE_API bool IsValidOrRefused(const DataflowGraph& graph, const CandidatePartition& candidate,
                                  const SubGraphConfig& config, RuleLog* log);

// A backend and the rule that says what it can run.
struct PartitionSpec {
  std::string name;
  // Is it a backend with its own compiler, whose parts need `Compiler` functions?
  bool is_external = false;
  RulePtr rule;
  // That its code runs on, as Node::device says it.
  std::string device = {};

  // The rule's candidates for this backend. One for TVM is never wrapped, FuseOps decides; one for
  // an external backend that is neither wrapped nor made of composites is refused, since nothing
  // would hand it over. So is what is not valid, or would make a function of what is no dataflow
  // (IsDataflow): every rule's candidates come through here, users' own too.
  std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, int spec,
                                                RuleLog* log) const;
  std::string Summary() const;
};

// `outer/inner`, or the one that is not empty.
COLLAGE_API std::string NestRuleNames(const std::string& outer, const std::string& inner);

}  // namespace tvm::collage
