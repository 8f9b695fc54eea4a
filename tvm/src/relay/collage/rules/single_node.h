// SPDX-License-Identifier: Apache-2.0
// SingleNode: the candidate that holds one node alone; shared by the base rules.
#ifndef TVM_RELAY_COLLAGE_RULES_SINGLE_NODE_H_
#define TVM_RELAY_COLLAGE_RULES_SINGLE_NODE_H_

#include <string>
#include <utility>

#include "../graph/candidate_partition.h"

namespace tvm::collage {

inline CandidatePartition SingleNode(const DataflowGraph& graph, NodeIndex index, int spec,
                                     std::string rule) {
  IndexSet inside(graph.size());
  inside.Add(index);
  CandidatePartition candidate;
  candidate.sub_graph = SubGraph::Make(graph, std::move(inside));
  candidate.spec = spec;
  candidate.rule = std::move(rule);
  return candidate;
}

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_RULES_SINGLE_NODE_H_
