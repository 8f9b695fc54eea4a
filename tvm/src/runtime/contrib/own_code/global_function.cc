// SPDX-License-Identifier: Apache-2.0
// The kind of partition that a registered function runs: `collage.global_function.create`.
//
// The description's first node has the function's name ("function"), which is looked up at each
// call: the model file holds the name, the program that loads it registers the function (in Python
// by tvm.register_func).
// Test: backends/test_own_code.py.
#include <tvm/runtime/logging.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <utility>

#include "../partition/printable.h"
#include "own_code.h"

namespace tvm::collage::own_code {
namespace {

class GlobalFunctionProgram final : public partition::Program {
 public:
  GlobalFunctionProgram(const partition::GraphDesc& graph,
                        std::vector<std::shared_ptr<void>> constants)
      : operands_(graph, std::move(constants)), name_(AttributeOf(graph, "function")) {
    for (int tensor : operands_.tensors) {
      shapes_.push_back(graph.shapes[tensor]);
      dtypes_.push_back(graph.dtypes[tensor]);
    }
  }

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    const runtime::PackedFunc* function = runtime::Registry::Get(name_);
    if (!function) {
      LOG(FATAL) << "ValueError: a partition runs the function '" << partition::Printable(name_)
                 << "', which is not registered in this process: import the module that registers "
                    "it (tvm.register_func)";
    }
    std::vector<void*> data;
    operands_.Place(inputs, outputs, &data);
    std::vector<DLTensor> tensors(data.size());
    std::vector<TVMValue> values(data.size());
    std::vector<int> codes(data.size());
    runtime::TVMArgsSetter set(values.data(), codes.data());
    for (size_t i = 0; i < data.size(); ++i) {
      tensors[i].data = data[i];
      tensors[i].device = {kDLCPU, 0};
      tensors[i].ndim = static_cast<int>(shapes_[i].size());
      tensors[i].dtype = dtypes_[i];
      tensors[i].shape = const_cast<int64_t*>(shapes_[i].data());
      tensors[i].strides = nullptr;
      tensors[i].byte_offset = 0;
      set(i, &tensors[i]);
    }
    runtime::TVMRetValue ignored;
    function->CallPacked(runtime::TVMArgs(values.data(), codes.data(), data.size()), &ignored);
  }
  std::string Summary() const final { return "calls the registered function " + name_; }

 private:
  const Operands operands_;
  const std::string name_;
  std::vector<partition::Dims> shapes_;
  std::vector<runtime::DataType> dtypes_;
};

std::unique_ptr<partition::Program> Compile(const partition::GraphDesc& graph,
                                            std::vector<std::shared_ptr<void>> constants) {
  return std::make_unique<GlobalFunctionProgram>(graph, std::move(constants));
}

void Check(const partition::GraphDesc& graph) { AttributeOf(graph, "function"); }

[[maybe_unused]] const bool registered =
    partition::RegisterPartitionKind("global_function", Check, Compile);

}  // namespace
}  // namespace tvm::collage::own_code
