// SPDX-License-Identifier: Apache-2.0
// Runs an ONNX model in OpenVINO's CPU plugin.
//
// A request serves one call at a time, so each concurrent call takes one of its own. What it
// computes in is what was asked for: by itself the plugin takes bfloat16 where the CPU has it. Its
// numbers of element types differ from version to version (float32 was 5 up to 2024, then 4), so
// the model is asked for those of its inputs and outputs.
// Test: backends/onnx_model/test_backend.py.
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "../partition/printable.h"
#include "../partition/step_times.h"
#include "../partition/thread_pool.h"
#include "engine.h"
#include "openvino_api.h"

namespace tvm::collage::onnx_model {
namespace {

void Check(int status, const std::string& what) {
  if (status == ov::kOk) return;
  const char* message = ov::GetApi().get_last_err_msg();
  std::string text = message ? message : "error " + std::to_string(status);
  if (message) ov::GetApi().free(message);
  std::replace(text.begin(), text.end(), '\n', ' ');
  LOG(FATAL) << "ValueError: openvino: " << what << ": " << partition::Printable(text);
}

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

const ov::Core* GetCore() {
  // Never freed: models may still be released while the process ends.
  static const ov::Core* core = [] {
    ov::Core* made = nullptr;
    Check(ov::GetApi().core_create(&made), "core");
    return made;
  }();
  return core;
}

Owned<ov::Model> Read(const Model& model) {
  const ov::Api& api = ov::GetApi();
  ov::Model* read = nullptr;
  Check(api.core_read_model_from_memory_buffer(GetCore(), model.bytes.data(), model.bytes.size(),
                                               nullptr, &read),
        model.symbol);
  return Owned<ov::Model>(read, api.model_free);
}

class OpenVinoEngine final : public Engine {
 public:
  OpenVinoEngine(const Model& model, int num_threads, const char* precision,
                 bool is_profiled = false)
      : num_threads_(num_threads),
        symbol_(model.symbol),
        inputs_(model.inputs),
        outputs_(model.outputs),
        compiled_(nullptr, ov::GetApi().compiled_model_free) {
    const ov::Api& api = ov::GetApi();
    const Owned<ov::Model> read = Read(model);
    ov::CompiledModel* compiled = nullptr;
    const std::string threads = std::to_string(num_threads);
    const char* flush = partition::WantsFlushDenormals() ? "YES" : "NO";
    constexpr size_t kArguments = 12;  // names and values
    Check(api.core_compile_model(GetCore(), read.get(), "CPU", kArguments, &compiled,  //
                                 "PERFORMANCE_HINT", "LATENCY",                        //
                                 "INFERENCE_NUM_THREADS", threads.c_str(),             //
                                 "INFERENCE_PRECISION_HINT", precision,                //
                                 "ENABLE_CPU_PINNING", "NO",                           //
                                 "CPU_DENORMALS_OPTIMIZATION", flush,                  //
                                 "PERF_COUNT", is_profiled ? "YES" : "NO"),
          symbol_);
    compiled_.reset(compiled);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const std::string name = "input_" + std::to_string(i);
      const int type = ElementType(api.compiled_model_input_by_name, name, inputs_[i]);
      if (type != kNone) used_inputs_.push_back({i, type});
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const std::string name = "output_" + std::to_string(i);
      output_types_.push_back(ElementType(api.compiled_model_output_by_name, name, outputs_[i]));
      ICHECK_NE(output_types_.back(), kNone) << symbol_ << ": openvino lost its " << name;
    }
    Release(Acquire());
  }

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    const ov::Api& api = ov::GetApi();
    Request request = Acquire();
    ov::InferRequest* handle = request.handle.get();
    for (size_t i = 0; i < used_inputs_.size(); ++i) {
      const auto [input, type] = used_inputs_[i];
      if (!request.Rebinds(i, inputs[input])) continue;
      auto tensor = Wrap(inputs_[input], type, inputs[input]);
      Check(api.infer_request_set_input_tensor_by_index(handle, i, tensor.get()), symbol_);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!request.Rebinds(used_inputs_.size() + i, outputs[i])) continue;
      auto tensor = Wrap(outputs_[i], output_types_[i], outputs[i]);
      Check(api.infer_request_set_output_tensor_by_index(handle, i, tensor.get()), symbol_);
    }
    Check(api.infer_request_infer(handle), symbol_);
    Release(std::move(request));
  }

  // Of a profiled model: the mean microseconds of each layer in all runs until now.
  struct Layer {
    std::string name;
    bool has_run;
    double microseconds;
  };
  std::vector<Layer> Layers() {
    const ov::Api& api = ov::GetApi();
    Request request = Acquire();
    ov::LayerTimes found{nullptr, 0};
    Check(api.infer_request_get_profiling_info(request.handle.get(), &found), symbol_);
    Release(std::move(request));
    std::vector<Layer> layers;
    for (size_t i = 0; i < found.size; ++i) {
      const ov::LayerTime& layer = found.layers[i];
      layers.push_back(
          {layer.name, layer.status == ov::kExecuted, static_cast<double>(layer.microseconds)});
    }
    api.profiling_info_list_free(&found);
    return layers;
  }

  int ThreadsThatTurn() const final { return num_threads_ - 1; }

 private:
  static constexpr int kNone = -1;

  // A request and the addresses that its tensors were last given: setting one takes longer than a
  // small part runs, and an executor passes the same ones each time.
  struct Request {
    Owned<ov::InferRequest> handle;
    std::vector<void*> addresses;

    // Whether a tensor has to be set, as its address is another one; notes the address.
    bool Rebinds(size_t i, void* address) {
      return std::exchange(addresses[i], address) != address;
    }
  };

  // This library's number of the type of an input or output; kNone where there is none of that
  // name. An error where its elements have another size than ours.
  int ElementType(decltype(ov::Api::compiled_model_input_by_name) find, const std::string& name,
                  const TensorSpec& spec) const {
    const ov::Api& api = ov::GetApi();
    ov::ConstPort* port = nullptr;
    if (find(compiled_.get(), name.c_str(), &port) != ov::kOk) return kNone;
    int type = kNone;
    const int status = api.port_get_element_type(port, &type);
    api.output_const_port_free(port);
    Check(status, symbol_);
    size_t bytes = 0;
    char nothing[8];  // an address for a tensor that nobody reads
    Check(api.tensor_get_byte_size(Wrap(spec, type, nothing).get(), &bytes), symbol_);
    if (bytes != spec.NumBytes()) {
      LOG(FATAL) << "ValueError: openvino " << ov::Version() << ": " << symbol_ << ": " << name
                 << " has " << bytes << " bytes where " << spec.NumBytes() << " are passed";
    }
    return type;
  }

  static Owned<ov::Tensor> Wrap(const TensorSpec& spec, int type, void* data) {
    std::vector<int64_t> dims = spec.shape;
    ov::Tensor* made = nullptr;
    Check(ov::GetApi().tensor_create_from_host_ptr(
              type, {static_cast<int64_t>(dims.size()), dims.data()}, data, &made),
          "tensor");
    return {made, ov::GetApi().tensor_free};
  }

  Request Acquire() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        Request request = std::move(idle_.back());
        idle_.pop_back();
        return request;
      }
    }
    ov::InferRequest* made = nullptr;
    Check(ov::GetApi().compiled_model_create_infer_request(compiled_.get(), &made), symbol_);
    const size_t tensors = used_inputs_.size() + outputs_.size();
    return {{made, ov::GetApi().infer_request_free}, std::vector<void*>(tensors)};
  }

  void Release(Request request) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(request));
  }

  const int num_threads_;
  const std::string symbol_;
  const std::vector<TensorSpec> inputs_;
  const std::vector<TensorSpec> outputs_;
  std::vector<std::pair<size_t, int>> used_inputs_;  // and types; OpenVINO drops what nothing reads
  std::vector<int> output_types_;
  Owned<ov::CompiledModel> compiled_;
  std::mutex mutex_;  // guards idle_
  std::vector<Request> idle_;
};

// A layer's microseconds of one run, of its mean over the first run, the first two, and so on.
//
// The library tells means alone, in whole microseconds. The mean of all runs but the first, which
// does what is done once, is exact to about one. It is wrong where something else took the CPU in a
// run; differences of sums tell each run by itself, but are off by up to as many as there were
// runs. So their median stands in where the mean is above it by more than that.
double OneRun(const std::vector<double>& means) {
  const size_t runs = means.size();
  std::vector<double> each;
  for (size_t k = 1; k < runs; ++k) {
    each.push_back(static_cast<double>(k + 1) * means[k] - static_cast<double>(k) * means[k - 1]);
  }
  const double later = static_cast<double>(runs) * means.back() - means.front();
  const double mean = later / static_cast<double>(each.size());
  const double middle = partition::MedianOf(each);
  return std::max(mean > middle + static_cast<double>(runs) ? middle : mean, 0.0);
}

// What was fused into a layer follows it, as layers that did not run: its row has their names.
partition::StepTimes Profile(OpenVinoEngine* engine, const Tensors& tensors, int runs) {
  std::vector<OpenVinoEngine::Layer> layers;
  std::vector<std::vector<double>> means;  // by layer
  for (int run = 0; run <= runs; ++run) {
    engine->Run(tensors.inputs, tensors.outputs);
    layers = engine->Layers();
    means.resize(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) means[i].push_back(layers[i].microseconds);
  }
  partition::StepTimes times;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].has_run) {
      times.emplace_back(layers[i].name, 1e-6 * OneRun(means[i]));
    } else if (!times.empty()) {
      times.back().first += " " + layers[i].name;
    }
  }
  return times;
}

// Why bfloat16 would gain nothing here, "" when it may. Never throws.
std::string WhyNoBf16() {
  const std::string reason = ov::WhyUnavailable();
  if (!reason.empty()) return reason;
  try {
    char* found = nullptr;
    Check(ov::GetApi().core_get_property(GetCore(), "CPU", "OPTIMIZATION_CAPABILITIES", &found),
          "what the CPU computes in");
    const std::string types = found;  // as in "BF16 FP32 INT8"
    ov::GetApi().free(found);
    if (types.find("BF16") != std::string::npos) return "";
    return "the CPU has no bfloat16 instructions; OpenVINO names " + types;
  } catch (const std::exception& error) {
    return error.what();
  }
}

EngineKind KindOf(const char* precision, std::function<std::string()> why_unavailable) {
  return {[precision](const Model& model, int num_threads) -> std::unique_ptr<Engine> {
            return std::make_unique<OpenVinoEngine>(model, num_threads, precision);
          },
          std::move(why_unavailable), ov::Version,
          [precision](const Model& model, int num_threads, const Tensors& tensors, int runs) {
            OpenVinoEngine engine(model, num_threads, precision, true);
            return partition::ToJson(Profile(&engine, tensors, runs));
          },
          [](const Model& model) { Read(model); }};
}

}  // namespace

EngineKind OpenVinoEngineKind() { return KindOf("f32", ov::WhyUnavailable); }

EngineKind OpenVinoBf16EngineKind() {
  return KindOf("bf16", [] {
    static const std::string reason = WhyNoBf16();
    return reason;
  });
}

}  // namespace tvm::collage::onnx_model
