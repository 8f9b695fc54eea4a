// SPDX-License-Identifier: Apache-2.0
/*!
 * \file partition_module.cc
 * \brief The module's faces towards TVM, and the checks of what callers pass.
 */
#include "partition_module.h"

#include <dmlc/memory_io.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "checked_data.h"
#include "thread_pool.h"

namespace tvm {
namespace collage {
namespace partition {
namespace {

using runtime::Array;
using runtime::ModuleNode;
using runtime::NDArray;
using runtime::ObjectPtr;
using runtime::PackedFunc;
using runtime::String;
using runtime::TVMArgs;
using runtime::TVMRetValue;

/*! \brief A kind of partitions; lives for ever, as modules refer to it. */
struct Kind {
  std::string type_key;
  Compile compile;
};

class PartitionModuleNode final : public ModuleNode {
 public:
  PartitionModuleNode(const Kind* kind, std::string symbol, std::string json,
                      std::vector<std::string> const_names)
      : kind_(kind),
        symbol_(std::move(symbol)),
        json_(std::move(json)),
        const_names_(std::move(const_names)),
        graph_(GraphDesc::FromJson(json_)) {
    ICHECK_EQ(const_names_.size(), graph_.constants.size()) << symbol_ << ": names of constants";
  }

  const char* type_key() const final { return kind_->type_key.c_str(); }
  int GetPropertyMask() const final {
    return runtime::ModulePropertyMask::kBinarySerializable |
           runtime::ModulePropertyMask::kRunnable;
  }
  String GetSource(const String& format) final {
    if (format == "plan") return program_ ? program_->Summary() : std::string();
    return json_;
  }
  String GetFormat() final { return "json"; }

  PackedFunc GetFunction(const String& name, const ObjectPtr<Object>& self) final {
    if (name == "get_symbol") {
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) { *rv = symbol_; });
    }
    if (name == "get_const_vars") {
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) {
        Array<String> names;
        for (const std::string& each : const_names_) names.push_back(each);
        *rv = names;
      });
    }
    if (name == "__init_" + symbol_) {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue* rv) {
        Init(args[0].operator Array<NDArray>());
        *rv = 0;
      });
    }
    if (name == symbol_) {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue*) { Run(args); });
    }
    return PackedFunc(nullptr);
  }

  void SaveToBinary(dmlc::Stream* stream) final {
    stream->Write(symbol_);
    stream->Write(json_);
    stream->Write(const_names_);
  }

  static runtime::Module LoadFromBinary(const Kind* kind, void* raw) {
    auto* stream = static_cast<dmlc::Stream*>(raw);
    std::string symbol, json;
    std::vector<std::string> const_names;
    ICHECK(stream->Read(&symbol) && stream->Read(&json) && stream->Read(&const_names))
        << kind->type_key << ": the saved library is cut short";
    return Create(kind, symbol, json, const_names);
  }

  static runtime::Module Create(const Kind* kind, std::string symbol, std::string json,
                                std::vector<std::string> const_names) {
    return runtime::Module(runtime::make_object<PartitionModuleNode>(
        kind, std::move(symbol), std::move(json), std::move(const_names)));
  }

 private:
  void Init(const Array<NDArray>& constants) {
    std::lock_guard<std::mutex> lock(init_mutex_);
    if (program_) return;
    if (constants.size() != const_names_.size()) {
      LOG(FATAL) << "ValueError: " << symbol_ << " has " << const_names_.size()
                 << " constants (weights), but " << constants.size()
                 << " were given to it; call __init_" << symbol_ << " with all of them";
    }
    std::vector<std::shared_ptr<void>> data;
    for (size_t i = 0; i < constants.size(); ++i) {
      auto kept = std::make_shared<NDArray>(constants[i]);
      void* raw = DataOf(kept->operator->(), graph_.constants[i], "constant", i);
      data.emplace_back(raw, [kept](void*) {});
    }
    program_ = kind_->compile(graph_, data);
    ready_.store(true, std::memory_order_release);
  }

  void* DataOf(const DLTensor* tensor, int number, const char* role, size_t index) const {
    return CheckedData(tensor, graph_.shapes[number], graph_.dtypes[number], symbol_, role, index);
  }

  void Run(TVMArgs args) {
    FollowFlushDenormals();
    if (!ready_.load(std::memory_order_acquire)) Init(Array<NDArray>());
    const size_t num_inputs = graph_.inputs.size();
    const size_t num_outputs = graph_.outputs.size();
    ICHECK_EQ(args.size(), static_cast<int>(num_inputs + num_outputs))
        << symbol_ << " takes " << num_inputs << " inputs and " << num_outputs << " outputs";
    // Kept by the thread: a call allocates nothing once the thread has made one.
    thread_local std::vector<void*> inputs, outputs;
    inputs.clear();
    outputs.clear();
    for (size_t i = 0; i < num_inputs; ++i) {
      inputs.push_back(DataOf(args[i], graph_.inputs[i], "input", i));
    }
    for (size_t i = 0; i < num_outputs; ++i) {
      outputs.push_back(DataOf(args[num_inputs + i], graph_.outputs[i], "output", i));
    }
    ScopedSpread spread;
    program_->Run(inputs, outputs);
  }

  const Kind* const kind_;
  const std::string symbol_;
  const std::string json_;
  const std::vector<std::string> const_names_;
  const GraphDesc graph_;
  std::mutex init_mutex_;  // guards program_ until ready_
  std::atomic<bool> ready_{false};
  std::unique_ptr<Program> program_;
};

}  // namespace

bool RegisterPartitionKind(const std::string& kind, Compile compile) {
  const Kind* known = new Kind{"collage." + kind, compile};
  runtime::Registry::Register(known->type_key + ".create")
      .set_body_typed([known](String symbol, String json, Array<String> const_names) {
        std::vector<std::string> names;
        for (const String& name : const_names) names.push_back(name);
        return PartitionModuleNode::Create(known, symbol, json, std::move(names));
      });
  runtime::Registry::Register("runtime.module.loadbinary_" + known->type_key)
      .set_body_typed(
          [known](void* stream) { return PartitionModuleNode::LoadFromBinary(known, stream); });
  return true;
}

}  // namespace partition
}  // namespace collage
}  // namespace tvm
