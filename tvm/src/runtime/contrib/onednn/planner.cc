// SPDX-License-Identifier: Apache-2.0
#include "planner.h"

#include <tvm/runtime/logging.h>
#include <tvm/runtime/threading_backend.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "../partition/thread_pool.h"
#include "kernels.h"
#include "nested_buffers.h"
#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

struct NodeKind {
  NodeCheck check;
  NodeBuilder build;
};

std::map<std::string, NodeKind>& NodeKinds() {
  static auto* kinds = new std::map<std::string, NodeKind>();
  return *kinds;
}

// An error that lists the known ones when there is none of that name.
const NodeKind& GetNodeKind(const std::string& kind) {
  const auto found = NodeKinds().find(kind);
  if (found == NodeKinds().end()) {
    std::ostringstream known;
    for (const auto& entry : NodeKinds()) known << " " << entry.first;
    partition::Refuse("oneDNN: unknown operation '" + kind + "'; known:" + known.str());
  }
  return found->second;
}

// Runs a reorder now; planning is not time-critical.
void ReorderNow(const MemDesc& from, void* source, const MemDesc& to, void* target) {
  const Api& api = GetApi();
  PrimitiveDesc pd;
  CheckStatus(api.reorder_primitive_desc_create(pd.out(), from.get(), api.engine, to.get(),
                                                api.engine, nullptr),
              "packing a constant");
  Primitive primitive;
  Memory source_memory, target_memory;
  Stream stream;
  CheckStatus(api.primitive_create(primitive.out(), pd.get()), "packing a constant");
  CheckStatus(api.memory_create(source_memory.out(), from.get(), api.engine, source), "memory");
  CheckStatus(api.memory_create(target_memory.out(), to.get(), api.engine, target), "memory");
  CheckStatus(api.stream_create(stream.out(), api.engine, dnnl_stream_default_flags), "stream");
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source_memory.get()},
                                  {DNNL_ARG_TO, target_memory.get()}};
  CheckStatus(api.primitive_execute(primitive.get(), stream.get(), 2, args), "packing a constant");
}

// Multiplications and additions of a node that adds products; 0 for others.
int64_t Operations(const GraphDesc& graph, const NodeDesc& node) {
  const auto shape = [&](int tensor) -> const Dims& { return graph.shapes[tensor]; };
  const int64_t results = partition::NumElements(shape(node.output));
  if (node.kind == "inner_product") return 2 * results * shape(node.inputs[0]).back();
  if (node.kind == "matmul") {
    const Dims& a = shape(node.inputs[0]);
    return 2 * results * a[a.size() - (node.Int("transpose_a") ? 2 : 1)];
  }
  if (node.kind != "conv" && node.kind != "deconv") return 0;
  // Each number of the side that has the windows' corners meets all weights of its channel.
  const Dims& corners = shape(node.kind == "conv" ? node.output : node.inputs[0]);
  const int64_t channels = corners[node.Str("data_layout").find('C')];
  const int64_t weights = partition::NumElements(shape(node.inputs[1]));
  return 2 * partition::NumElements(corners) * (weights / std::max<int64_t>(channels, 1));
}

// What a node reads and writes at least.
int64_t BytesMoved(const GraphDesc& graph, const NodeDesc& node) {
  const auto bytes = [&](int tensor) {
    return partition::NumElements(graph.shapes[tensor]) * graph.dtypes[tensor].bytes();
  };
  int64_t sum = bytes(node.output);
  for (int tensor : node.inputs) sum += bytes(tensor);
  for (const PostOpDesc& op : node.post_ops) sum += op.input >= 0 ? bytes(op.input) : 0;
  return sum;
}

bool MultipliesBytes(const Step& step) {
  bool has_weights = false, has_bytes = false;
  for (const StepArg& arg : step.args) {
    has_weights = has_weights || arg.arg == DNNL_ARG_WEIGHTS;
    const dnnl_data_type_t type = arg.desc.type();
    has_bytes = has_bytes || (arg.arg == DNNL_ARG_SRC && (type == dnnl_s8 || type == dnnl_u8));
  }
  return has_weights && has_bytes;
}

}  // namespace

Planner::Planner(const GraphDesc& graph, std::vector<std::shared_ptr<void>> constants)
    : graph_(graph),
      plan_(std::make_shared<Plan>()),
      values_(graph.shapes.size()),
      is_constant_(graph.shapes.size(), false),
      root_(graph.shapes.size()),
      uses_left_(graph.shapes.size(), 0),
      output_buffer_(graph.shapes.size(), -1) {
  ICHECK_EQ(constants.size(), graph.constants.size());
  for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<int>(i);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const MemDesc desc = Plain(graph.inputs[i]);
    Define(graph.inputs[i], {desc, NewBuffer(Place::kInput, desc.Bytes(), static_cast<int>(i))});
  }
  for (size_t i = 0; i < graph.constants.size(); ++i) {
    const MemDesc desc = Plain(graph.constants[i]);
    is_constant_[graph.constants[i]] = true;
    Define(graph.constants[i], {desc, Keep(std::move(constants[i]), desc.Bytes())});
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const int tensor = graph.outputs[i];
    const int buffer = NewBuffer(Place::kOutput, Plain(tensor).Bytes(), static_cast<int>(i));
    if (output_buffer_[tensor] < 0) output_buffer_[tensor] = buffer;
    ++uses_left_[tensor];
  }
  for (const NodeDesc& node : graph.nodes) {
    for (int tensor : node.inputs) ++uses_left_[tensor];
    for (const PostOpDesc& op : node.post_ops) {
      if (op.input >= 0) ++uses_left_[op.input];
    }
  }
}

std::shared_ptr<const Plan> Planner::Run() {
  for (const NodeDesc& node : graph_.nodes) {
    Build(node);
    const MemDesc& result = AsItLies(node.output).desc;
    if (result.dims() != shape(node.output) || result.type() != type(node.output)) {
      LOG(FATAL) << "ValueError: oneDNN: " << Summary(graph_, node)
                 << ": its result has another shape or type";
    }
    for (int tensor : node.inputs) --uses_left_[root_[tensor]];
    for (const PostOpDesc& op : node.post_ops) {
      if (op.input >= 0) --uses_left_[root_[op.input]];
    }
  }
  StoreOutputs();
  AssignMemory(plan_.get());
  return std::move(plan_);
}

void Planner::Build(const NodeDesc& node) {
  call_ = node.call;
  is_small_ = graph_.one_thread ||
              partition::IsSmallWork(Operations(graph_, node), BytesMoved(graph_, node));
  const ScopedOneThread one_thread(is_small_);  // primitives keep the number that they are made for
  const size_t first = plan_->steps.size();
  GetNodeKind(node.kind).build(this, node);
  const auto measured = node.strings.find("measured");
  if (measured == node.strings.end()) return;
  for (size_t i = first; i < plan_->steps.size(); ++i) {
    std::string& summary = plan_->steps[i].summary;
    if (summary.rfind(node.kind, 0) != 0) continue;  // a reorder before it, a post-op behind it
    summary += "; measured: " + measured->second;
    return;
  }
}

void Planner::NoteKernel(const std::string& name) {
  if (noted_ && std::find(noted_->begin(), noted_->end(), name) == noted_->end()) {
    noted_->push_back(name);
  }
}

void Planner::NoteKernel(const std::string& form, const PrimitiveDesc& pd) {
  // Reference code is listed where it is what runs, to be measured beside what else there is.
  if (!noted_ || (IsReferenceCode(pd) && !noted_->empty())) return;
  NoteKernel(KernelName(form, Implementation(pd)));
}

PrimitiveDesc Planner::Choose(const NodeDesc& node, const std::string& form,
                              const std::function<PrimitiveDesc()>& create) {
  const auto has_next = [](const PrimitiveDesc& pd) {
    return GetApi().primitive_desc_next_impl(pd.get()) == dnnl_success;
  };
  PrimitiveDesc pd = create();
  if (noted_) {
    PrimitiveDesc each = create();
    std::set<std::string> families;  // code for lesser instructions follows that for the CPU's
    do {
      const std::string name = Implementation(each);
      const bool is_first = families.insert(name.substr(0, name.find(':'))).second;
      if (is_first) NoteKernel(form, each);
    } while (has_next(each));
  }
  const std::string named = KernelOf(node).implementation;
  if (named.empty() || named == Implementation(pd)) return pd;
  while (has_next(pd)) {
    if (Implementation(pd) == named) return pd;
  }
  return create();  // another oneDNN, or another CPU, has none of that name
}

int Planner::NumThreads() const { return is_small_ ? 1 : runtime::threading::NumThreads(); }

void Planner::Add(Step step) {
  step.is_small = is_small_;
  step.call = call_;
  if (is_small_) step.summary += " (one thread)";
  plan_->scratch_bytes = std::max(plan_->scratch_bytes, step.scratch_bytes);
  plan_->steps.push_back(std::move(step));
}

int Planner::NewBuffer(Place place, int64_t bytes, int index) {
  Buffer buffer;
  buffer.place = place;
  buffer.bytes = bytes;
  buffer.index = index;
  plan_->buffers.push_back(buffer);
  return static_cast<int>(plan_->buffers.size()) - 1;
}

Value Planner::NewResult(int tensor, const MemDesc& desc) {
  const int output = output_buffer_[tensor];
  if (output >= 0 && desc == Plain(tensor)) return {desc, output};
  return {desc, NewBuffer(Place::kArena, desc.Bytes())};
}

Value Planner::Reorder(const Value& from, const MemDesc& desc, int buffer) {
  const Api& api = GetApi();
  PrimitiveDesc pd;
  PrimitiveAttr attr = NewAttr();
  CheckStatus(api.reorder_primitive_desc_create(pd.out(), from.desc.get(), api.engine, desc.get(),
                                                api.engine, attr.get()),
              "reorder");
  Emit(std::move(pd), {{DNNL_ARG_FROM, from.desc, from.buffer}, {DNNL_ARG_TO, desc, buffer}},
       "reorder");
  return {desc, buffer};
}

int Planner::Keep(std::shared_ptr<void> constant, int64_t bytes) {
  const int buffer = NewBuffer(Place::kConstant, bytes);
  plan_->buffers[buffer].constant = std::move(constant);
  return buffer;
}

int Planner::NewConstant(int32_t value) {
  std::shared_ptr<void> data = AllocateAligned(sizeof(value));
  *static_cast<int32_t*>(data.get()) = value;
  return Keep(std::move(data), sizeof(value));
}

std::shared_ptr<void> Planner::CopyConstant(const Value& from, const MemDesc& desc) const {
  ICHECK(IsConstant(from));
  std::shared_ptr<void> copy = AllocateAligned(desc.Bytes());
  ReorderNow(from.desc, plan_->buffers[from.buffer].constant.get(), desc, copy.get());
  return copy;
}

Value Planner::PackConstant(const Value& from, const MemDesc& desc) {
  return {desc, Keep(CopyConstant(from, desc), desc.Bytes())};
}

Value Planner::RequireFrom(const Value& from, const MemDesc& desc) {
  if (from.desc == desc) return {desc, from.buffer};
  if (IsConstant(from)) return PackConstant(from, desc);
  return Reorder(from, desc, NewBuffer(Place::kArena, desc.Bytes()));
}

MemDesc Planner::Layout(int tensor) const {
  for (const Value& value : values_[tensor]) {  // some may be of another type, for one reader
    if (value.desc.IsWhole() && value.desc.type() == type(tensor)) return value.desc;
  }
  return Plain(tensor);
}

Value Planner::Require(int tensor, const MemDesc& desc) {
  for (const Value& value : values_[tensor]) {
    if (value.desc == desc) return value;
  }
  values_[tensor].push_back(RequireFrom(AsItLies(tensor), desc));
  return values_[tensor].back();
}

Value Planner::RequireWritable(int tensor, const MemDesc& desc, int for_result) {
  for (const Value& value : values_[tensor]) {
    if (value.desc == desc && IsOver(tensor, value)) return value;
  }
  return Reorder(AsItLies(tensor), desc, NewResult(for_result, desc).buffer);
}

Value Planner::Convert(const Value& from, int result) {
  const MemDesc desc = Plain(result);
  return Reorder(from, desc, NewResult(result, desc).buffer);
}

Value Planner::ResultOver(int tensor, const Value& value, int result) {
  if (output_buffer_[result] < 0 && IsOver(tensor, value)) return value;
  return NewResult(result, value.desc);
}

// Whether nobody needs a value behind the current node.
bool Planner::IsOver(int tensor, const Value& value) const {
  const Buffer& buffer = plan_->buffers[value.buffer];
  return uses_left_[root_[tensor]] == 1 && buffer.place == Place::kArena && !buffer.is_shared();
}

bool Planner::DefineInPlace(int tensor, const MemDesc& desc, const std::vector<Value>& parts,
                            const std::string& what) {
  std::vector<BufferPlace> pieces;
  int64_t end = 0;
  for (const Value& part : parts) {
    pieces.push_back({part.buffer, end});
    end += part.desc.Bytes();
  }
  if (output_buffer_[tensor] >= 0 || end != desc.Bytes()) return false;
  const Value whole{desc, NewBuffer(Place::kArena, end)};
  const std::vector<bool> is_nested = Nest(&plan_->buffers, whole.buffer, pieces);
  if (std::find(is_nested.begin(), is_nested.end(), true) == is_nested.end()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (is_nested[i]) continue;
    const int copy = NewBuffer(Place::kArena, parts[i].desc.Bytes());
    plan_->buffers[copy].inside = whole.buffer;
    plan_->buffers[copy].begin = pieces[i].begin;
    plan_->buffers[whole.buffer].parts.push_back(copy);
    Reorder(parts[i], parts[i].desc, copy);
  }
  plan_->without_step.push_back(what + " in place");
  Define(tensor, whole);
  return true;
}

void Planner::DefineView(int tensor, int source, const Value& value) {
  root_[tensor] = root_[source];
  uses_left_[root_[source]] += uses_left_[tensor];
  is_constant_[tensor] = is_constant_[source];
  Define(tensor, value);
}

void Planner::Emit(PrimitiveDesc pd, std::vector<StepArg> args, const std::string& what) {
  const Api& api = GetApi();
  Step step;
  step.args = std::move(args);
  CheckStatus(api.primitive_create(step.primitive.out(), pd.get()), what);
  step.scratch_desc = MemDesc::Query(pd, dnnl_query_scratchpad_md);
  step.scratch_bytes = step.scratch_desc.Bytes();
  const std::string implementation = Implementation(pd);
  if (MultipliesBytes(step)) CheckBytesAreExact(implementation, what);
  step.summary = what + " by " + implementation;
  if (IsReferenceCode(pd)) step.summary += " (reference code)";
  Add(std::move(step));
}

void Planner::Emit(OwnKernel kernel, std::vector<StepArg> args, const std::string& what) {
  Step step;
  step.scratch_bytes = kernel.scratch_bytes(NumThreads());
  step.own_kernel = std::move(kernel);
  step.args = std::move(args);
  step.summary = what;
  Add(std::move(step));
}

// The call that a tensor is the result of; -1 for an input, a constant, or what no call gave.
int Planner::CallOf(int tensor) const {
  for (const NodeDesc& node : graph_.nodes) {
    if (node.output == tensor) return node.call;
  }
  return -1;
}

void Planner::StoreOutputs() {
  for (size_t target = 0; target < plan_->buffers.size(); ++target) {
    if (plan_->buffers[target].place != Place::kOutput) continue;
    const int tensor = graph_.outputs[plan_->buffers[target].index];
    const bool is_there =
        std::any_of(values_[tensor].begin(), values_[tensor].end(),
                    [&](const Value& value) { return value.buffer == static_cast<int>(target); });
    if (is_there) continue;
    call_ = CallOf(tensor);
    is_small_ = graph_.one_thread || partition::IsSmallWork(0, 2 * plan_->buffers[target].bytes);
    const ScopedOneThread one_thread(is_small_);
    Reorder(AsItLies(tensor), Plain(tensor), static_cast<int>(target));
  }
}

void CheckGraph(const GraphDesc& graph) {
  for (runtime::DataType type : graph.dtypes) ElementType(type);
  for (size_t i = 0; i < graph.shapes.size(); ++i) {
    const Dims& dims = graph.shapes[i];
    ICHECK(!dims.empty()) << "oneDNN knows no rank 0";
    // Some kernels of oneDNN's, and of ours, divide by extents.
    if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
      partition::Refuse("tensor " + std::to_string(i) +
                        " has no elements: " + partition::ShapeText(dims));
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const partition::NodeChecks checks(graph, i);
    GetNodeKind(graph.nodes[i].kind).check(checks);
    CheckPostOps(checks);
    CheckKernel(checks);
  }
}

bool RegisterNode(const std::string& kind, NodeCheck check, NodeBuilder builder) {
  return NodeKinds().emplace(kind, NodeKind{check, builder}).second;
}

}  // namespace tvm::collage::onednn
