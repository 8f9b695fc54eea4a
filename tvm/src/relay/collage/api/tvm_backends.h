// SPDX-License-Identifier: Apache-2.0
// TvmBackends: what planning asks about the backends of one function, answered by TVM and the cost
// estimator. Precondition: the function is typed. Test: test_collage_partition.py.
#pragma once

#include <vector>

#include "../plan/backends.h"
#include "../relay/import_relay.h"
#include "cost_estimator.h"
#include "gather_specs.h"
#include "user_functions.h"

namespace tvm::collage {

class TvmBackends final : public Backends {
 public:
  // `imported` outlives the object, while which users' functions can be asked.
  // `estimator`: null where no cost will be asked for.
  TvmBackends(const ImportedFunction& imported, std::vector<TargetSpec> targets,
              const Optional<CostEstimator>& estimator);

  // What the rule throws is an error that names it and the backend.
  std::vector<CandidatePartition> AskRule(const DataflowGraph& graph, int spec,
                                          RuleLog* log) const final;
  Signatures SignaturesOf(const DataflowGraph& graph) const final;
  std::vector<EstimatedCost> Price(const DataflowGraph& graph,
                                   const std::vector<CostQuestion>& questions) const final;
  std::vector<double> LeastSeconds(const DataflowGraph& graph,
                                   const std::vector<CostQuestion>& questions) const final;
  Foresight Foresee(const DataflowGraph& graph, const std::vector<CostQuestion>& questions,
                    bool sharply) const final;
  bool ArePricesCheap() const final;
  bool HasTransitions() const final;
  LayoutRole RoleOf(NodeIndex call) const final;
  std::vector<double> TransitionSeconds(const std::vector<NodeIndex>& values) const final;
  double SecondsWaited() const final;

 private:
  // Both give costs as JSON: of modules, which are made, or by what candidates do.
  String Measure(const DataflowGraph& graph, const std::vector<CostQuestion>& questions) const;
  String PriceByWork(const DataflowGraph& graph, const std::vector<CostQuestion>& questions) const;

  const ImportedFunction& imported_;
  const std::vector<TargetSpec> targets_;
  const Optional<CostEstimator> estimator_;
  const ImportScope scope_;
};

}  // namespace tvm::collage
