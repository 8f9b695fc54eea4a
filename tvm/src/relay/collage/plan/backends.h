// SPDX-License-Identifier: Apache-2.0
// Backends: all that planning asks about the backends of one function. Who answers is not its
// business: api/tvm_backends.h asks TVM, tests answer from a table. Also what it is answered, and
// what the backends' rules find. Test: tvm/tests/cpp/plan_test.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../graph/json.h"
#include "../graph/signature.h"
#include "../rules/partition_rule.h"

namespace tvm::collage {

// Three significant digits with a unit: 1.23 ms.
std::string SecondsText(double seconds);

// What is known of a part's cost; PartCost of costs/cost.py, which lists status and flags.
struct EstimatedCost {
  std::string status;
  double seconds = 0;
  std::string message;
  std::vector<std::string> flags = {};  // what makes it doubtful

  bool IsUsable() const { return status == "measured" || status == "estimated"; }
  // As PartCost.Summary in costs/cost.py: "estimated 1.23 ms", "timeout: after 60 s".
  std::string Summary() const;
  // Its fields; seconds are null where there are none.
  Json ToJson() const;
  static EstimatedCost Of(const JsonValue& fields);
};

// A candidate whose cost is asked for; equal signatures must cost the same.
struct CostQuestion {
  const CandidatePartition& candidate;
  std::string signature;
};

// What one profiled run of each backend alone tells before any cost is asked for.
struct Foresight {
  // By question, seconds that its cost is hardly ever below, and those that it is seldom below;
  // empty where no run was profiled.
  std::vector<double> least;
  std::vector<double> likely;
  // Of the fastest backend alone, measured whole: what no cover beats need not be measured further.
  // 0 where none is known.
  double rival_seconds = 0;
  // Is what is likely all that will be known? Then no cost is asked for.
  bool is_final = false;
  // Is it less than can be known? Then it may end the search, and else is asked for once more.
  bool is_rough = false;
  // For so long from now on costs may be asked for; 0: as long as the pass may take.
  double asking_seconds = 0;
};

// What becomes of the layout of a call's values in a part of TVM.
enum class LayoutRole {
  kPlain,      // the op wants plain layouts
  kFollows,    // it keeps the layout that it is given
  kRewritten,  // AlterOpLayout gives it a blocked one
};

class Backends {
 public:
  // `specs`: candidates carry their numbers; the host target's is the last.
  explicit Backends(std::vector<PartitionSpec> specs) : specs_(std::move(specs)) {}
  virtual ~Backends() = default;
  Backends(const Backends&) = delete;
  Backends& operator=(const Backends&) = delete;

  const std::vector<PartitionSpec>& specs() const { return specs_; }
  const PartitionSpec& SpecOf(const CandidatePartition& candidate) const {
    return specs_[candidate.spec];
  }
  // Is it the host target's, whose costs are never asked for?
  bool IsHost(const CandidatePartition& candidate) const {
    return candidate.spec == static_cast<int>(specs_.size()) - 1;
  }

  // What one backend's rule finds.
  virtual std::vector<CandidatePartition> AskRule(const DataflowGraph& graph, int spec,
                                                  RuleLog* log) const;
  // Which candidates are the same computation.
  virtual Signatures SignaturesOf(const DataflowGraph& graph) const = 0;
  // One answer a question; questions have different signatures.
  virtual std::vector<EstimatedCost> Price(const DataflowGraph& graph,
                                           const std::vector<CostQuestion>& questions) const = 0;
  // Seconds that no cost of each can be below, before any is asked for. Empty where nothing is
  // known: zero is always true.
  virtual std::vector<double> LeastSeconds(const DataflowGraph& graph,
                                           const std::vector<CostQuestion>& questions) const {
    return {};
  }
  // What is expected of each, before any is asked for.
  // `sharply`: as well as can be, whatever that takes.
  virtual Foresight Foresee(const DataflowGraph& graph, const std::vector<CostQuestion>& questions,
                            bool sharply) const {
    return {};
  }
  // Can all costs be asked for at once, since none of them is measured?
  virtual bool ArePricesCheap() const { return false; }
  // Is a change of layout between two parts charged?
  virtual bool HasTransitions() const { return false; }
  virtual LayoutRole RoleOf(NodeIndex call) const { return LayoutRole::kPlain; }
  // Seconds of one layout transform of each of these values; asked where there are such.
  virtual std::vector<double> TransitionSeconds(const std::vector<NodeIndex>& values) const {
    return std::vector<double>(values.size(), 0.0);
  }
  // How long this thread has waited for CPUs that others measure on.
  virtual double SecondsWaited() const { return 0; }

 private:
  std::vector<PartitionSpec> specs_;
};

// What the backends' rules find, each once, small ones first; `logs` gets one a backend.
std::vector<CandidatePartition> AllCandidates(const DataflowGraph& graph, const Backends& backends,
                                              std::vector<RuleLog>* logs);

// "nn.conv2d, add".
std::string OpsOf(const DataflowGraph& graph, const CandidatePartition& candidate);
// "<backend>(nn.conv2d, add)".
std::string LabelOf(const DataflowGraph& graph, const CandidatePartition& candidate,
                    const std::string& backend);

}  // namespace tvm::collage
