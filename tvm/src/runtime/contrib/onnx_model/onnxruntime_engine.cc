// SPDX-License-Identifier: Apache-2.0
// Runs an ONNX model in a session of ONNX Runtime.
//
// A session of many operators has threads of its own, which spin from one operator to the next, as
// the library's do by themselves, and sleep between calls: threads that spin beside TVM's slow both
// down, and those that slept would be woken for each operator, a third of a small net's time. Where
// nothing else computes they go on spinning for a while after a call, as the library's do.
//
// Sessions of few operators share one pool, whose threads never spin. A network may have hundreds
// of such parts, and with threads for each, asleep since the last run, they took twice as long.
// Sessions may run in several threads at once.
// Test: backends/onnx_model/test_backend.py.
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <type_traits>
#include <utility>

#include "../partition/printable.h"
#include "../partition/thread_pool.h"
#include "engine.h"
#include "onnxruntime_api.h"

namespace tvm::collage::onnx_model {
namespace {

void Check(ort::Status* status, const std::string& what) {
  if (!status) return;
  std::string message = ort::GetApi().GetErrorMessage(status);
  std::replace(message.begin(), message.end(), '\n', ' ');
  ort::GetApi().ReleaseStatus(status);
  LOG(FATAL) << "ValueError: onnxruntime: " << what << ": " << partition::Printable(message);
}

// A handle of the library, released at the end of its life.
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

// The library's environment, of which a process has one, with the threads to share.
struct Environment {
  ort::Env* env = nullptr;
  int num_threads = 0;
};

// The environment; whoever asks first says how many threads it has.
const Environment& GetEnvironment(int num_threads) {
  static const Environment environment = [&] {
    const ort::Api& api = ort::GetApi();
    Handle<ort::ThreadingOptions> options(api.ReleaseThreadingOptions);
    Check(api.CreateThreadingOptions(options.out()), "threading options");
    Check(api.SetGlobalIntraOpNumThreads(options.get(), num_threads), "number of threads");
    Check(api.SetGlobalInterOpNumThreads(options.get(), 1), "number of threads");  // no pool
    Check(api.SetGlobalSpinControl(options.get(), 0), "spinning");
    Environment made{nullptr, num_threads};
    Check(api.CreateEnvWithGlobalThreadPools(ort::kLogError, "collage", options.get(), &made.env),
          "environment");
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

struct OwnedResults final : Results {
  void Add(ort::Value* value) {
    values.emplace_back(ort::GetApi().ReleaseValue);
    *values.back().out() = value;
  }

  void Describe(ort::Value* value, const std::string& symbol) {
    const ort::Api& api = ort::GetApi();
    Handle<ort::TensorInfo> info(api.ReleaseTensorTypeAndShapeInfo);
    Check(api.GetTensorTypeAndShape(value, info.out()), symbol);
    size_t rank = 0;
    Check(api.GetDimensionsCount(info.get(), &rank), symbol);
    shapes.emplace_back(rank);
    Check(api.GetDimensions(info.get(), shapes.back().data(), rank), symbol);
    void* memory = nullptr;
    Check(api.GetTensorMutableData(value, &memory), symbol);
    data.push_back(memory);
  }

  std::vector<Handle<ort::Value>> values;
};

class OnnxRuntimeEngine final : public Engine {
 public:
  // With a `trace`, the beginning of a file's path, runs are traced until EndTrace.
  OnnxRuntimeEngine(const Model& model, int num_threads, std::string trace = "")
      : trace_(std::move(trace)),
        turning_(model.threads == Threads::kAwake ? num_threads - 1 : 0),
        symbol_(model.symbol),
        inputs_(model.inputs),
        outputs_(model.outputs),
        session_(ort::GetApi().ReleaseSession) {
    // A program that made the environment before us may have made it without threads to share.
    if (CanShare(model, num_threads)) TryToOpen(model, num_threads, {/*shares=*/true});
    if (session_.get() == nullptr) TryToOpen(model, num_threads, {});
    // The library's rewriting of a branch that never runs, say, may leave what it then refuses.
    if (session_.get() == nullptr) TryToOpen(model, num_threads, {false, ort::kNoOptimizations});
    if (session_.get() == nullptr) Check(Open(model, num_threads, {}), symbol_);
    for (size_t i = 0; i < inputs_.size(); ++i) names_.push_back("input_" + std::to_string(i));
    for (size_t i = 0; i < outputs_.size(); ++i) names_.push_back("output_" + std::to_string(i));
    for (const std::string& name : names_) name_pointers_.push_back(name.c_str());
  }

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    // An executor runs on the same memory again and again; another thread has memory of its own.
    std::unique_lock<std::mutex> lock(last_mutex_, std::try_to_lock);
    Bound own;
    Bound& bound = lock.owns_lock() ? last_ : own;
    if (bound.inputs != inputs || bound.outputs != outputs) bound = Bind(inputs, outputs);
    ort::Value** values = bound.pointers.data();
    Check(ort::GetApi().Run(session_.get(), nullptr, name_pointers_.data(), values, inputs.size(),
                            name_pointers_.data() + inputs.size(), outputs.size(),
                            values + inputs.size()),
          symbol_);
  }

  std::unique_ptr<Results> RunOnAny(const std::vector<TensorSpec>& specs,
                                    const std::vector<void*>& inputs) final {
    std::vector<Handle<ort::Value>> values;
    std::vector<ort::Value*> raw, outputs(outputs_.size(), nullptr);
    values.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) values.push_back(Wrap(specs[i], inputs[i]));
    for (const auto& value : values) raw.push_back(value.get());
    Check(
        ort::GetApi().Run(session_.get(), nullptr, name_pointers_.data(), raw.data(), inputs.size(),
                          name_pointers_.data() + inputs.size(), outputs.size(), outputs.data()),
        symbol_);
    auto results = std::make_unique<OwnedResults>();
    for (ort::Value* output : outputs) results->Add(output);
    for (size_t i = 0; i < outputs.size(); ++i) results->Describe(outputs[i], symbol_);
    return results;
  }

  // Writes the trace, and returns its path.
  std::string EndTrace() {
    const ort::Api& api = ort::GetApi();
    ort::Allocator* allocator = nullptr;  // the library's own, which nobody releases
    Check(api.GetAllocatorWithDefaultOptions(&allocator), symbol_);
    char* path = nullptr;
    Check(api.SessionEndProfiling(session_.get(), allocator, &path), symbol_);
    std::string copy = path;
    Check(api.AllocatorFree(allocator, path), symbol_);
    return copy;
  }

  int ThreadsThatTurn() const final { return turning_; }

 private:
  // Shared threads are as many as they are, and keep denormals.
  static bool CanShare(const Model& model, int num_threads) {
    return model.threads == Threads::kShared &&
           num_threads == GetEnvironment(num_threads).num_threads &&
           !partition::WantsFlushDenormals();
  }

  // Whether a session's threads are those that all share, and how it changes its model.
  struct Way {
    bool shares = false;
    int optimizations = ort::kAllOptimizations;
  };

  void TryToOpen(const Model& model, int num_threads, const Way& way) {
    if (ort::Status* refused = Open(model, num_threads, way)) ort::GetApi().ReleaseStatus(refused);
  }

  // Makes the session; what the library says where it makes none.
  ort::Status* Open(const Model& model, int num_threads, const Way& way) {
    const ort::Api& api = ort::GetApi();
    Handle<ort::SessionOptions> options(api.ReleaseSessionOptions);
    const auto configure = [&](const char* key, bool value) {
      Check(api.AddSessionConfigEntry(options.get(), key, value ? "1" : "0"), key);
    };
    Check(api.CreateSessionOptions(options.out()), "session options");
    Check(api.SetSessionGraphOptimizationLevel(options.get(), way.optimizations), "options");
    if (way.shares) {
      Check(api.DisablePerSessionThreads(options.get()), "shared threads");
    } else {
      Check(api.SetIntraOpNumThreads(options.get(), num_threads), "number of threads");
      configure("session.force_spinning_stop", model.threads != Threads::kAwake);
    }
    if (!trace_.empty()) Check(api.EnableProfiling(options.get(), trace_.c_str()), "profiling");
    // A session otherwise undoes the setting of the thread that makes it.
    configure("session.set_denormal_as_zero", partition::WantsFlushDenormals());
    return api.CreateSessionFromArray(GetEnvironment(num_threads).env, model.bytes.data(),
                                      model.bytes.size(), options.get(), session_.out());
  }

  // The memory of a call, and the library's values of it, inputs first.
  struct Bound {
    std::vector<void*> inputs, outputs;
    std::vector<Handle<ort::Value>> values;
    std::vector<ort::Value*> pointers;
  };

  Bound Bind(const std::vector<void*>& inputs, const std::vector<void*>& outputs) const {
    Bound bound{inputs, outputs, {}, {}};
    for (size_t i = 0; i < inputs.size(); ++i) bound.values.push_back(Wrap(inputs_[i], inputs[i]));
    for (size_t i = 0; i < outputs.size(); ++i) {
      bound.values.push_back(Wrap(outputs_[i], outputs[i]));
    }
    for (const auto& value : bound.values) bound.pointers.push_back(value.get());
    return bound;
  }

  static Handle<ort::Value> Wrap(const TensorSpec& spec, void* data) {
    const ort::Api& api = ort::GetApi();
    Handle<ort::Value> value(api.ReleaseValue);
    const int type = OnnxElementType(spec.dtype);
    ICHECK_NE(type, 0) << "onnxruntime: an element type unknown to us";
    Check(api.CreateTensorWithDataAsOrtValue(CpuMemory(), data, spec.NumBytes(), spec.shape.data(),
                                             spec.shape.size(), type, value.out()),
          "tensor");
    return value;
  }

  const std::string trace_;
  const int turning_;
  const std::string symbol_;
  const std::vector<TensorSpec> inputs_;
  const std::vector<TensorSpec> outputs_;
  Handle<ort::Session> session_;
  std::vector<std::string> names_;
  std::vector<const char*> name_pointers_;
  std::mutex last_mutex_;
  Bound last_;
};

// A new folder, which is gone with all that is in it at the end of this object's life.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "collage-trace-XXXXXX";
    if (!mkdtemp(name.data()))
      LOG(FATAL) << "OSError: onnxruntime: no folder for a trace: " << name;
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The library's trace of these runs, in the format that browsers show.
std::string Profile(const Model& model, int num_threads, const Tensors& tensors, int runs) {
  const TemporaryFolder folder;
  OnnxRuntimeEngine engine(model, num_threads, folder.path() / "trace");
  for (int run = 0; run <= runs; ++run) engine.Run(tensors.inputs, tensors.outputs);
  std::ifstream file(engine.EndTrace());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

EngineKind OnnxRuntimeEngineKind() {
  return {[](const Model& model, int num_threads) -> std::unique_ptr<Engine> {
            return std::make_unique<OnnxRuntimeEngine>(model, num_threads);
          },
          ort::WhyUnavailable, ort::Version, Profile, nullptr};
}

}  // namespace tvm::collage::onnx_model
