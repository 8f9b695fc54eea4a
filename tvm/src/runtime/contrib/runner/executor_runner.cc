// SPDX-License-Identifier: Apache-2.0
// The runner of a library of TVM's graph or AOT executor.
//
// An input whose memory is aligned is read where it lies, if the executor can be pointed to it;
// others are copied. Precondition: nobody else uses the executor, since TVM keeps the addresses.
// Test: tvm_collage/test_runner.py.
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runner.h"

namespace tvm::collage::runner {
namespace {

using runtime::Map;
using runtime::Module;
using runtime::NDArray;
using runtime::ObjectRef;
using runtime::PackedFunc;
using runtime::String;

// Name and index of each input that is no parameter, by index.
using Names = std::vector<std::pair<int, std::string>>;

bool IsAligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % runtime::kAllocAlignment == 0;
}

class ExecutorRunner final : public Runner {
 public:
  ExecutorRunner(Module executor, const Names& names, bool can_point)
      : run_(executor.GetFunction("run")),  // functions keep the executor
        point_(executor.GetFunction("set_input_zero_copy")) {
    const PackedFunc get_input = executor.GetFunction("get_input");
    for (const auto& [index, name] : names) {
      Input input{index, get_input(index), nullptr, nullptr};
      inputs.push_back({name, input.tensor.Shape(), input.tensor.DataType()});
      input.own = input.tensor->data;
      if (can_point && FollowsPointer(input, inputs.back())) input.pointed_to = input.own;
      inputs_.push_back(std::move(input));
    }
    const int num_outputs = executor.GetFunction("get_num_outputs")();
    const PackedFunc get_output = executor.GetFunction("get_output");
    for (int i = 0; i < num_outputs; ++i) {
      outputs_.push_back(get_output(i));
      outputs.push_back(
          {"output_" + std::to_string(i), outputs_.back().Shape(), outputs_.back().DataType()});
    }
  }

  void Run(void* const* in, void* const* out) final {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      void* data = in[i];
      if (!input.pointed_to || !IsAligned(data)) {
        std::memcpy(input.own, data, inputs[i].Bytes());
        data = input.own;
      }
      if (input.pointed_to && input.pointed_to != data) {
        Point(input.index, inputs[i], data);
        input.pointed_to = data;
      }
    }
    run_();
    for (size_t i = 0; i < outputs_.size(); ++i) {
      std::memcpy(out[i], outputs_[i]->data, outputs[i].Bytes());
    }
  }

 private:
  struct Input {
    int index;
    NDArray tensor;    // the executor's
    void* own;         // the executor's memory for it
    void* pointed_to;  // what it reads; null when it always reads its own
  };

  void Point(int index, const TensorInfo& info, void* data) const {
    DLTensor view = info.View(data);
    point_(index, &view);
  }

  // The graph executor ignores the request for an input that no operator reads, which an output
  // may be all the same.
  bool FollowsPointer(const Input& input, const TensorInfo& info) const {
    Point(input.index, info, static_cast<char*>(input.own) + runtime::kAllocAlignment);
    const bool follows = input.tensor->data != input.own;
    Point(input.index, info, input.own);
    return follows;
  }

  const PackedFunc run_;
  const PackedFunc point_;
  std::vector<Input> inputs_;
  std::vector<NDArray> outputs_;
};

Names InputsOfAot(Module executor) {
  const int count = executor.GetFunction("get_num_inputs")();
  const PackedFunc get_name = executor.GetFunction("get_input_name");
  Names names;
  for (int i = 0; i < count; ++i) names.emplace_back(i, get_name(i).operator std::string());
  return names;
}

Names InputsOfGraph(Module factory, Module executor) {
  const Map<String, NDArray> params = factory.GetFunction("get_graph_params")();
  const Map<String, ObjectRef> info = executor.GetFunction("get_input_info")();
  const PackedFunc index_of = executor.GetFunction("get_input_index");
  Names names;
  int num_params = 0;
  for (const auto& [name, shape] : runtime::Downcast<Map<String, ObjectRef>>(info["shape"])) {
    const bool is_param = params.count(name) != 0;
    num_params += is_param;
    if (!is_param) names.emplace_back(index_of(name).operator int(), name);
  }
  std::sort(names.begin(), names.end());
  const int num_inputs = executor.GetFunction("get_num_inputs")();
  if (static_cast<int>(names.size()) + num_params != num_inputs) {
    LOG(FATAL) << "ValueError: inputs of the model, or an input and a constant (TVM calls them p0, "
                  "p1, ...), have the same name: rename the inputs and build again";
  }
  return names;
}

}  // namespace

std::unique_ptr<Runner> MakeExecutorRunner(Module factory, const std::string& name) {
  const std::string kind = factory->type_key();
  const bool is_graph = kind == "GraphExecutorFactory";
  if (!is_graph && kind != "AotExecutorFactory") {
    LOG(FATAL) << "ValueError: a runner takes a library of the graph or AOT executor as "
                  "relay.build makes it, got a module of kind "
               << kind;
  }
  const PackedFunc create = factory.GetFunction(name);
  if (create == nullptr) {
    LOG(FATAL) << "ValueError: the library holds no model named '" << name
               << "': give the mod_name that it was built under";
  }
  Module executor = create(Device{kDLCPU, 0});
  const Names names = is_graph ? InputsOfGraph(factory, executor) : InputsOfAot(executor);
  return std::make_unique<ExecutorRunner>(executor, names, is_graph);
}

}  // namespace tvm::collage::runner
