// SPDX-License-Identifier: Apache-2.0
// CoverNodes: a function's nodes as the search sees them, those to place numbered densely.
// Precondition: the graph outlives it. Test: search/test_ilp.py.
#ifndef TVM_RELAY_COLLAGE_PLAN_COVER_NODES_H_
#define TVM_RELAY_COLLAGE_PLAN_COVER_NODES_H_

#include <vector>

#include "../graph/candidate_partition.h"
#include "../search/cover_problem.h"
#include "layout_transitions.h"

namespace tvm::collage {

class CoverNodes {
 public:
  explicit CoverNodes(const DataflowGraph& graph);

  /*! \brief The object and `transitions` must outlive the problem's search. */
  CoverProblem Problem(const std::vector<CandidatePartition>& candidates,
                       const LayoutTransitions& transitions) const;

 private:
  /*! \brief Placed nodes whose value the node sees, through variables that are let-bound. */
  std::vector<int> InputsOf(NodeIndex index) const;
  /*! \brief Parameters that the node reads; a let-bound variable is its value instead. */
  std::vector<int> VariablesOf(NodeIndex index) const;

  /*! \brief What the candidate may cost, in operations: in which order costs are asked for. */
  double GuessOf(const SubGraph& sub_graph) const;

  const DataflowGraph& graph_;
  std::vector<int> number_;
  std::vector<NodeIndex> nodes_;
  std::vector<double> operations_;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_PLAN_COVER_NODES_H_
