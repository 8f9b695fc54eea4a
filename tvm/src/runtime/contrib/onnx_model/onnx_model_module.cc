// SPDX-License-Identifier: Apache-2.0
// The runtime module of a partition that a library runs as an ONNX model.
//
// Made by `collage.onnx_model.create(library, symbol, bytes, input specs, output specs, whether
// nothing else computes)`, a spec being "float32 1 3 224 224". The model holds its weights, so the
// module asks TVM for no constants. The library is opened, and the model made ready, at the first
// run. Then a module that was loaded drops its copy of the model, as the library has one: nothing
// that TVM loaded from a file can be saved again, nor profiled unless keep_model() was called
// before: profile(runs, inputs..., outputs...) makes an engine of its own, which times its steps,
// and gives what the library tells of them. without_constants() gives a module that lacks the
// model, whose bytes are the one element of get_constants(): they are handed to that module's
// __init_<symbol>, before it runs. Test: backends/onnx_model/test_backend.py.
#include <dmlc/memory_io.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

#include "../partition/checked_data.h"
#include "../partition/printable.h"
#include "../partition/thread_pool.h"
#include "engine.h"

namespace tvm::collage::onnx_model {
namespace {

using partition::CheckedData;
using runtime::Array;
using runtime::ModuleNode;
using runtime::NDArray;
using runtime::ObjectPtr;
using runtime::PackedFunc;
using runtime::String;
using runtime::TVMArgs;
using runtime::TVMRetValue;

constexpr const char* kTypeKey = "collage.onnx_model";
constexpr int64_t kMostElements = int64_t{1} << 40;

TensorSpec SpecFromText(const std::string& text) {
  std::istringstream is(text);
  std::string dtype;
  is >> dtype;
  TensorSpec spec;
  spec.dtype = ElementTypeOfName(dtype);
  bool is_good = spec.dtype.bits > 0;
  int64_t elements = 1;
  for (int64_t extent; is_good && is >> extent;) {
    is_good = extent > 0 && extent <= kMostElements / elements;
    if (is_good) elements *= extent;
    spec.shape.push_back(extent);
  }
  if (!is_good || !is.eof()) {
    LOG(FATAL) << "ValueError: a spec of an ONNX partition is an element type, as float32, and its "
               << "extents, not '" << partition::Printable(text) << "'";
  }
  return spec;
}

std::vector<TensorSpec> SpecsFromTexts(const std::vector<std::string>& texts) {
  std::vector<TensorSpec> specs;
  for (const std::string& text : texts) specs.push_back(SpecFromText(text));
  return specs;
}

class OnnxModelModuleNode final : public ModuleNode {
 public:
  OnnxModelModuleNode(std::string library, std::string symbol, std::string bytes,
                      std::vector<std::string> inputs, std::vector<std::string> outputs,
                      Threads threads, bool is_loaded)
      : library_(std::move(library)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        num_bytes_(bytes.size()),
        lacks_model_(bytes.empty()),
        is_loaded_(is_loaded) {
    model_.symbol = std::move(symbol);
    model_.bytes = std::move(bytes);
    model_.inputs = SpecsFromTexts(inputs_);
    model_.outputs = SpecsFromTexts(outputs_);
    model_.threads = threads;
    GetEngineKind(library_);  // throws for an unknown one
  }

  // A fork has none of the threads that the end of an engine waits for, so it leaves those that it
  // did not make.
  ~OnnxModelModuleNode() final {
    if (!engine_ || maker_ == getpid()) return;
    [[maybe_unused]] const Engine* left = engine_.release();
  }

  const char* type_key() const final { return kTypeKey; }
  int GetPropertyMask() const final {
    return runtime::ModulePropertyMask::kBinarySerializable |
           runtime::ModulePropertyMask::kRunnable;
  }
  String GetSource(const String& format) final {
    std::ostringstream os;
    os << library_ << ": ONNX model of " << num_bytes_ << " bytes";
    if (model_.threads == Threads::kAwake) os << ", which computes alone";
    if (model_.threads == Threads::kShared) os << ", on shared threads";
    if (model_.threads == Threads::kNone) os << ", on one thread";
    for (const std::string& text : inputs_) os << "\n  input " << text;
    for (const std::string& text : outputs_) os << "\n  output " << text;
    return os.str();
  }

  PackedFunc GetFunction(const String& name, const ObjectPtr<Object>& self) final {
    if (name == "get_symbol") {
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) { *rv = model_.symbol; });
    }
    if (name == "get_const_vars") {
      return PackedFunc([self](TVMArgs, TVMRetValue* rv) { *rv = Array<String>(); });
    }
    if (name == "get_onnx") {  // for people: the file to look at
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) {
        std::lock_guard<std::mutex> lock(init_mutex_);
        CheckModelIsKept();
        const TVMByteArray bytes{model_.bytes.data(), model_.bytes.size()};
        *rv = bytes;
      });
    }
    if (name == "get_constants") {
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) { *rv = Array<NDArray>{Bytes()}; });
    }
    if (name == "without_constants") {
      return PackedFunc([this, self](TVMArgs, TVMRetValue* rv) {
        *rv = Create(library_, model_.symbol, "", inputs_, outputs_, model_.threads, is_loaded_);
      });
    }
    if (lacks_model_ && name == "__init_" + model_.symbol) {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue*) { TakeModel(args[0]); });
    }
    if (name == "keep_model") {  // of one that is profiled after it has run
      return PackedFunc([this, self](TVMArgs, TVMRetValue*) {
        std::lock_guard<std::mutex> lock(init_mutex_);
        is_kept_ = true;
      });
    }
    if (name == "profile") {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue* rv) { *rv = Profile(args); });
    }
    if (name == model_.symbol) {
      return PackedFunc([this, self](TVMArgs args, TVMRetValue*) { Run(args); });
    }
    return PackedFunc(nullptr);
  }

  void SaveToBinary(dmlc::Stream* stream) final {
    std::lock_guard<std::mutex> lock(init_mutex_);
    CheckModelIsKept();
    stream->Write(library_);
    stream->Write(model_.symbol);
    stream->Write(model_.bytes);
    stream->Write(inputs_);
    stream->Write(outputs_);
    stream->Write(static_cast<uint8_t>(model_.threads));
  }

  static runtime::Module LoadFromBinary(void* raw) {
    auto* stream = static_cast<dmlc::Stream*>(raw);
    std::string library, symbol, bytes;
    std::vector<std::string> inputs, outputs;
    uint8_t threads = 0;
    if (!stream->Read(&library) || !stream->Read(&symbol) || !stream->Read(&bytes) ||
        !stream->Read(&inputs) || !stream->Read(&outputs) || !stream->Read(&threads)) {
      LOG(FATAL) << "ValueError: " << kTypeKey << ": the saved library is cut short";
    }
    return Create(library, symbol, std::move(bytes), inputs, outputs, static_cast<Threads>(threads),
                  true);
  }

  static runtime::Module Create(std::string library, std::string symbol, std::string bytes,
                                std::vector<std::string> inputs, std::vector<std::string> outputs,
                                Threads threads, bool is_loaded) {
    return runtime::Module(runtime::make_object<OnnxModelModuleNode>(
        std::move(library), std::move(symbol), std::move(bytes), std::move(inputs),
        std::move(outputs), threads, is_loaded));
  }

 private:
  void Init() {
    std::lock_guard<std::mutex> lock(init_mutex_);
    if (engine_) return;
    if (model_.bytes.empty()) {
      LOG(FATAL) << "ValueError: " << model_.symbol << " lacks its ONNX model, which its function "
                 << "__init_" << model_.symbol << " takes";
    }
    engine_ = GetEngineKind(library_).create(model_, NumThreads());
    maker_ = getpid();
    if (is_loaded_ && !is_kept_) std::string().swap(model_.bytes);
    ready_.store(true, std::memory_order_release);
  }

  NDArray Bytes() {
    std::lock_guard<std::mutex> lock(init_mutex_);
    CheckModelIsKept();
    const auto size = static_cast<int64_t>(model_.bytes.size());
    NDArray array = NDArray::Empty({size}, runtime::DataType::UInt(8), DLDevice{kDLCPU, 0});
    array.CopyFromBytes(model_.bytes.data(), model_.bytes.size());
    return array;
  }

  void TakeModel(const Array<NDArray>& constants) {
    ICHECK_EQ(constants.size(), 1U) << model_.symbol << " takes its ONNX model alone";
    const NDArray& array = constants[0];
    std::lock_guard<std::mutex> lock(init_mutex_);
    num_bytes_ = runtime::GetDataSize(*array.operator->());
    model_.bytes.resize(num_bytes_);
    array.CopyToBytes(model_.bytes.data(), num_bytes_);
  }

  int NumThreads() const {
    const PackedFunc* num_threads = runtime::Registry::Get("runtime.NumThreads");
    ICHECK(num_threads) << "TVM's runtime lacks runtime.NumThreads";
    return model_.threads == Threads::kNone ? 1 : (*num_threads)();
  }

  void CheckModelIsKept() const {
    if (model_.bytes.size() == num_bytes_) return;
    LOG(FATAL) << "ValueError: " << model_.symbol
               << " was loaded from a library and has run, so it "
               << "keeps no ONNX model: load the library again";
  }

  // The data of a call's tensors, which are its arguments from `first` on.
  Tensors Take(TVMArgs args, int first) const {
    const size_t num_inputs = inputs_.size();
    ICHECK_EQ(args.size() - first, static_cast<int>(num_inputs + outputs_.size()))
        << model_.symbol << " takes " << num_inputs << " inputs and " << outputs_.size()
        << " outputs";
    const int first_output = first + static_cast<int>(num_inputs);
    Tensors tensors;
    for (size_t i = 0; i < num_inputs; ++i) {
      tensors.inputs.push_back(DataOf(args[first + i], model_.inputs[i], "input", i));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      tensors.outputs.push_back(DataOf(args[first_output + i], model_.outputs[i], "output", i));
    }
    return tensors;
  }

  std::string Profile(TVMArgs args) {
    partition::FollowFlushDenormals();
    const int runs = args[0];
    const Tensors tensors = Take(args, 1);
    ICHECK_GT(runs, 0) << model_.symbol << ": a profile takes at least one run";
    std::lock_guard<std::mutex> lock(init_mutex_);
    CheckModelIsKept();
    return GetEngineKind(library_).profile(model_, NumThreads(), tensors, runs);
  }

  void Run(TVMArgs args) {
    partition::FollowFlushDenormals();
    if (!ready_.load(std::memory_order_acquire)) Init();
    const Tensors tensors = Take(args, 0);
    engine_->Run(tensors.inputs, tensors.outputs);
    const int turning = engine_->ThreadsThatTurn();
    // Where these sleep, those of a part before may still turn.
    if (turning > 0) partition::OthersWorked(turning);
  }

  void* DataOf(const DLTensor* tensor, const TensorSpec& spec, const char* role, size_t i) const {
    return CheckedData(tensor, spec.shape, runtime::DataType(spec.dtype), model_.symbol, role, i);
  }

  const std::string library_;
  const std::vector<std::string> inputs_;  // as texts
  const std::vector<std::string> outputs_;
  size_t num_bytes_;
  const bool lacks_model_;  // until it is handed one
  const bool is_loaded_;
  Model model_;
  std::mutex init_mutex_;  // guards engine_ until ready_, the model's bytes, and the next
  bool is_kept_ = false;   // although it was loaded
  std::atomic<bool> ready_{false};
  std::unique_ptr<Engine> engine_;
  pid_t maker_ = 0;  // the process whose engine it is
};

std::vector<std::string> Texts(const Array<String>& strings) {
  return std::vector<std::string>(strings.begin(), strings.end());
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.onnx_model.create").set_body([](TVMArgs args, TVMRetValue* rv) {
  *rv = OnnxModelModuleNode::Create(args[0], args[1], args[2], Texts(args[3]), Texts(args[4]),
                                    static_cast<Threads>(args[5].operator int()), false);
});

TVM_REGISTER_GLOBAL("collage.onnx_model.why_unavailable")
    .set_body_typed([](String library) -> String {
      return GetEngineKind(library).why_unavailable();
    });

TVM_REGISTER_GLOBAL("collage.onnx_model.version").set_body_typed([](String library) -> String {
  return GetEngineKind(library).version();
});

TVM_REGISTER_GLOBAL("runtime.module.loadbinary_collage.onnx_model")
    .set_body_typed(OnnxModelModuleNode::LoadFromBinary);

}  // namespace tvm::collage::onnx_model
