// SPDX-License-Identifier: Apache-2.0
// Mean, sum, maximum and minimum over any axes, never by oneDNN's reference code where another of
// its kernels can do the same.
//
// reduce: strings.algorithm; reduced axes are those that are 1 in the result, but not in the
// operand. oneDNN 3.2 has a fast reduction of the innermost axes of a plain layout alone: a mean
// over rows and columns behind a convolution, as each squeeze-and-excite block has it, would take
// milliseconds.
// Test: backends/dnnl/test_reduce.py.
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

dnnl_alg_kind_t ReductionAlgorithm(const std::string& name) {
  if (name == "mean") return dnnl_reduction_mean;
  if (name == "sum") return dnnl_reduction_sum;
  if (name == "max") return dnnl_reduction_max;
  if (name == "min") return dnnl_reduction_min;
  LOG(FATAL) << "ValueError: oneDNN partition: unknown reduction '" << name << "'";
  throw;  // LOG(FATAL) has thrown
}

// A primitive that reduces `source`, whose axes are in the order of `result`.
struct Reduction {
  PrimitiveDesc pd;
  MemDesc source, result;

  bool IsReference() const { return IsReferenceCode(pd); }
};

Reduction MakeReduction(const std::string& algorithm, const MemDesc& source, const Dims& result,
                        dnnl_data_type_t type, const std::string& what) {
  const MemDesc any = MemDesc::Any(result, type);
  PrimitiveDesc pd = NewPrimitive(what, NewAttr().get(), GetApi().reduction_primitive_desc_create,
                                  ReductionAlgorithm(algorithm), source.get(), any.get(), 0.f, 0.f);
  const MemDesc chosen = MemDesc::Query(pd, dnnl_query_dst_md);
  return {std::move(pd), source, chosen};
}

// A mean as the pooling of a whole image, which has kernels for every layout; nothing
// where the axes are not those of an image or oneDNN refuses.
std::optional<Reduction> MakePooling(const SortedAxes& axes, const MemDesc& sorted,
                                     dnnl_data_type_t type) {
  const size_t spatial = axes.dims.size() - axes.kept;
  if (axes.kept != 2 || spatial < 1 || spatial > 3) return std::nullopt;
  const Dims kernel(axes.dims.begin() + 2, axes.dims.end());
  const Dims ones(spatial, 1), zeros(spatial, 0);
  Reduction made;
  const PrimitiveAttr attr = NewAttr();
  const dnnl_status_t status = GetApi().pooling_forward_primitive_desc_create(
      made.pd.out(), GetApi().engine, dnnl_forward_inference, dnnl_pooling_avg_exclude_padding,
      sorted.get(), MemDesc::Any(axes.reduced_to, type).get(), ones.data(), kernel.data(),
      zeros.data(), zeros.data(), zeros.data(), attr.get());
  if (status != dnnl_success) return std::nullopt;
  made.source = sorted;
  made.result = MemDesc::Query(made.pd, dnnl_query_dst_md);
  return made;
}

void CheckReduce(const partition::NodeChecks& checks) {
  checks.NumInputs(1, 1);
  checks.Rank("result", checks.output(), checks.input(0).size(), checks.input(0).size());
  for (size_t i = 0; i < checks.output().size(); ++i) {
    const int64_t extent = checks.output()[i];
    checks.Require(extent == 1 || extent == checks.input(0)[i], "result",
                   "an extent that is neither 1 nor its operand's");
  }
  checks.OneOf("algorithm", {"mean", "sum", "max", "min"});
  checks.NoPostOps();
}

void BuildReduce(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  const std::string& algorithm = node.Str("algorithm");
  const int operand = node.inputs[0];
  const dnnl_data_type_t type = planner->type(node.output);
  const Value any = planner->Any(operand);
  auto emit = [&](Reduction reduction, int buffer, const MemDesc& result) {
    const Value dst = planner->NewResult(node.output, result);
    planner->Emit(
        std::move(reduction.pd),
        {{DNNL_ARG_SRC, reduction.source, buffer}, {DNNL_ARG_DST, reduction.result, dst.buffer}},
        what);
    planner->Define(node.output, dst);
  };

  const Dims& dims = planner->shape(node.output);
  Reduction as_it_stands = MakeReduction(algorithm, any.desc, dims, type, what);
  if (!as_it_stands.IsReference()) {
    const MemDesc result = as_it_stands.result;
    return emit(std::move(as_it_stands), any.buffer, result);
  }
  const SortedAxes axes(planner->shape(operand), dims);
  const MemDesc sorted = any.desc.Permute(axes.to);
  if (algorithm == "mean") {
    std::optional<Reduction> pooling = MakePooling(axes, sorted, type);
    if (pooling && !pooling->IsReference()) {
      const MemDesc result = pooling->result.Permute(axes.back);
      return emit(std::move(*pooling), any.buffer, result);
    }
  }
  // A reorder costs less than reference code, which computes each element's address. As a matrix,
  // since there are kernels for five axes at most.
  const MemDesc inner = MemDesc::Plain(axes.dims, planner->type(operand));
  const int64_t results = partition::NumElements(dims);
  const Dims matrix = {results, partition::NumElements(axes.dims) / std::max<int64_t>(results, 1)};
  Reduction sorted_first =
      MakeReduction(algorithm, inner.Reshape(matrix).value(), {results, 1}, type, what);
  const std::optional<MemDesc> in_all_axes = sorted_first.result.Reshape(axes.reduced_to);
  if (!sorted_first.IsReference() && in_all_axes) {
    const MemDesc result = in_all_axes->Permute(axes.back);
    return emit(std::move(sorted_first), planner->RequireFrom({sorted, any.buffer}, inner).buffer,
                result);
  }
  const MemDesc result = as_it_stands.result;
  emit(std::move(as_it_stands), any.buffer, result);
}

[[maybe_unused]] const bool registered = RegisterNode("reduce", CheckReduce, BuildReduce);

}  // namespace
}  // namespace tvm::collage::onednn
