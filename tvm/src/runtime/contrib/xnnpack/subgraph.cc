// SPDX-License-Identifier: Apache-2.0
#include "subgraph.h"

#include <tvm/runtime/logging.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "../partition/memory.h"

namespace tvm::collage::xnnpack {
namespace {

// Memory is mapped by pages of so many bytes at least.
constexpr uintptr_t kPage = 4096;

}  // namespace

bool CanReadBehind(const void* data, size_t bytes) {
  const uintptr_t behind = reinterpret_cast<uintptr_t>(data) + bytes;
  return behind % kPage != 0 && behind % kPage + kReadsBehind <= kPage;
}

Builder::Builder(const GraphDesc& graph, std::vector<std::shared_ptr<void>> constants)
    : graph_(graph),
      constants_(std::move(constants)),
      constant_of_(graph.shapes.size(), -1),
      values_(graph.shapes.size(), kNoValue) {
  for (size_t i = 0; i < graph.constants.size(); ++i) {
    constant_of_[graph.constants[i]] = static_cast<int>(i);
  }
}

Model Builder::Run() {
  Subgraph* made = nullptr;
  const size_t num_inputs = graph_.inputs.size(), num_outputs = graph_.outputs.size();
  CheckStatus(GetApi().create_subgraph(static_cast<uint32_t>(num_inputs + num_outputs), 0, &made),
              "a subgraph");
  model_.subgraph.reset(made);
  for (size_t i = 0; i < num_inputs; ++i) {
    const int tensor = graph_.inputs[i];
    values_[tensor] = Define(shape(tensor), nullptr, static_cast<uint32_t>(i), kExternalInput);
  }
  std::vector<bool> is_read(graph_.shapes.size(), false);
  for (const NodeDesc& node : graph_.nodes) {
    for (int tensor : node.inputs) is_read[tensor] = true;
  }
  // Results that lie elsewhere already, or are read: behind a caller's tensor nothing may be read.
  std::vector<std::pair<int, uint32_t>> copies;
  for (size_t i = 0; i < num_outputs; ++i) {
    const int tensor = graph_.outputs[i];
    const uint32_t value =
        Define(shape(tensor), nullptr, static_cast<uint32_t>(num_inputs + i), kExternalOutput);
    if (constant_of_[tensor] >= 0 || values_[tensor] != kNoValue || is_read[tensor]) {
      copies.emplace_back(tensor, value);
    } else {
      values_[tensor] = value;
    }
  }
  for (const NodeDesc& node : graph_.nodes) GetNodeKind(node.kind).define(this, node);
  for (const auto& [tensor, value] : copies) {
    CheckStatus(GetApi().define_copy(subgraph(), Value(tensor), value, 0), "a copied result");
  }
  return std::move(model_);
}

uint32_t Builder::Value(int tensor) {
  uint32_t& value = values_[tensor];
  if (value != kNoValue) return value;
  if (constant_of_[tensor] < 0) return value = NewValue(shape(tensor));
  const std::shared_ptr<void>& data = constants_[constant_of_[tensor]];
  const int64_t count = partition::NumElements(shape(tensor));
  const void* readable = data.get();
  if (CanReadBehind(readable, count * sizeof(float))) {
    model_.weights.push_back(data);
  } else {
    float* copy = NewWeights(count);
    std::memcpy(copy, data.get(), count * sizeof(float));
    readable = copy;
  }
  return value = Define(shape(tensor), readable, kNoValue, 0);
}

uint32_t Builder::Weights(int tensor, const std::vector<int>& order, const Dims& seen_as) {
  if (constant_of_[tensor] < 0) partition::Refuse("its weights are no constants");
  const Dims& dims = shape(tensor);
  const auto* from = static_cast<const float*>(constants_[constant_of_[tensor]].get());
  float* to = NewWeights(partition::NumElements(dims));
  Dims strides(dims.size(), 1);  // of the constant
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  const auto extent = [&](int i) { return dims[order[i]]; };
  const auto stride = [&](int i) { return strides[order[i]]; };
  ICHECK_EQ(order.size(), 4U);
  for (int64_t a = 0; a < extent(0); ++a) {
    for (int64_t b = 0; b < extent(1); ++b) {
      for (int64_t c = 0; c < extent(2); ++c) {
        const float* line = from + a * stride(0) + b * stride(1) + c * stride(2);
        for (int64_t d = 0; d < extent(3); ++d) *to++ = line[d * stride(3)];
      }
    }
  }
  to -= partition::NumElements(dims);
  return Define(seen_as, to, kNoValue, 0);
}

uint32_t Builder::Filled(int64_t count, float value) {
  float* data = NewWeights(count);
  std::fill_n(data, count, value);
  return Define({count}, data, kNoValue, 0);
}

float* Builder::NewWeights(int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  model_.weights.push_back(partition::AllocateAligned(bytes + kReadsBehind));
  return static_cast<float*>(model_.weights.back().get());
}

uint32_t Builder::Define(const Dims& dims, const void* data, uint32_t external_id, uint32_t flags) {
  const std::vector<size_t> sizes = Sizes(dims);
  uint32_t id = kNoValue;
  CheckStatus(GetApi().define_tensor_value(subgraph(), kFloat32, sizes.size(), sizes.data(), data,
                                           external_id, flags, &id),
              "a tensor " + partition::ShapeText(dims));
  return id;
}

void CheckGraph(const GraphDesc& graph) {
  for (size_t i = 0; i < graph.shapes.size(); ++i) {
    const Dims& dims = graph.shapes[i];
    const std::string name = "tensor " + std::to_string(i);
    if (graph.dtypes[i] != runtime::DataType::Float(32)) partition::Refuse(name + " is no float32");
    const bool is_empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
    if (dims.empty() || dims.size() > kMostDims || is_empty) {
      partition::Refuse(name +
                        " has a shape that XNNPACK does not know: " + partition::ShapeText(dims));
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const partition::NodeChecks checks(graph, i);
    checks.NoPostOps();
    GetNodeKind(graph.nodes[i].kind).check(checks);
  }
}

}  // namespace tvm::collage::xnnpack
