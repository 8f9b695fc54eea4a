// SPDX-License-Identifier: Apache-2.0
// What runs an ONNX model: the one class between the runtime module and a library.
// Test: backends/onnx_model/test_backend.py.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tvm::collage::onnx_model {

// ONNX's number of an element type that models may have here; 0 for any other.
int OnnxElementType(DLDataType dtype);

// The element type of that name, as in "float16"; of no bits where OnnxElementType has none.
DLDataType ElementTypeOfName(const std::string& name);

// An input or output: compact, of static shape.
struct TensorSpec {
  DLDataType dtype;
  std::vector<int64_t> shape;

  int64_t NumElements() const;
  size_t NumBytes() const;
  bool operator==(const TensorSpec& other) const;
};

// Whose threads a model runs on, where its library lets us say; a byte of saved models.
enum class Threads : uint8_t {
  kOwn = 0,     // asleep between calls
  kAwake = 1,   // its own; nothing else computes in what is deployed
  kShared = 2,  // those of all such models, since it has few operators
  kNone = 3,    // its plan was measured to run on the caller's alone
};

// An ONNX model with inputs named input_0, ... and outputs named output_0, ...
struct Model {
  std::string symbol;  // names the part in errors
  std::string bytes;   // a serialised ModelProto, weights included
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  Threads threads = Threads::kOwn;
};

// Outputs in memory of the library that computed them, which lives as long as they do.
struct Results {
  virtual ~Results() = default;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<const void*> data;
};

// A model that is ready to run. Several threads may run it at once.
class Engine {
 public:
  virtual ~Engine() = default;
  // Computes the outputs in place; data in the order of the model's specs.
  virtual void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) = 0;
  // Computes outputs of inputs that may have other shapes than the model's specs.
  virtual std::unique_ptr<Results> RunOnAny(const std::vector<TensorSpec>& specs,
                                            const std::vector<void*>& inputs);
  // How many threads beside the caller's may turn for a while after a run.
  virtual int ThreadsThatTurn() const = 0;
};

// The memory of a call, in the order of a model's specs.
struct Tensors {
  std::vector<void*> inputs, outputs;
};

// A library that runs models.
struct EngineKind {
  std::function<std::unique_ptr<Engine>(const Model&, int num_threads)> create;
  std::function<std::string()> why_unavailable;  // "" when it can be used; never throws
  std::function<std::string()> version;
  // Runs a model so often, after one run more, in an engine of its own that times each of its
  // steps. Gives what the library tells of them, which Backend.profiled_steps reads in Python.
  std::function<std::string(const Model&, int num_threads, const Tensors&, int runs)> profile;
  // Throws for a model that the library cannot read; makes no threads. Absent where whoever made
  // the model has asked the library itself.
  std::function<void(const Model&)> check_reads;
};

// The library of that name; throws an error that lists the known ones.
const EngineKind& GetEngineKind(const std::string& name);

EngineKind OnnxRuntimeEngineKind();
EngineKind OpenVinoEngineKind();
// OpenVINO computing in bfloat16; inputs and outputs stay what they are.
EngineKind OpenVinoBf16EngineKind();

}  // namespace tvm::collage::onnx_model
