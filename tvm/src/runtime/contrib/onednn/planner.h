// SPDX-License-Identifier: Apache-2.0
// Turns a partition's description and its constants into a Plan.
//
// Walks the nodes in order; each node's builder (ops_*.cc) lets oneDNN choose layouts, asks the
// planner for its operands in them (a reorder is added only where a tensor is not there yet in
// that layout; constants are reordered at once, so their packed form is all that stays), and
// defines its result.
// Test: backends/dnnl/test_lower.py, backends/dnnl/test_regions.py.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../partition/node_checks.h"
#include "plan.h"

namespace tvm::collage::onednn {

// A tensor's data somewhere; `desc` has the tensor's Relay shape and axis order.
struct Value {
  MemDesc desc;
  int buffer;
};

class Planner {
 public:
  // `constants`: plain data of graph.constants, in order; the plan keeps what it reads.
  Planner(const GraphDesc& graph, std::vector<std::shared_ptr<void>> constants);

  std::shared_ptr<const Plan> Run();

  // For the builders of nodes.

  const Dims& shape(int tensor) const { return graph_.shapes[tensor]; }
  dnnl_data_type_t type(int tensor) const { return ElementType(graph_.dtypes[tensor]); }
  // The tensor as callers and constants have it: row-major.
  MemDesc Plain(int tensor) const { return MemDesc::Plain(shape(tensor), type(tensor)); }
  bool IsConstant(int tensor) const { return is_constant_[tensor]; }
  // The layout in which the tensor was produced; a plain one for a part of another.
  MemDesc Layout(int tensor) const;
  // The tensor in that layout.
  Value Any(int tensor) { return Require(tensor, Layout(tensor)); }
  // The same, but a part stays where it is: for what reads numbers with gaps as fast.
  const Value& AsItLies(int tensor) const { return values_[tensor].front(); }
  // The tensor in layout `desc`, by a reorder if need be.
  Value Require(int tensor, const MemDesc& desc);
  // The same for a value whose shape is not its tensor's own (grouped weights).
  Value RequireFrom(const Value& from, const MemDesc& desc);
  // A buffer with this one number.
  int NewConstant(int32_t value);
  // Memory for a result; the caller's own output where layout and shape allow.
  Value NewResult(int tensor, const MemDesc& desc);
  // A buffer with the tensor's data in layout `desc` that the current node may overwrite: the
  // tensor's own when nobody needs it afterwards, else a copy.
  Value RequireWritable(int tensor, const MemDesc& desc, int for_result);
  // Where an elementwise result of `value` goes: over it when nobody needs it later.
  Value ResultOver(int tensor, const Value& value, int result);
  void Define(int tensor, const Value& value) { values_[tensor].push_back(value); }
  // Memory for a result in layout `desc` of which the parts are consecutive pieces, whose steps
  // write them there: those that can lie there do, the others are copied. False where there is
  // nothing to gain, and nothing is done.
  bool DefineInPlace(int tensor, const MemDesc& desc, const std::vector<Value>& parts,
                     const std::string& what);
  // A value's numbers in the type of a result, laid out plainly.
  Value Convert(const Value& from, int result);
  // Makes `tensor` a view of `source`, which has the memory of value.
  void DefineView(int tensor, int source, const Value& value);
  const GraphDesc& graph() const { return graph_; }
  // The primitive that create makes, by the implementation that the node names of this form, else
  // by oneDNN's first. See kernels.h.
  PrimitiveDesc Choose(const NodeDesc& node, const std::string& form,
                       const std::function<PrimitiveDesc()>& create);
  // From now on builders note the kernels that there are, but for reference code.
  void NoteKernels(std::vector<std::string>* names) { noted_ = names; }
  void NoteKernel(const std::string& name);
  void NoteKernel(const std::string& form, const PrimitiveDesc& pd);
  // Adds a step that runs pd's primitive.
  void Emit(PrimitiveDesc pd, std::vector<StepArg> args, const std::string& what);
  // Adds a step that runs code of ours.
  void Emit(OwnKernel kernel, std::vector<StepArg> args, const std::string& what);
  // A constant's numbers in layout desc, which only the caller keeps.
  std::shared_ptr<void> CopyConstant(const Value& from, const MemDesc& desc) const;
  // Threads that the current node's steps run on where the caller is the one that plans.
  int NumThreads() const;
  // Whether a value's numbers are known when planning.
  bool IsConstant(const Value& value) const {
    return plan_->buffers[value.buffer].place == Place::kConstant;
  }

 private:
  int NewBuffer(Place place, int64_t bytes, int index = 0);
  void Build(const NodeDesc& node);
  void Add(Step step);
  Value Reorder(const Value& from, const MemDesc& desc, int buffer);
  bool IsOver(int tensor, const Value& value) const;
  int Keep(std::shared_ptr<void> constant, int64_t bytes);
  Value PackConstant(const Value& from, const MemDesc& desc);
  int CallOf(int tensor) const;
  void StoreOutputs();

  const GraphDesc& graph_;
  std::shared_ptr<Plan> plan_;
  std::vector<std::vector<Value>> values_;  // by tensor: the same data in several layouts
  std::vector<bool> is_constant_;
  std::vector<int> root_;                      // of a view: the tensor whose memory it is
  std::vector<int> uses_left_;                 // of a root: nodes and outputs that still read it
  std::vector<std::string>* noted_ = nullptr;  // where kernels are noted
  int call_ = -1;                              // which the current node's steps are of
  bool is_small_ = false;                      // whether the current node's steps run on one thread
  std::vector<int> output_buffer_;             // by tensor: caller's buffer to write into, or -1
};

// Adds the steps of one node.
using NodeBuilder = void (*)(Planner*, const NodeDesc&);

// Throws unless a node is such as its builder can take; needs no library.
using NodeCheck = void (*)(const partition::NodeChecks&);

// Checks all tensors and nodes of a description, its post-ops too.
void CheckGraph(const GraphDesc& graph);

// Called by ops_*.cc from static initialisers.
bool RegisterNode(const std::string& kind, NodeCheck check, NodeBuilder builder);

}  // namespace tvm::collage::onednn
