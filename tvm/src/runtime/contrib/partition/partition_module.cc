// SPDX-License-Identifier: Apache-2.0
#include "partition_module.h"

#include <dmlc/memory_io.h>
#include <malloc.h>
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
#include "printable.h"
#include "thread_pool.h"

namespace tvm::collage::partition {
namespace {

using runtime::Array;
using runtime::ModuleNode;
using runtime::NDArray;
using runtime::ObjectPtr;
using runtime::PackedFunc;
using runtime::String;
using runtime::TVMArgs;
using runtime::TVMRetValue;

// A kind of partitions; lives for ever, as modules refer to it.
struct Kind {
  std::string type_key;
  Check check;
  Compile compile;
};

// Freed constants of so many bytes are worth asking the allocator to give memory back.
constexpr int64_t kLarge = int64_t{1} << 20;

class PartitionModuleNode final : public ModuleNode {
 public:
  PartitionModuleNode(const Kind* kind, std::string symbol, std::string json,
                      std::vector<std::string> const_names, std::vector<NDArray> constants,
                      bool is_loaded)
      : kind_(kind),
        symbol_(std::move(symbol)),
        json_(std::move(json)),
        const_names_(std::move(const_names)),
        is_loaded_(is_loaded),
        graph_(GraphDesc::FromJson(json_)),
        constants_(std::move(constants)) {
    kind_->check(graph_);
    if (const_names_.empty()) {
      CheckConstants(constants_);
    } else {
      CheckCount(const_names_.size());
    }
  }

  const char* type_key() const final { return kind_->type_key.c_str(); }
  int GetPropertyMask() const final {
    return runtime::ModulePropertyMask::kBinarySerializable |
           runtime::ModulePropertyMask::kRunnable;
  }
  String GetSource(const String& format) final {
    if (format == "plan") return ready_.load(std::memory_order_acquire) ? program_->Summary() : "";
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
    if (name == "__init_" + symbol_ && !const_names_.empty()) {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue* rv) {
        SetConstants(args[0].operator Array<NDArray>());
        *rv = 0;
      });
    }
    if (name == "get_constants" && HasConstants()) {
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) {
        std::lock_guard<std::mutex> lock(init_mutex_);
        CheckConstantsAreKept();
        *rv = Array<NDArray>(constants_.begin(), constants_.end());
      });
    }
    if (name == "without_constants" && const_names_.empty()) {
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) {
        std::vector<std::string> names;
        for (size_t i = 0; i < graph_.constants.size(); ++i) {
          names.push_back(symbol_ + "_" + std::to_string(i));
        }
        *rv = Create(kind_, symbol_, json_, std::move(names), {}, is_loaded_);
      });
    }
    if (name == "profile") {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue* rv) { *rv = Profile(args); });
    }
    if (name == symbol_) {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue*) { Run(args); });
    }
    return PackedFunc(nullptr);
  }

  void SaveToBinary(dmlc::Stream* stream) final {
    std::lock_guard<std::mutex> lock(init_mutex_);
    CheckConstantsAreKept();
    stream->Write(symbol_);
    stream->Write(json_);
    stream->Write(const_names_);
    if (!const_names_.empty()) return;
    for (const NDArray& constant : constants_) constant.Save(stream);
  }

  static runtime::Module LoadFromBinary(const Kind* kind, void* raw) {
    auto* stream = static_cast<dmlc::Stream*>(raw);
    std::string symbol, json;
    std::vector<std::string> names;
    bool is_whole = stream->Read(&symbol) && stream->Read(&json) && stream->Read(&names);
    std::vector<NDArray> constants;
    if (is_whole && names.empty()) constants.resize(GraphDesc::FromJson(json).constants.size());
    for (NDArray& constant : constants) is_whole = is_whole && constant.Load(stream);
    if (!is_whole) LOG(FATAL) << "ValueError: " << kind->type_key << ": the library is cut short";
    // Messages name it.
    if (Printable(symbol) != symbol) Refuse("its name is '" + symbol + "', which is not ASCII");
    return Create(kind, symbol, json, std::move(names), std::move(constants), true);
  }

  static runtime::Module Create(const Kind* kind, std::string symbol, std::string json,
                                std::vector<std::string> names, std::vector<NDArray> constants,
                                bool is_loaded) {
    return runtime::Module(runtime::make_object<PartitionModuleNode>(
        kind, std::move(symbol), std::move(json), std::move(names), std::move(constants),
        is_loaded));
  }

 private:
  void CheckCount(size_t given) const {
    if (given == graph_.constants.size()) return;
    LOG(FATAL) << "ValueError: " << symbol_ << " has " << graph_.constants.size()
               << " constants (weights), but " << given << " were given to it";
  }

  void CheckConstants(const std::vector<NDArray>& constants) const {
    CheckCount(constants.size());
    for (size_t i = 0; i < constants.size(); ++i) DataOfConstant(constants, i);
  }

  void* DataOfConstant(const std::vector<NDArray>& constants, size_t i) const {
    return DataOf(constants[i].operator->(), graph_.constants[i], "constant", i);
  }

  void SetConstants(const Array<NDArray>& constants) {
    std::lock_guard<std::mutex> lock(init_mutex_);
    if (program_) return;
    std::vector<NDArray> given(constants.begin(), constants.end());
    CheckConstants(given);
    constants_ = std::move(given);
  }

  // Of those that it asks for by name: has TVM handed them over?
  bool HasConstants() {
    std::lock_guard<std::mutex> lock(init_mutex_);
    return const_names_.empty() || !constants_.empty();
  }

  void CheckConstantsAreKept() const {
    if (!is_dropped_) return;
    LOG(FATAL) << "ValueError: " << symbol_
               << " was loaded from a library and has run, so it keeps "
               << "its weights only as it runs them: load the library again";
  }

  void Init() {
    std::lock_guard<std::mutex> lock(init_mutex_);
    if (program_) return;
    CheckCount(constants_.size());
    std::vector<std::shared_ptr<void>> data;
    for (size_t i = 0; i < constants_.size(); ++i) {
      data.emplace_back(DataOfConstant(constants_, i), [kept = constants_[i]](void*) {});
    }
    program_ = kind_->compile(graph_, std::move(data));
    if (is_loaded_ && const_names_.empty()) DropConstants();
    ready_.store(true, std::memory_order_release);
  }

  // Leaves those alive that the program reads as they are.
  void DropConstants() {
    int64_t bytes = 0;
    for (const NDArray& constant : constants_)
      bytes += runtime::GetDataSize(*constant.operator->());
    std::vector<NDArray>().swap(constants_);
    is_dropped_ = true;
#ifdef __GLIBC__
    if (bytes >= kLarge) malloc_trim(0);  // pages that lie between blocks in use stay otherwise
#endif
  }

  void* DataOf(const DLTensor* tensor, int number, const char* role, size_t index) const {
    return CheckedData(tensor, graph_.shapes[number], graph_.dtypes[number], symbol_, role, index);
  }

  // The data of a call's tensors, which are its arguments from `first` on.
  struct Tensors {
    std::vector<void*> inputs, outputs;
  };

  void Take(TVMArgs args, int first, Tensors* tensors) const {
    const size_t num_inputs = graph_.inputs.size();
    const size_t num_outputs = graph_.outputs.size();
    ICHECK_EQ(args.size() - first, static_cast<int>(num_inputs + num_outputs))
        << symbol_ << " takes " << num_inputs << " inputs and " << num_outputs << " outputs";
    const int first_output = first + static_cast<int>(num_inputs);
    tensors->inputs.clear();
    tensors->outputs.clear();
    for (size_t i = 0; i < num_inputs; ++i) {
      tensors->inputs.push_back(DataOf(args[first + i], graph_.inputs[i], "input", i));
    }
    for (size_t i = 0; i < num_outputs; ++i) {
      tensors->outputs.push_back(DataOf(args[first_output + i], graph_.outputs[i], "output", i));
    }
  }

  void Run(TVMArgs args) {
    FollowFlushDenormals();
    // Kept by the thread: a call allocates nothing once the thread has made one.
    thread_local Tensors tensors;
    Take(args, 0, &tensors);
    if (!ready_.load(std::memory_order_acquire)) Init();
    ScopedSpread spread;
    program_->Run(tensors.inputs, tensors.outputs);
  }

  std::string Profile(TVMArgs args) {
    FollowFlushDenormals();
    Tensors tensors;
    const int runs = args[0];
    Take(args, 1, &tensors);
    ICHECK_GT(runs, 0) << symbol_ << ": a profile takes at least one run";
    if (!ready_.load(std::memory_order_acquire)) Init();
    ScopedSpread spread;
    return ToJson(program_->Profile(tensors.inputs, tensors.outputs, runs));
  }

  const Kind* const kind_;
  const std::string symbol_;
  const std::string json_;
  const std::vector<std::string> const_names_;  // none where the module holds its constants
  const bool is_loaded_;
  const GraphDesc graph_;
  std::mutex init_mutex_;  // guards program_ until ready_, and the next two
  std::vector<NDArray> constants_;
  bool is_dropped_ = false;
  std::atomic<bool> ready_{false};
  std::unique_ptr<Program> program_;
};

}  // namespace

bool RegisterPartitionKind(const std::string& kind, Check check, Compile compile) {
  const Kind* known = new Kind{"collage." + kind, check, compile};
  runtime::Registry::Register(known->type_key + ".create")
      .set_body_typed([known](String symbol, String json, Array<runtime::ObjectRef> constants) {
        std::vector<std::string> names;
        std::vector<NDArray> arrays;
        for (const runtime::ObjectRef& each : constants) {
          if (each->IsInstance<runtime::StringObj>()) {
            names.push_back(runtime::Downcast<String>(each));
          } else {
            arrays.push_back(runtime::Downcast<NDArray>(each));
          }
        }
        return PartitionModuleNode::Create(known, symbol, json, std::move(names), std::move(arrays),
                                           false);
      });
  runtime::Registry::Register("runtime.module.loadbinary_" + known->type_key)
      .set_body_typed(
          [known](void* stream) { return PartitionModuleNode::LoadFromBinary(known, stream); });
  return true;
}

}  // namespace tvm::collage::partition
