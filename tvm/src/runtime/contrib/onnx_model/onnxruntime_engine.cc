// SPDX-License-Identifier: Apache-2.0
/*!
 * \file onnxruntime_engine.cc
 * \brief Runs an ONNX model in a session of ONNX Runtime.
 *
 * A session has threads of its own, which spin from one operator to the next, as the library's do
 * by themselves, and sleep between calls: threads that spin beside TVM's slow both down, and those
 * that slept would be woken for each operator, a third of a small net's time. (The pool that
 * sessions can share spins always or never.) Where nothing else computes they go on spinning for a
 * while after a call, as the library's do. Sessions may run in several threads at once.
 */
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <type_traits>

#include "../partition/printable.h"
#include "../partition/thread_pool.h"
#include "engine.h"
#include "onnxruntime_api.h"

namespace tvm {
namespace collage {
namespace onnx_model {
namespace {

void Check(ort::Status* status, const std::string& what) {
  if (!status) return;
  std::string message = ort::GetApi().GetErrorMessage(status);
  std::replace(message.begin(), message.end(), '\n', ' ');
  ort::GetApi().ReleaseStatus(status);
  LOG(FATAL) << "ValueError: onnxruntime: " << what << ": " << partition::Printable(message);
}

/*! \brief A handle of the library, released at the end of its life. */
template <typename T>
class Handle {
 public:
  using Release = void (*)(T*);
  explicit Handle(Release release) : release_(release) {}
  Handle(Handle&& other) noexcept : release_(other.release_), value_(other.value_) {
    other.value_ = nullptr;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (value_) release_(value_);
  }
  T* get() const { return value_; }
  T** out() { return &value_; }

 private:
  Release release_;
  T* value_ = nullptr;
};

/*! \brief The library's environment, of which a process has one. */
const ort::Env* GetEnvironment() {
  static const ort::Env* environment = [] {
    ort::Env* made = nullptr;
    Check(ort::GetApi().CreateEnv(ort::kLogError, "collage", &made), "environment");
    return made;
  }();
  return environment;
}

const ort::MemoryInfo* CpuMemory() {
  static const ort::MemoryInfo* memory = [] {
    ort::MemoryInfo* made = nullptr;
    Check(ort::GetApi().CreateCpuMemoryInfo(ort::kDeviceAllocator, ort::kDefaultMemory, &made),
          "memory");
    return made;
  }();
  return memory;
}

/*! \brief ONNX's number of an element type. */
int ElementType(DLDataType dtype) {
  if (dtype.code == kDLFloat && dtype.bits == 32) return 1;
  if (dtype.code == kDLInt && dtype.bits == 32) return 6;
  if (dtype.code == kDLInt && dtype.bits == 64) return 7;
  ICHECK(dtype.code == kDLUInt && dtype.bits == 1) << "onnxruntime: an element type unknown to us";
  return 9;
}

class OnnxRuntimeEngine final : public Engine {
 public:
  OnnxRuntimeEngine(const Model& model, int num_threads)
      : symbol_(model.symbol),
        inputs_(model.inputs),
        outputs_(model.outputs),
        session_(ort::GetApi().ReleaseSession) {
    const ort::Api& api = ort::GetApi();
    Handle<ort::SessionOptions> options(api.ReleaseSessionOptions);
    Check(api.CreateSessionOptions(options.out()), "session options");
    Check(api.SetSessionGraphOptimizationLevel(options.get(), ort::kAllOptimizations), "options");
    Check(api.SetIntraOpNumThreads(options.get(), num_threads), "number of threads");
    const char* sleep = model.computes_alone ? "0" : "1";
    Check(api.AddSessionConfigEntry(options.get(), "session.force_spinning_stop", sleep),
          "spinning");
    // A session otherwise undoes the setting of the thread that makes it.
    const char* flush = partition::WantsFlushDenormals() ? "1" : "0";
    Check(api.AddSessionConfigEntry(options.get(), "session.set_denormal_as_zero", flush),
          "denormals");
    Check(api.CreateSessionFromArray(GetEnvironment(), model.bytes.data(), model.bytes.size(),
                                     options.get(), session_.out()),
          symbol_);
    for (size_t i = 0; i < inputs_.size(); ++i) names_.push_back("input_" + std::to_string(i));
    for (size_t i = 0; i < outputs_.size(); ++i) names_.push_back("output_" + std::to_string(i));
    for (const std::string& name : names_) name_pointers_.push_back(name.c_str());
  }

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    std::vector<Handle<ort::Value>> values;
    values.reserve(inputs.size() + outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) values.push_back(Wrap(inputs_[i], inputs[i]));
    for (size_t i = 0; i < outputs.size(); ++i) values.push_back(Wrap(outputs_[i], outputs[i]));
    std::vector<ort::Value*> raw;
    for (const auto& value : values) raw.push_back(value.get());
    Check(ort::GetApi().Run(session_.get(), nullptr, name_pointers_.data(), raw.data(),
                            inputs.size(), name_pointers_.data() + inputs.size(), outputs.size(),
                            raw.data() + inputs.size()),
          symbol_);
  }

 private:
  static Handle<ort::Value> Wrap(const TensorSpec& spec, void* data) {
    const ort::Api& api = ort::GetApi();
    Handle<ort::Value> value(api.ReleaseValue);
    Check(
        api.CreateTensorWithDataAsOrtValue(CpuMemory(), data, spec.NumBytes(), spec.shape.data(),
                                           spec.shape.size(), ElementType(spec.dtype), value.out()),
        "tensor");
    return value;
  }

  const std::string symbol_;
  const std::vector<TensorSpec> inputs_;
  const std::vector<TensorSpec> outputs_;
  Handle<ort::Session> session_;
  std::vector<std::string> names_;
  std::vector<const char*> name_pointers_;
};

}  // namespace

EngineKind OnnxRuntimeEngineKind() {
  return {[](const Model& model, int num_threads) -> std::unique_ptr<Engine> {
            return std::make_unique<OnnxRuntimeEngine>(model, num_threads);
          },
          ort::WhyUnavailable, ort::Version};
}

}  // namespace onnx_model
}  // namespace collage
}  // namespace tvm
