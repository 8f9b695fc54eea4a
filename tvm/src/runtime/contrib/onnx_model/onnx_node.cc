// SPDX-License-Identifier: Apache-2.0
// Runs one ONNX node that TVM's own code calls: the operator `collage.onnx_node`
// (ops/onnx_node.py).
//
// `collage.onnx_model.run_node(library, model, number of inputs, inputs..., outputs...)` takes the
// node's model as hexadecimal digits, since a text in compiled code holds no zero bytes. What runs
// a model is made at its first call, and kept by its text and the types of its tensors.
// `collage.onnx_model.tell_shapes` takes the same, with vectors for the outputs' shapes.
// Tested by ops/test_onnx_node.py.
#include <dlpack/dlpack.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
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

struct Node {
  Model model;
  std::once_flag once;
  std::unique_ptr<Engine> engine;
};

// What is called: a node with its tensors, inputs first.
struct NodeCall {
  std::string library, digits;
  std::vector<const DLTensor*> inputs, outputs;
};

NodeCall CallOf(TVMArgs args) {
  partition::FollowFlushDenormals();
  NodeCall call{args[0], args[1], {}, {}};
  const int num_inputs = args[2];
  for (int i = 3; i < args.size(); ++i) {
    (i - 3 < num_inputs ? call.inputs : call.outputs).push_back(args[i].operator DLTensor*());
  }
  return call;
}

TensorSpec SpecOf(const DLTensor* tensor) {
  return {tensor->dtype, {tensor->shape, tensor->shape + tensor->ndim}};
}

// The node that a call is of, which lives as long as the process.
Node* FindNode(const NodeCall& call) {
  std::string key = call.library + ' ' + call.digits;
  for (const auto* tensors : {&call.inputs, &call.outputs}) {
    for (const DLTensor* tensor : *tensors) {
      key += ' ' + runtime::DLDataType2String(tensor->dtype);
      for (int i = 0; i < tensor->ndim; ++i) key += ' ' + std::to_string(tensor->shape[i]);
    }
  }
  static std::mutex mutex;
  static auto* nodes = new std::unordered_map<std::string, std::unique_ptr<Node>>();
  Node* node = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Node>& found = (*nodes)[key];
    if (!found) found = std::make_unique<Node>();
    node = found.get();
  }
  std::call_once(node->once, [&] {
    Model& model = node->model;
    model.symbol = "an ONNX node";
    model.bytes = BytesOf(call.digits);
    model.threads = Threads::kShared;
    for (const DLTensor* tensor : call.inputs) model.inputs.push_back(SpecOf(tensor));
    for (const DLTensor* tensor : call.outputs) model.outputs.push_back(SpecOf(tensor));
    const runtime::PackedFunc* num_threads = runtime::Registry::Get("runtime.NumThreads");
    ICHECK(num_threads) << "TVM's runtime lacks runtime.NumThreads";
    node->engine = GetEngineKind(call.library).create(model, (*num_threads)());
  });
  return node;
}

std::vector<void*> DataOf(const std::vector<const DLTensor*>& tensors, const char* role) {
  std::vector<void*> data;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec spec = SpecOf(tensors[i]);
    data.push_back(partition::CheckedData(tensors[i], spec.shape, runtime::DataType(spec.dtype),
                                          "an ONNX node", role, i));
  }
  return data;
}

void RunNode(TVMArgs args, TVMRetValue*) {
  const NodeCall call = CallOf(args);
  FindNode(call)->engine->Run(DataOf(call.inputs, "input"), DataOf(call.outputs, "output"));
}

// Writes the shapes of outputs, each into a vector of int64, where inputs decide about them.
void TellShapes(TVMArgs args, TVMRetValue*) {
  const NodeCall call = CallOf(args);
  const auto shapes = FindNode(call)->engine->OutputShapes(DataOf(call.inputs, "input"));
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const DLTensor* output = call.outputs[i];
    const int64_t rank = output->ndim == 0 ? 0 : output->shape[0];
    ICHECK_EQ(static_cast<int64_t>(shapes[i].size()), rank) << "the rank of an ONNX node's output";
    std::copy(shapes[i].begin(), shapes[i].end(), static_cast<int64_t*>(output->data));
  }
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
