// SPDX-License-Identifier: Apache-2.0
// The kind of partition that XNNPACK runs: `collage.xnnpack.create` and loading it again.
// Test: backends/test_contract.py, backends/xnnpack/test_backend.py.
#include <tvm/runtime/logging.h>
#include <tvm/runtime/threading_backend.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sstream>
#include <utility>

#include "../partition/memory.h"
#include "../partition/partition_module.h"
#include "subgraph.h"
#include "team.h"

namespace tvm::collage::xnnpack {
namespace {

using partition::StepTimes;

struct RuntimeDeleter {
  void operator()(Runtime* runtime) const { GetApi().delete_runtime(runtime); }
};
using RuntimeHandle = std::unique_ptr<Runtime, RuntimeDeleter>;

// A runtime has its tensors in it, so calls run one after another.
class XnnpackProgram final : public partition::Program {
 public:
  XnnpackProgram(const GraphDesc& graph, std::vector<std::shared_ptr<void>> constants)
      : graph_(graph),
        model_(Builder(graph, std::move(constants)).Run()),
        team_(graph.one_thread ? 1 : runtime::threading::NumThreads()),
        runtime_(NewRuntime(0)),
        readable_(graph.inputs.size()) {}

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    std::lock_guard<std::mutex> lock(mutex_);
    Invoke(runtime_.get(), inputs, outputs, &values_);
  }

  StepTimes Profile(const std::vector<void*>& inputs, const std::vector<void*>& outputs,
                    int runs) final {
    std::lock_guard<std::mutex> lock(mutex_);
    const RuntimeHandle runtime = NewRuntime(kProfiling);
    std::vector<ExternalValue> values;
    Invoke(runtime.get(), inputs, outputs, &values);
    const std::vector<std::string> names = OperatorNames(runtime.get());
    // The library cuts off what is less than a microsecond: half of one on average.
    std::vector<double> seconds(names.size(), 0.0);
    for (int run = 0; run < runs; ++run) {
      Invoke(runtime.get(), inputs, outputs, &values);
      std::vector<uint64_t> microseconds(names.size());
      Ask(runtime.get(), kOperatorMicroseconds, &microseconds);
      for (size_t i = 0; i < names.size(); ++i) seconds[i] += (microseconds[i] + 0.5) * 1e-6 / runs;
    }
    return WithCalls(names, seconds);
  }

  std::string Summary() const final {
    std::ostringstream text;
    for (const NodeDesc& node : graph_.nodes) text << partition::Summary(graph_, node) << "\n";
    return text.str();
  }

 private:
  RuntimeHandle NewRuntime(uint32_t flags) const {
    Runtime* made = nullptr;
    const Api& api = GetApi();
    CheckStatus(api.create_runtime_v2(model_.subgraph.get(), team_.pool(), flags, &made),
                "a runtime");
    RuntimeHandle runtime(made);
    CheckStatus(api.reshape_runtime(made), "shapes of a runtime");
    // What the library computes fits the memory that callers give.
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      size_t rank = 0, dims[kMostDims];
      const auto id = static_cast<uint32_t>(graph_.inputs.size() + i);
      CheckStatus(api.get_external_value_shape(made, id, &rank, dims), "a result's shape");
      const Dims found(dims, dims + std::min(rank, kMostDims));
      const Dims& wanted = graph_.shapes[graph_.outputs[i]];
      if (found != wanted) {
        partition::Refuse("result " + std::to_string(i) + " has the shape " +
                          partition::ShapeText(found) + ", not " + partition::ShapeText(wanted));
      }
    }
    return runtime;
  }

  // `values`: what the runtime was set up with.
  void Invoke(Runtime* runtime, const std::vector<void*>& inputs, const std::vector<void*>& outputs,
              std::vector<ExternalValue>* values) {
    std::vector<ExternalValue> wanted;
    for (size_t i = 0; i < inputs.size(); ++i) {
      wanted.push_back({static_cast<uint32_t>(wanted.size()), Readable(i, inputs[i])});
    }
    for (void* output : outputs) wanted.push_back({static_cast<uint32_t>(wanted.size()), output});
    const auto is_same = [](const ExternalValue& a, const ExternalValue& b) {
      return a.data == b.data;
    };
    if (!std::equal(wanted.begin(), wanted.end(), values->begin(), values->end(), is_same)) {
      values->clear();  // of a set-up that fails nothing is known
      CheckStatus(GetApi().setup_runtime_v2(runtime, wanted.size(), wanted.data()),
                  "tensors of a runtime");
      *values = std::move(wanted);
    }
    CheckStatus(team_.Invoke(runtime), "a run");
  }

  // An input, or a copy of one that ends where memory may end.
  void* Readable(size_t i, void* data) {
    const size_t bytes = partition::NumElements(graph_.shapes[graph_.inputs[i]]) * sizeof(float);
    if (CanReadBehind(data, bytes)) return data;
    if (!readable_[i]) readable_[i] = partition::AllocateAligned(bytes + kReadsBehind);
    std::memcpy(readable_[i].get(), data, bytes);
    return readable_[i].get();
  }

  template <typename T>
  static void Ask(Runtime* runtime, int what, std::vector<T>* answer) {
    size_t needed = 0;
    CheckStatus(GetApi().get_runtime_profiling_info(runtime, what, answer->size() * sizeof(T),
                                                    answer->data(), &needed),
                "a profile");
  }

  static std::vector<std::string> OperatorNames(Runtime* runtime) {
    std::vector<size_t> count(1);
    Ask(runtime, kNumOperators, &count);
    // Without room it tells how much it needs, which is no success.
    size_t needed = 0;
    GetApi().get_runtime_profiling_info(runtime, kOperatorNames, 0, nullptr, &needed);
    std::vector<char> text(needed + 1);
    Ask(runtime, kOperatorNames, &text);
    std::vector<std::string> names;
    for (const char* at = text.data(); names.size() < count[0]; at += names.back().size() + 1) {
      names.emplace_back(at);
    }
    return names;
  }

  // The library tells of its operators in the order of nodes, and leaves out those that it has
  // fused or that move nothing: each is that of the next node whose kind has such a name. None is
  // where a product would be left out for it.
  StepTimes WithCalls(const std::vector<std::string>& names,
                      const std::vector<double>& seconds) const {
    StepTimes times;
    size_t next = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      std::string name = names[i];
      if (const size_t place = PlaceOf(name, next); place < graph_.nodes.size()) {
        name += " " + partition::CallName(graph_.nodes[place].call);
        next = place + 1;
      }
      times.emplace_back(name, seconds[i]);
    }
    return times;
  }

  size_t PlaceOf(const std::string& name, size_t first) const {
    const auto begins = [&](const std::string& head) { return name.rfind(head, 0) == 0; };
    for (size_t place = first; place < graph_.nodes.size(); ++place) {
      const NodeKind& kind = GetNodeKind(graph_.nodes[place].kind);
      if (std::any_of(kind.operators.begin(), kind.operators.end(), begins)) return place;
      if (kind.is_product) break;
    }
    return graph_.nodes.size();
  }

  const GraphDesc& graph_;
  const Model model_;
  Team team_;
  const RuntimeHandle runtime_;
  std::mutex mutex_;  // guards what follows, and the runtime
  std::vector<ExternalValue> values_;
  std::vector<std::shared_ptr<void>> readable_;
};

std::unique_ptr<partition::Program> Compile(const GraphDesc& graph,
                                            std::vector<std::shared_ptr<void>> constants) {
  return std::make_unique<XnnpackProgram>(graph, std::move(constants));
}

[[maybe_unused]] const bool registered =
    partition::RegisterPartitionKind("xnnpack", CheckGraph, Compile);

}  // namespace
}  // namespace tvm::collage::xnnpack
