// SPDX-License-Identifier: Apache-2.0
// Runners as modules of TVM, and the one C function that Python calls on arrays.
//
// `collage.runner.executor(factory, name)` and `collage.runner.vm(machine, function, inputs,
// outputs)` make a module with the functions inputs, outputs (an array of [name, shape, dtype]
// each), run(inputs..., outputs...) on tensors, and handle, which CollageRunnerCall takes. Calls of
// one runner wait for each other.
// Test: tvm_collage/test_runner.py.
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "../partition/checked_data.h"
#include "runner.h"

// src/runtime/runtime_base.h of TVM 0.19.0, exported: keeps the error for Python, answers -1.
int TVMAPIHandleException(const std::exception& error);

namespace tvm::collage::runner {
namespace {

using runtime::Array;
using runtime::ObjectPtr;
using runtime::ObjectRef;
using runtime::PackedFunc;
using runtime::ShapeTuple;
using runtime::String;
using runtime::TVMArgs;
using runtime::TVMRetValue;
using Infos = Array<Array<ObjectRef>>;

Infos ToArray(const std::vector<TensorInfo>& tensors) {
  Infos rows;
  for (const TensorInfo& each : tensors) {
    const std::string dtype = runtime::DLDataType2String(each.dtype);
    rows.push_back({String(each.name), each.shape, String(dtype)});
  }
  return rows;
}

std::vector<TensorInfo> FromArray(const Infos& rows) {
  std::vector<TensorInfo> tensors;
  for (const Array<ObjectRef>& row : rows) {
    const String dtype = runtime::Downcast<String>(row[2]);
    tensors.push_back({runtime::Downcast<String>(row[0]), runtime::Downcast<ShapeTuple>(row[1]),
                       runtime::DataType(runtime::String2DLDataType(dtype))});
  }
  return tensors;
}

// What a handle points to.
struct Shared {
  std::mutex mutex;
  std::atomic<std::thread::id> owner{};  // the thread that has it
  std::unique_ptr<Runner> runner;

  void Run(void* const* in, void* const* out) {
    const std::thread::id self = std::this_thread::get_id();
    if (owner == self) {
      LOG(FATAL) << "ValueError: a function that this runner calls has called the runner itself, "
                 << "which would wait for ever: make it a runner of its own";
    }
    std::lock_guard<std::mutex> lock(mutex);
    owner = self;
    std::unique_ptr<Shared, void (*)(Shared*)> release(
        this, [](Shared* s) { s->owner = std::thread::id(); });
    runner->Run(in, out);
  }
};

class RunnerModuleNode final : public runtime::ModuleNode {
 public:
  explicit RunnerModuleNode(std::unique_ptr<Runner> runner) { shared_.runner = std::move(runner); }

  const char* type_key() const final { return "collage.runner"; }
  int GetPropertyMask() const final { return runtime::ModulePropertyMask::kRunnable; }

  PackedFunc GetFunction(const String& name, const ObjectPtr<runtime::Object>& self) final {
    if (name == "inputs" || name == "outputs") {
      return PackedFunc([this, self, name](TVMArgs, TVMRetValue* rv) {
        *rv = ToArray(name == "inputs" ? shared_.runner->inputs : shared_.runner->outputs);
      });
    }
    if (name == "handle") {
      return PackedFunc(
          [this, self](TVMArgs, TVMRetValue* rv) { *rv = static_cast<void*>(&shared_); });
    }
    if (name == "run") {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue*) { Run(args); });
    }
    return PackedFunc(nullptr);
  }

 private:
  void Run(TVMArgs args) {
    const size_t num_inputs = shared_.runner->inputs.size();
    const size_t num_outputs = shared_.runner->outputs.size();
    if (static_cast<size_t>(args.size()) != num_inputs + num_outputs) {
      LOG(FATAL) << "ValueError: run takes " << num_inputs << " inputs, then " << num_outputs
                 << " outputs, got " << args.size() << " tensors";
    }
    std::vector<void*> data;
    for (size_t i = 0; i < num_inputs + num_outputs; ++i) {
      const bool is_input = i < num_inputs;
      const size_t index = is_input ? i : i - num_inputs;
      const TensorInfo& info =
          is_input ? shared_.runner->inputs[index] : shared_.runner->outputs[index];
      data.push_back(partition::CheckedData(args[i], {info.shape.begin(), info.shape.end()},
                                            info.dtype, "run", is_input ? "input" : "output",
                                            index));
    }
    shared_.Run(data.data(), data.data() + num_inputs);
  }

  Shared shared_;
};

runtime::Module ToModule(std::unique_ptr<Runner> runner) {
  return runtime::Module(runtime::make_object<RunnerModuleNode>(std::move(runner)));
}

TVM_REGISTER_GLOBAL("collage.runner.executor")
    .set_body_typed([](runtime::Module factory, String name) {
      return ToModule(MakeExecutorRunner(factory, name));
    });

TVM_REGISTER_GLOBAL("collage.runner.vm")
    .set_body_typed([](runtime::Module machine, String function, Infos inputs, Infos outputs) {
      return ToModule(MakeVmRunner(machine, function, FromArray(inputs), FromArray(outputs)));
    });

}  // namespace

size_t TensorInfo::Bytes() const {
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  return count * static_cast<size_t>(dtype.bytes() * dtype.lanes());
}

DLTensor TensorInfo::View(void* data) const {
  return {data,
          {kDLCPU, 0},
          static_cast<int>(shape.size()),
          dtype,
          const_cast<int64_t*>(shape.data()),
          nullptr,
          0};
}

}  // namespace tvm::collage::runner

// The functions of Python that CollageRunnerCall needs. The caller hands them over, since this
// library links no Python.
struct CollagePythonFunctions {
  void* (*list_item)(void* list, ptrdiff_t index);            // PyList_GetItem
  void* (*capsule_pointer)(void* capsule, const char* name);  // PyCapsule_GetPointer
  void* (*release_lock)();                                    // PyEval_SaveThread
  void (*take_lock)(void* state);                             // PyEval_RestoreThread
};

// Runs what a runner's function `handle` answered on a Python list that holds the
// `__array_struct__` of each input, then of each output, all compact and of the runner's types and
// shapes. Called with Python's lock, which it gives away while it runs. Answers 0, or -1 with TVM's
// last error set.
extern "C" TVM_DLL int CollageRunnerCall(void* handle, const CollagePythonFunctions* python,
                                         void* list) {
  // What the capsules hold, by numpy's array interface protocol.
  struct ArrayStruct {
    int two, nd;
    char kind;
    int item_bytes, flags;
    const intptr_t *shape, *strides;
    void* data;
  };
  auto* shared = static_cast<tvm::collage::runner::Shared*>(handle);
  const size_t num_inputs = shared->runner->inputs.size();
  std::vector<void*> addresses(num_inputs + shared->runner->outputs.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    void* capsule = python->list_item(list, static_cast<ptrdiff_t>(i));
    addresses[i] = static_cast<ArrayStruct*>(python->capsule_pointer(capsule, nullptr))->data;
  }
  void* const state = python->release_lock();
  int status = 0;
  try {
    shared->Run(addresses.data(), addresses.data() + num_inputs);
  } catch (const std::exception& error) {
    status = TVMAPIHandleException(error);
  }
  python->take_lock(state);
  return status;
}
