// SPDX-License-Identifier: Apache-2.0
// The partitioner's data as TVM objects, so that Python can look at it: a handle each on shared,
// immutable data; views/ turns their fields into properties. Precondition: what a view shows was
// imported by ImportFunction. Test: views/test_views.py.
#ifndef TVM_RELAY_COLLAGE_API_VIEW_OBJECTS_H_
#define TVM_RELAY_COLLAGE_API_VIEW_OBJECTS_H_

#include <utility>
#include <vector>

#include "../graph/candidate_partition.h"
#include "../relay/import_relay.h"
#include "cost_estimator.h"
#include "gather_specs.h"

namespace tvm::collage {

class DataflowGraphNode : public Object {
 public:
  ImportedPtr imported;

  static constexpr const char* _type_key = "collage.DataflowGraph";
  TVM_DECLARE_FINAL_OBJECT_INFO(DataflowGraphNode, Object);
};

class DataflowGraphView : public ObjectRef {
 public:
  explicit DataflowGraphView(ImportedPtr imported);
  /*! \brief A view of what ImportFunction owns. */
  explicit DataflowGraphView(const ImportedFunction& imported)
      : DataflowGraphView(imported.shared_from_this()) {}
  const DataflowGraph& graph() const { return (*this)->imported->graph; }
  TVM_DEFINE_OBJECT_REF_METHODS(DataflowGraphView, ObjectRef, DataflowGraphNode);
};

class SubGraphNode : public Object {
 public:
  ImportedPtr imported;
  SubGraph sub_graph;

  static constexpr const char* _type_key = "collage.SubGraph";
  TVM_DECLARE_FINAL_OBJECT_INFO(SubGraphNode, Object);
};

class SubGraphView : public ObjectRef {
 public:
  SubGraphView(ImportedPtr imported, SubGraph sub_graph);
  const DataflowGraph& graph() const { return (*this)->imported->graph; }
  TVM_DEFINE_OBJECT_REF_METHODS(SubGraphView, ObjectRef, SubGraphNode);
};

class PartitionSpecNode : public Object {
 public:
  TargetSpec target_spec;

  static constexpr const char* _type_key = "collage.PartitionSpec";
  TVM_DECLARE_FINAL_OBJECT_INFO(PartitionSpecNode, Object);
};

class PartitionSpecView : public ObjectRef {
 public:
  explicit PartitionSpecView(TargetSpec target_spec);
  TVM_DEFINE_OBJECT_REF_METHODS(PartitionSpecView, ObjectRef, PartitionSpecNode);
};

class CandidatePartitionNode : public Object {
 public:
  ImportedPtr imported;
  CandidatePartition candidate;
  PartitionSpecView spec{nullptr};
  EstimatedCost cost;

  static constexpr const char* _type_key = "collage.CandidatePartition";
  TVM_DECLARE_FINAL_OBJECT_INFO(CandidatePartitionNode, Object);
};

class CandidatePartitionView : public ObjectRef {
 public:
  CandidatePartitionView(ImportedPtr imported, CandidatePartition candidate, PartitionSpecView spec,
                         EstimatedCost cost);
  TVM_DEFINE_OBJECT_REF_METHODS(CandidatePartitionView, ObjectRef, CandidatePartitionNode);
};

/*! \brief Numbers as TVM's FFI carries them. */
Array<ObjectRef> BoxedInts(const std::vector<int>& numbers);
/*! \brief A set of placeable nodes. \throw a ValueError that names an index that is none. */
IndexSet ImportIndexes(const DataflowGraph& graph, const Array<runtime::Int>& indexes);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_VIEW_OBJECTS_H_
