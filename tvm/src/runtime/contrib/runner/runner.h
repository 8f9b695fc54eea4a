// SPDX-License-Identifier: Apache-2.0
// A compiled model as one call on raw memory: data in, run, data out.
//
// TVM's executors take a call for each tensor that is set or read, which Python pays for each time.
// Docs: docs/deploy.md.
// Test: tvm_collage/test_runner.py.
#pragma once

#include <tvm/runtime/container/shape_tuple.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/module.h>

#include <memory>
#include <string>
#include <vector>

namespace tvm::collage::runner {

// A tensor that a model takes or gives.
struct TensorInfo {
  std::string name;
  runtime::ShapeTuple shape;
  runtime::DataType dtype;

  size_t Bytes() const;
  // A view of memory of this shape; it may not outlive this.
  DLTensor View(void* data) const;
};

// A model ready to run; one caller at a time.
class Runner {
 public:
  virtual ~Runner() = default;
  // Runs once on compact tensors, in the order of inputs and outputs.
  //
  // Memory of inputs is only read, and only until this returns; outputs are written whole.
  virtual void Run(void* const* in, void* const* out) = 0;

  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
};

// Of a library of the graph or AOT executor that holds a model of that name, on the CPU.
//
// Throws a ValueError for a module of another kind, a wrong name, or inputs that share a name.
std::unique_ptr<Runner> MakeExecutorRunner(runtime::Module factory, const std::string& name);

// Of a function of an initialised Relay VM, which does not know its tensors' types.
std::unique_ptr<Runner> MakeVmRunner(runtime::Module machine, const std::string& function,
                                     std::vector<TensorInfo> inputs,
                                     std::vector<TensorInfo> outputs);

}  // namespace tvm::collage::runner
