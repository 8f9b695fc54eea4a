// SPDX-License-Identifier: Apache-2.0
// The runner of a function of the Relay VM whose tensors have fixed shapes.
// Test: tvm_collage/test_runner.py.
#include <tvm/runtime/container/adt.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>

#include <cstring>
#include <utility>

#include "../partition/checked_data.h"
#include "runner.h"

namespace tvm::collage::runner {
namespace {

using runtime::ADT;
using runtime::NDArray;
using runtime::ObjectRef;

class VmRunner final : public Runner {
 public:
  VmRunner(runtime::Module machine, std::string function, std::vector<TensorInfo> in,
           std::vector<TensorInfo> out)
      : set_input_(machine.GetFunction("set_input")),  // functions keep the machine
        invoke_(machine.GetFunction("invoke")),
        function_(std::move(function)) {
    inputs = std::move(in);
    outputs = std::move(out);
  }

  void Run(void* const* in, void* const* out) final {
    const size_t count = inputs.size();
    std::vector<DLTensor> views(count);
    std::vector<TVMValue> values(count + 1);
    std::vector<int> codes(count + 1);
    runtime::TVMArgsSetter set(values.data(), codes.data());
    set(0, function_.c_str());
    for (size_t i = 0; i < count; ++i) {
      views[i] = inputs[i].View(in[i]);
      set(i + 1, &views[i]);  // the VM copies what is not aligned
    }
    runtime::TVMRetValue ignored;
    set_input_.CallPacked(runtime::TVMArgs(values.data(), codes.data(), count + 1), &ignored);
    const ObjectRef result = invoke_(function_);
    const auto* fields = result.as<runtime::ADTObj>();
    const size_t found = fields ? fields->size : 1;
    ICHECK_EQ(found, outputs.size()) << function_ << ": number of outputs";
    for (size_t i = 0; i < found; ++i) {
      const ObjectRef field = fields ? runtime::Downcast<ADT>(result)[i] : result;
      const NDArray tensor = runtime::Downcast<NDArray>(field);
      const TensorInfo& info = outputs[i];
      const void* data =
          partition::CheckedData(tensor.operator->(), {info.shape.begin(), info.shape.end()},
                                 info.dtype, function_, "output", i);
      std::memcpy(out[i], data, info.Bytes());
    }
  }

 private:
  const runtime::PackedFunc set_input_;
  const runtime::PackedFunc invoke_;
  const std::string function_;
};

}  // namespace

std::unique_ptr<Runner> MakeVmRunner(runtime::Module machine, const std::string& function,
                                     std::vector<TensorInfo> inputs,
                                     std::vector<TensorInfo> outputs) {
  return std::make_unique<VmRunner>(std::move(machine), function, std::move(inputs),
                                    std::move(outputs));
}

}  // namespace tvm::collage::runner
