// SPDX-License-Identifier: Apache-2.0
// Runs one ONNX node that TVM's own code calls: the operator `collage.onnx_node`
// (ops/onnx_node.py).
//
// `collage.onnx_model.run_node(library, digest, model, threads, number of inputs, inputs...,
// outputs...)` takes the node's model as hexadecimal digits, since a text in compiled code holds no
// zero bytes, and a digest of it, by which what runs it is found: that is made at its first call,
// and kept. `collage.onnx_model.tell_shapes` takes the same, with vectors for the outputs' shapes.
// It has to run the node for them, so that the call which follows finds the outputs computed.
// Test: ops/test_onnx_node.py.
#include <dlpack/dlpack.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../partition/checked_data.h"
#include "../partition/thread_pool.h"
#include "engine.h"

namespace tvm::collage::onnx_model {
namespace {

using runtime::TVMArgs;
using runtime::TVMRetValue;

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  ICHECK(c >= 'a' && c <= 'f') << "the model of an ONNX node is not hexadecimal";
  return c - 'a' + 10;
}

std::string BytesOf(const std::string& digits) {
  ICHECK_EQ(digits.size() % 2, 0U) << "the model of an ONNX node is cut short";
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(DigitOf(digits[i]) * 16 + DigitOf(digits[i + 1])));
  }
  return bytes;
}

// What is called: a node with its tensors, inputs first.
struct NodeCall {
  std::vector<TensorSpec> input_specs, output_specs;
  std::vector<void*> inputs, outputs;
};

// A node's outputs on the way from a call for their shapes to the call that wants them.
struct Waiting {
  std::vector<void*> inputs;
  std::unique_ptr<Results> results;
};

class Node {
 public:
  Node(std::string library, const std::string& digits, Threads threads, const NodeCall& first) {
    model_.symbol = "an ONNX node";
    model_.bytes = BytesOf(digits);
    model_.threads = threads;
    model_.inputs = first.input_specs;
    model_.outputs = first.output_specs;
    const runtime::PackedFunc* num_threads = runtime::Registry::Get("runtime.NumThreads");
    ICHECK(num_threads) << "TVM's runtime lacks runtime.NumThreads";
    const int count = threads == Threads::kNone ? 1 : (*num_threads)();
    engine_ = GetEngineKind(library).create(model_, count);
    std::string().swap(model_.bytes);
  }

  void Run(const NodeCall& call) {
    std::unique_ptr<Results> results = Take(call);
    if (!results) {
      if (model_.inputs == call.input_specs && model_.outputs == call.output_specs) {
        engine_->Run(call.inputs, call.outputs);
        return;
      }
      results = engine_->RunOnAny(call.input_specs, call.inputs);
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const TensorSpec& spec = call.output_specs[i];
      ICHECK(results->shapes[i] == spec.shape) << "an ONNX node gives output " << i << " a shape "
                                               << "other than that which its caller expects";
      std::memcpy(call.outputs[i], results->data[i], spec.NumBytes());
    }
  }

  // Writes the outputs' shapes, each into a vector of int64, and keeps the outputs.
  void TellShapes(const NodeCall& call) {
    std::unique_ptr<Results> results = engine_->RunOnAny(call.input_specs, call.inputs);
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const std::vector<int64_t>& shape = results->shapes[i];
      const std::vector<int64_t>& vector = call.output_specs[i].shape;
      ICHECK_EQ(static_cast<int64_t>(shape.size()), vector.empty() ? 0 : vector[0])
          << "the rank of an ONNX node's output";
      auto* extents = static_cast<int64_t*>(call.outputs[i]);
      std::copy(shape.begin(), shape.end(), extents);
      // The VM takes the product of what stands here as the number of elements.
      if (shape.empty()) *extents = 1;
    }
    OfThread()[this] = {call.inputs, std::move(results)};
  }

 private:
  // A thread that asks for shapes then calls the node on the same memory, which nobody writes in
  // between, and asks again before each later call.
  static std::unordered_map<const Node*, Waiting>& OfThread() {
    static thread_local std::unordered_map<const Node*, Waiting> waiting;
    return waiting;
  }

  std::unique_ptr<Results> Take(const NodeCall& call) const {
    auto found = OfThread().find(this);
    if (found == OfThread().end()) return nullptr;
    Waiting waiting = std::move(found->second);
    OfThread().erase(found);
    return waiting.inputs == call.inputs ? std::move(waiting.results) : nullptr;
  }

  Model model_;
  std::unique_ptr<Engine> engine_;
};

struct Entry {
  std::once_flag once;
  std::unique_ptr<Node> node;
};

// The places of arguments in front of the tensors.
enum { kLibrary, kDigest, kModel, kThreads, kNumInputs, kTensors };

NodeCall CallOf(const TVMArgs& args) {
  NodeCall call;
  const int num_inputs = args[kNumInputs];
  for (int i = kTensors; i < args.size(); ++i) {
    const DLTensor* tensor = args[i];
    const int place = i - kTensors;
    const bool is_input = place < num_inputs;
    TensorSpec spec{tensor->dtype, {tensor->shape, tensor->shape + tensor->ndim}};
    void* data = partition::CheckedData(tensor, spec.shape, runtime::DataType(spec.dtype),
                                        "an ONNX node", is_input ? "input" : "output",
                                        is_input ? place : place - num_inputs);
    (is_input ? call.inputs : call.outputs).push_back(data);
    (is_input ? call.input_specs : call.output_specs).push_back(std::move(spec));
  }
  return call;
}

// The node that a call is of, which lives as long as the process.
Node& FindNode(const TVMArgs& args, const NodeCall& call) {
  const std::string library = args[kLibrary];
  const int threads = args[kThreads];
  const std::string key =
      library + ' ' + std::to_string(threads) + ' ' + args[kDigest].operator std::string();
  static std::mutex mutex;
  static auto* entries = new std::unordered_map<std::string, std::unique_ptr<Entry>>();
  Entry* entry = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Entry>& found = (*entries)[key];
    if (!found) found = std::make_unique<Entry>();
    entry = found.get();
  }
  std::call_once(entry->once, [&] {
    entry->node = std::make_unique<Node>(library, args[kModel].operator std::string(),
                                         static_cast<Threads>(threads), call);
  });
  return *entry->node;
}

void RunNode(TVMArgs args, TVMRetValue*) {
  partition::FollowFlushDenormals();
  const NodeCall call = CallOf(args);
  FindNode(args, call).Run(call);
}

void TellShapes(TVMArgs args, TVMRetValue*) {
  partition::FollowFlushDenormals();
  const NodeCall call = CallOf(args);
  FindNode(args, call).TellShapes(call);
}

// Why a library cannot read a model, "" where it can. The import has asked onnxruntime itself.
runtime::String WhyNotRead(const std::string& library, const std::string& digits) {
  const EngineKind& kind = GetEngineKind(library);
  if (!kind.check_reads) return "";
  Model model;
  model.symbol = "an ONNX node";
  model.bytes = BytesOf(digits);
  try {
    kind.check_reads(model);
  } catch (const runtime::InternalError& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.onnx_model.run_node").set_body(RunNode);
TVM_REGISTER_GLOBAL("collage.onnx_model.tell_shapes").set_body(TellShapes);
TVM_REGISTER_GLOBAL("collage.onnx_model.why_not_read")
    .set_body_typed([](runtime::String library, runtime::String digits) {
      return WhyNotRead(library, digits);
    });

}  // namespace tvm::collage::onnx_model
