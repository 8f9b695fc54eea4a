// SPDX-License-Identifier: Apache-2.0
/*!
 * \file ops_matmul.cc
 * \brief Dense layers and (batched) matrix products.
 *
 * inner_product: data (..., K), weights (N, K), optional bias (N).
 * matmul: a, b of equal rank >= 2, batch axes equal or 1; ints: transpose_a, transpose_b (0 or 1);
 * optional bias (N). strings: optional kernel (kernels.h). Tested by backends/dnnl/test_lower.py.
 */
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <utility>

#include "kernels.h"
#include "ops_common.h"

namespace tvm {
namespace collage {
namespace onednn {
namespace {

/*! \brief (rows, last axis): a dense layer takes all leading axes as one. */
Dims Flat(const Dims& dims) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  return {rows, dims.back()};
}

/*! \brief The value as (rows, last axis), made plain first where its layout does not allow it. */
Value Flatten(Planner* planner, int tensor) {
  const Dims& shape = planner->shape(tensor);
  const Value value = planner->Any(tensor);
  if (std::optional<MemDesc> view = value.desc.Reshape(Flat(shape))) return {*view, value.buffer};
  const Value plain = planner->Require(tensor, planner->Plain(tensor));
  return Reshaped(plain, Flat(shape));
}

void CheckBias(const partition::NodeChecks& checks) {
  if (checks.node().inputs.size() < 3) return;
  checks.SameShape("bias", checks.input(2), {checks.output().back()});
}

void CheckInnerProduct(const partition::NodeChecks& checks) {
  checks.NumInputs(2, 3);
  checks.Rank("weights", checks.input(1), 2, 2);
  checks.SameShape("result", Flat(checks.output()), {Flat(checks.input(0))[0], checks.input(1)[0]});
  CheckBias(checks);
}

void CheckMatmul(const partition::NodeChecks& checks) {
  checks.NumInputs(2, 3);
  const size_t rank = checks.output().size();
  checks.Rank("result", checks.output(), 2, 12);
  checks.Rank("first operand", checks.input(0), rank, rank);
  checks.Rank("second operand", checks.input(1), rank, rank);
  checks.Int("transpose_a", 0, 1);
  checks.Int("transpose_b", 0, 1);
  if (checks.node().ints.count("src_zero_point")) {
    checks.Int("src_zero_point", -partition::NodeChecks::kMost);
  }
  CheckBias(checks);
}

/*! \brief The desc with its last two axes swapped if asked for. */
MemDesc MaybeTranspose(const MemDesc& desc, bool transpose) {
  if (!transpose) return desc;
  std::vector<int> axes(desc.dims().size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return desc.Permute(axes);
}

void BuildInnerProduct(Planner* planner, const NodeDesc& node) {
  const Api& api = GetApi();
  // A dense layer is a product of matrices too, by other kernels: which are faster depends on the
  // shape. It takes the weights as (K, N), and a bias of as many axes as the result.
  const bool is_matmul = KernelOf(node).form == "matmul";
  const std::string what = Summary(planner->graph(), node) + (is_matmul ? " as matmul" : "");
  const Dims src_dims = Flat(planner->shape(node.inputs[0]));
  const Dims dst_shape = planner->shape(node.output);
  const Dims dst_dims = Flat(dst_shape);
  const bool is_flat = dst_shape.size() == 2;
  const int weights_tensor = node.inputs[1];
  const bool has_bias = node.inputs.size() > 2;
  const Dims columns = is_matmul ? Dims{1, dst_dims[1]} : Dims{dst_dims[1]};
  const MemDesc bias =
      has_bias ? MemDesc::Plain(columns, planner->type(node.inputs[2])) : MemDesc();

  // Operands of post-ops are whole results, one number a column, or one number.
  const PostOpChain chain(planner, node, [&](int tensor) { return Flatten(planner, tensor); });
  // Shapes beyond a matrix need a plain result to get their leading axes back.
  const dnnl_data_type_t dst_type = planner->type(node.output);
  const MemDesc dst_wanted =
      is_flat ? MemDesc::Any(dst_dims, dst_type) : MemDesc::Plain(dst_dims, dst_type);
  const MemDesc src_wanted = MemDesc::Any(src_dims, planner->type(node.inputs[0]));
  const Dims weights_dims = planner->shape(weights_tensor);
  const MemDesc weights_wanted =
      MemDesc::Any(is_matmul ? Dims{weights_dims[1], weights_dims[0]} : weights_dims,
                   planner->type(weights_tensor));
  PrimitiveDesc pd = planner->Choose(node, is_matmul ? "matmul" : "inner_product", [&] {
    PrimitiveDesc made;
    const dnnl_status_t status =
        is_matmul ? api.matmul_primitive_desc_create(made.out(), api.engine, src_wanted.get(),
                                                     weights_wanted.get(), bias.get(),
                                                     dst_wanted.get(), chain.attr())
                  : api.inner_product_forward_primitive_desc_create(
                        made.out(), api.engine, dnnl_forward_inference, src_wanted.get(),
                        weights_wanted.get(), bias.get(), dst_wanted.get(), chain.attr());
    CheckStatus(status, what);
    return made;
  });
  const MemDesc src_desc = MemDesc::Query(pd, dnnl_query_src_md);
  const MemDesc weights_desc = MemDesc::Query(pd, dnnl_query_weights_md);
  const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
  const Value src = planner->RequireFrom(Flatten(planner, node.inputs[0]), src_desc);
  const Value weights = planner->Require(weights_tensor, MaybeTranspose(weights_desc, is_matmul));
  const Value dst = chain.Result(planner, is_flat ? dst_desc : planner->Plain(node.output));
  std::vector<StepArg> args = {{DNNL_ARG_SRC, src_desc, src.buffer},
                               {DNNL_ARG_WEIGHTS, weights_desc, weights.buffer},
                               {DNNL_ARG_DST, dst_desc, dst.buffer}};
  if (has_bias) {
    const int tensor = node.inputs[2];
    args.push_back({DNNL_ARG_BIAS, bias, planner->Require(tensor, planner->Plain(tensor)).buffer});
  }
  chain.AppendArgs(planner, pd, &args);
  planner->Emit(std::move(pd), std::move(args), what);
  planner->Define(node.output, dst);
}

void BuildMatmul(Planner* planner, const NodeDesc& node) {
  const Api& api = GetApi();
  const std::string what = Summary(planner->graph(), node);
  const Dims& dst_dims = planner->shape(node.output);
  const bool has_bias = node.inputs.size() > 2;
  Dims bias_dims(dst_dims.size(), 1);
  bias_dims.back() = dst_dims.back();
  const MemDesc bias =
      has_bias ? MemDesc::Plain(bias_dims, planner->type(node.inputs[2])) : MemDesc();

  // Activations stay as they are (a transpose is only a view); constants are packed. A kernel that
  // is named was timed on numbers without gaps.
  const bool is_named = !KernelOf(node).implementation.empty();
  auto operand = [&](int tensor, bool transpose) -> std::pair<Value, MemDesc> {
    const Value value = is_named ? planner->Any(tensor) : planner->AsItLies(tensor);
    const MemDesc desc = MaybeTranspose(value.desc, transpose);
    const bool pack = planner->IsConstant(tensor);
    return {{desc, value.buffer}, pack ? MemDesc::Any(desc.dims(), planner->type(tensor)) : desc};
  };
  const auto [a, a_wanted] = operand(node.inputs[0], node.Int("transpose_a") != 0);
  const auto [b, b_wanted] = operand(node.inputs[1], node.Int("transpose_b") != 0);
  const PostOpChain chain(planner, node,
                          [&](int tensor) { return WithRank(planner, tensor, dst_dims.size()); });
  const MemDesc dst_wanted = planner->Plain(node.output);
  const auto create = [&](const MemDesc& a_layout, const MemDesc& b_layout) {
    return planner->Choose(node, "matmul", [&] {
      PrimitiveDesc made;
      CheckStatus(
          api.matmul_primitive_desc_create(made.out(), api.engine, a_layout.get(), b_layout.get(),
                                           bias.get(), dst_wanted.get(), chain.attr()),
          what);
      return made;
    });
  };
  PrimitiveDesc pd = create(a_wanted, b_wanted);
  if (IsReferenceCode(pd)) {
    // No kernel reads a matrix whose numbers lie apart along both axes, as a view may leave them.
    const auto readable = [&](const Value& value, const MemDesc& wanted) {
      const auto order = value.desc.OrderInMemory();
      const int rows = static_cast<int>(value.desc.dims().size()) - 2;
      const bool is_near = order && (order->empty() || order->back() >= rows);
      return is_near || planner->IsConstant(value)
                 ? wanted
                 : MemDesc::Plain(value.desc.dims(), value.desc.type());
    };
    PrimitiveDesc of_copies = create(readable(a, a_wanted), readable(b, b_wanted));
    if (!IsReferenceCode(of_copies)) pd = std::move(of_copies);
  }
  const MemDesc a_desc = MemDesc::Query(pd, dnnl_query_src_md);
  const MemDesc b_desc = MemDesc::Query(pd, dnnl_query_weights_md);
  const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
  const Value dst = chain.Result(planner, dst_desc);
  std::vector<StepArg> args = {{DNNL_ARG_SRC, a_desc, planner->RequireFrom(a, a_desc).buffer},
                               {DNNL_ARG_WEIGHTS, b_desc, planner->RequireFrom(b, b_desc).buffer},
                               {DNNL_ARG_DST, dst_desc, dst.buffer}};
  if (has_bias) {
    const int buffer = planner->Require(node.inputs[2], planner->Plain(node.inputs[2])).buffer;
    args.push_back({DNNL_ARG_BIAS, bias, buffer});
  }
  chain.AppendArgs(planner, pd, &args);
  planner->Emit(std::move(pd), std::move(args), what);
  planner->Define(node.output, dst);
}

[[maybe_unused]] const bool registered =
    RegisterNode("inner_product", CheckInnerProduct, BuildInnerProduct) &&
    RegisterNode("matmul", CheckMatmul, BuildMatmul);

}  // namespace
}  // namespace onednn
}  // namespace collage
}  // namespace tvm
