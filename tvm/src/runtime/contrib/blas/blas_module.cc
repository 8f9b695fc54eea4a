// SPDX-License-Identifier: Apache-2.0
/*!
 * \file blas_module.cc
 * \brief The kinds of partitions that OpenBLAS ("cblas") and MKL ("mkl") run: matrix products.
 *
 * One kind of node. matmul: a (..., m, k), b (k, n) or, for a batch, a (batch, m, k) and
 * b (batch, k, n), a batch of 1 serving all; optional bias of n numbers; ints: transpose_a,
 * transpose_b, relu (0 or 1). All operands of one type, float32 or float64. Tested by
 * backends/blas/test_lower.py.
 */
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "../partition/memory.h"
#include "../partition/node_checks.h"
#include "../partition/partition_module.h"
#include "../partition/round_up.h"
#include "gemm.h"

namespace tvm {
namespace collage {
namespace blas {
namespace {

using partition::Dims;
using partition::GraphDesc;
using partition::NodeDesc;
using partition::NumElements;
using partition::ShapeText;

constexpr size_t kMostAxes = 12;

void CheckNode(const partition::NodeChecks& checks) {
  const NodeDesc& node = checks.node();
  if (node.kind != "matmul") {
    partition::Refuse("unknown operation '" + node.kind + "'; known: matmul");
  }
  checks.NumInputs(2, 3);
  checks.NoPostOps();
  const runtime::DataType dtype = checks.dtype(node.output);
  bool is_known = dtype == runtime::DataType::Float(32) || dtype == runtime::DataType::Float(64);
  for (int tensor : node.inputs) is_known = is_known && checks.dtype(tensor) == dtype;
  checks.Require(is_known, "dtypes", "not all float32, or all float64");

  const Dims &a = checks.input(0), &b = checks.input(1);
  const bool transpose_a = checks.Int("transpose_a", 0, 1) != 0;
  const bool transpose_b = checks.Int("transpose_b", 0, 1) != 0;
  checks.Int("relu", 0, 1);
  checks.Rank("second operand", b, 2, 3);
  const bool is_batch = b.size() == 3;
  // Leading axes of the first are rows, unless it is transposed or in a batch.
  checks.Rank("first operand", a, is_batch ? 3 : 2, is_batch ? 3 : transpose_a ? 2 : kMostAxes);
  const size_t m = a.size() - (transpose_a ? 1 : 2), k = a.size() - (transpose_a ? 2 : 1);
  const size_t n = b.size() - (transpose_b ? 2 : 1);
  checks.Require(a[k] == b[b.size() - (transpose_b ? 1 : 2)], "operands",
                 ShapeText(a) + " and " + ShapeText(b) + " have no product");
  Dims result(a.begin(), a.end() - 2);
  if (is_batch) {
    result[0] = std::max(a[0], b[0]);
    const bool is_even = (a[0] == 1 || a[0] == result[0]) && (b[0] == 1 || b[0] == result[0]);
    checks.Require(is_even, "operands", "their batches differ");
  }
  result.insert(result.end(), {a[m], b[n]});
  checks.SameShape("result", checks.output(), result);
  if (node.inputs.size() > 2) {
    Dims bias = checks.input(2);
    // Broadcasting allows axes of one element in front.
    while (bias.size() > 1 && bias.front() == 1) bias.erase(bias.begin());
    checks.SameShape("bias", bias, {b[n]});
  }
}

void CheckGraph(const GraphDesc& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) CheckNode(partition::NodeChecks(graph, i));
}

GemmShape ShapeOf(const GraphDesc& graph, const NodeDesc& node) {
  const Dims& a = graph.shapes[node.inputs[0]];
  const Dims& b = graph.shapes[node.inputs[1]];
  const Dims& c = graph.shapes[node.output];
  GemmShape shape;
  shape.one_thread = graph.one_thread != 0;
  shape.transpose_a = node.Int("transpose_a") != 0;
  shape.transpose_b = node.Int("transpose_b") != 0;
  shape.lda = a.back();
  shape.ldb = b.back();
  shape.n = shape.ldc = c.back();
  if (b.size() == 2) {
    shape.m = NumElements(c) / std::max<int64_t>(c.back(), 1);
    shape.k = shape.transpose_a ? a[0] : a.back();
  } else {
    shape.batch = c[0];
    shape.m = c[1];
    shape.k = shape.transpose_a ? a[1] : a[2];
    shape.stride_a = a[0] == 1 ? 0 : a[1] * a[2];
    shape.stride_b = b[0] == 1 ? 0 : b[1] * b[2];
    shape.stride_c = c[1] * c[2];
  }
  CheckSizes(shape, partition::Summary(graph, node));
  return shape;
}

/*! \brief b (n, k) as (k, n), in blocks that stay in cache. */
template <typename T>
std::shared_ptr<void> Transposed(const T* b, int64_t n, int64_t k) {
  constexpr int64_t kBlock = 32;
  std::shared_ptr<void> memory = partition::AllocateAligned(n * k * sizeof(T));
  T* result = static_cast<T*>(memory.get());
  for (int64_t i0 = 0; i0 < n; i0 += kBlock) {
    for (int64_t j0 = 0; j0 < k; j0 += kBlock) {
      for (int64_t i = i0; i < std::min(n, i0 + kBlock); ++i) {
        for (int64_t j = j0; j < std::min(k, j0 + kBlock); ++j) result[j * n + i] = b[i * k + j];
      }
    }
  }
  return memory;
}

/*! \brief Where a tensor's data is during a call. */
struct Place {
  enum Kind { kNone, kInput, kOutput, kConstant, kScratch } kind = kNone;
  int64_t position = 0;  // which input or output, or the offset in scratch memory
  std::shared_ptr<void> constant;
};

struct Step {
  int a, b, bias, c;  // tensors; bias is -1 where there is none
  GemmShape shape;
  bool is_double = false;
  bool relu = false;
  std::shared_ptr<void> weights;  // b in another order, where that is faster
  std::unique_ptr<PackedWeights> packed;
  std::string summary;
};

class BlasProgram final : public partition::Program {
 public:
  BlasProgram(const Api& api, const GraphDesc& graph, std::vector<std::shared_ptr<void>> constants)
      : api_(api), places_(graph.shapes.size()) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) Put(graph.inputs[i], Place::kInput, i);
    for (size_t i = 0; i < graph.constants.size(); ++i) {
      places_[graph.constants[i]] = {Place::kConstant, 0, std::move(constants[i])};
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const int tensor = graph.outputs[i];
      if (places_[tensor].kind == Place::kNone) {
        Put(tensor, Place::kOutput, i);
      } else {
        const int64_t bytes = Bytes(graph, tensor);
        copies_.push_back({tensor, static_cast<int>(i), bytes});
      }
    }
    for (const NodeDesc& node : graph.nodes) {
      if (places_[node.output].kind == Place::kNone) {
        Put(node.output, Place::kScratch, scratch_bytes_);
        scratch_bytes_ += partition::RoundUp(Bytes(graph, node.output), partition::kAlignment);
      }
      AddStep(graph, node);
    }
    pool_ = partition::ScratchPool::Shared(scratch_bytes_);
    DropUnreadConstants();
  }

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    const partition::ScratchPool::Block scratch(pool_.get(), scratch_bytes_);
    const auto data = [&](int tensor) -> void* {
      const Place& place = places_[tensor];
      if (place.kind == Place::kInput) return inputs[place.position];
      if (place.kind == Place::kOutput) return outputs[place.position];
      if (place.kind == Place::kConstant) return place.constant.get();
      return scratch.data() + place.position;
    };
    for (const Step& step : steps_) {
      void* b = step.weights ? step.weights.get() : data(step.b);
      void* bias = step.bias < 0 ? nullptr : data(step.bias);
      if (step.is_double) {
        Compute<double>(step, data(step.a), b, bias, data(step.c));
      } else {
        Compute<float>(step, data(step.a), b, bias, data(step.c));
      }
    }
    for (const Copy& copy : copies_) {
      std::copy_n(static_cast<const char*>(data(copy.tensor)), copy.bytes,
                  static_cast<char*>(outputs[copy.output]));
    }
  }

  std::string Summary() const final {
    std::ostringstream os;
    for (const Step& step : steps_) os << step.summary << "\n";
    return os.str();
  }

 private:
  struct Copy {
    int tensor, output;
    int64_t bytes;
  };

  static int64_t Bytes(const GraphDesc& graph, int tensor) {
    return NumElements(graph.shapes[tensor]) * graph.dtypes[tensor].bytes();
  }

  void Put(int tensor, Place::Kind kind, int64_t position) {
    places_[tensor] = {kind, position, nullptr};
  }

  /*! \brief Lets go of weights whose packed form is all that runs. */
  void DropUnreadConstants() {
    std::vector<bool> is_read(places_.size(), false);
    for (const Copy& copy : copies_) is_read[copy.tensor] = true;
    for (const Step& step : steps_) {
      is_read[step.a] = true;
      if (step.bias >= 0) is_read[step.bias] = true;
      if (!step.weights && !step.packed) is_read[step.b] = true;
    }
    for (size_t i = 0; i < places_.size(); ++i) {
      if (!is_read[i]) places_[i].constant.reset();
    }
  }

  void AddStep(const GraphDesc& graph, const NodeDesc& node) {
    Step step;
    step.a = node.inputs[0];
    step.b = node.inputs[1];
    step.bias = node.inputs.size() > 2 ? node.inputs[2] : -1;
    step.c = node.output;
    step.shape = ShapeOf(graph, node);
    step.is_double = graph.dtypes[node.output].bits() == 64;
    step.relu = node.Int("relu") != 0;
    step.summary = partition::Summary(graph, node) + (step.relu ? " + relu" : "");
    if (places_[step.b].kind == Place::kConstant) Prepare(places_[step.b].constant.get(), &step);
    steps_.push_back(std::move(step));
  }

  /*! \brief Brings constant weights into the order in which products read them fastest. */
  void Prepare(const void* raw, Step* step) const {
    GemmShape& shape = step->shape;
    if (!step->is_double) {
      step->packed = PackWeights(api_, shape, static_cast<const float*>(raw));
    }
    if (step->packed) {
      step->summary += ", weights packed";
    } else if (shape.batch == 1 && shape.transpose_b) {
      // Rows of k numbers have to be reordered in each call, rows of n less so.
      step->weights = step->is_double
                          ? Transposed(static_cast<const double*>(raw), shape.n, shape.k)
                          : Transposed(static_cast<const float*>(raw), shape.n, shape.k);
      shape.transpose_b = false;
      shape.ldb = shape.n;
      step->summary += ", weights transposed";
    }
  }

  template <typename T>
  void Compute(const Step& step, const void* a, const void* b, const void* bias, void* c) const {
    GemmData<T> data;
    data.a = static_cast<const T*>(a);
    data.b = static_cast<const T*>(b);
    data.bias = static_cast<const T*>(bias);
    data.c = static_cast<T*>(c);
    data.relu = step.relu;
    Gemm(api_, step.shape, data, step.packed.get());
  }

  const Api& api_;
  std::vector<Place> places_;
  std::vector<Step> steps_;
  std::vector<Copy> copies_;  // outputs that are inputs, constants or other outputs
  int64_t scratch_bytes_ = 0;
  std::shared_ptr<partition::ScratchPool> pool_;
};

template <const Library& (*kLibrary)()>
std::unique_ptr<partition::Program> Compile(const GraphDesc& graph,
                                            std::vector<std::shared_ptr<void>> constants) {
  return std::make_unique<BlasProgram>(kLibrary().Require(), graph, std::move(constants));
}

[[maybe_unused]] const bool registered =
    partition::RegisterPartitionKind("cblas", CheckGraph, Compile<OpenBlas>) &&
    partition::RegisterPartitionKind("mkl", CheckGraph, Compile<Mkl>);

}  // namespace
}  // namespace blas
}  // namespace collage
}  // namespace tvm
