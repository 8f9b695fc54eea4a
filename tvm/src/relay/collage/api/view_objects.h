// SPDX-License-Identifier: Apache-2.0
// The partitioner's data as TVM objects, so that Python can look at it: a handle each on shared,
// immutable data; views/ turns their fields into properties. Precondition: what a view shows was
// imported by ImportFunction. Test: views/test_views.py.
#pragma once

#include <vector>

#include "../graph/candidate_partition.h"
#include "../plan/backends.h"
#include "../relay/import_relay.h"
#include "gather_specs.h"
#include "shared.h"

namespace tvm::collage {

// What ImportFunction owns.
struct ViewedGraph {
  ImportedPtr imported;
  const DataflowGraph& graph() const { return imported->graph; }
  static constexpr const char* kTypeKey = "collage.DataflowGraph";
};
using DataflowGraphView = Shared<ViewedGraph>;

struct ViewedSubGraph {
  ImportedPtr imported;
  SubGraph sub_graph;
  const DataflowGraph& graph() const { return imported->graph; }
  static constexpr const char* kTypeKey = "collage.SubGraph";
};
using SubGraphView = Shared<ViewedSubGraph>;

struct ViewedSpec {
  TargetSpec target_spec;
  static constexpr const char* kTypeKey = "collage.PartitionSpec";
};
using PartitionSpecView = Shared<ViewedSpec>;

struct ViewedCandidate {
  ImportedPtr imported;
  CandidatePartition candidate;
  PartitionSpecView spec;
  EstimatedCost cost;
  static constexpr const char* kTypeKey = "collage.CandidatePartition";
};
using CandidatePartitionView = Shared<ViewedCandidate>;

// A set of placeable nodes. Throws a ValueError that names an index that is none.
IndexSet ImportIndexes(const DataflowGraph& graph, const Array<runtime::Int>& indexes);

}  // namespace tvm::collage
