// SPDX-License-Identifier: Apache-2.0
// Dense layers and (batched) matrix products.
//
// inner_product: data (..., K), of floats whichever the weights are not, weights (N, K), optional
// bias (N).
// matmul: a, b of equal rank >= 2, batch axes equal or 1; ints: transpose_a, transpose_b (0 or 1);
// optional bias (N). strings: optional kernel (kernels.h).
// Test: backends/dnnl/test_lower.py.
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <utility>

#include "kernels.h"
#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

// (rows, last axis): a dense layer takes all leading axes as one.
Dims Flat(const Dims& dims) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  return {rows, dims.back()};
}

// The value as (rows, last axis), made plain first where its layout does not allow it.
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

// The desc with its last two axes swapped if asked for.
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
  const MemDesc src_wanted = MemDesc::Any(src_dims, TypeOfData(*planner, node));
  const Dims weights_dims = planner->shape(weights_tensor);
  const MemDesc weights_wanted =
      MemDesc::Any(is_matmul ? Dims{weights_dims[1], weights_dims[0]} : weights_dims,
                   planner->type(weights_tensor));
  PrimitiveDesc pd = planner->Choose(node, is_matmul ? "matmul" : "inner_product", [&] {
    return is_matmul
               ? NewPrimitive(what, chain.attr(), api.matmul_primitive_desc_create,
                              src_wanted.get(), weights_wanted.get(), bias.get(), dst_wanted.get())
               : NewPrimitive(what, chain.attr(), api.inner_product_forward_primitive_desc_create,
                              dnnl_forward_inference, src_wanted.get(), weights_wanted.get(),
                              bias.get(), dst_wanted.get());
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

// An operand of a product of matrices. Activations stay as they are (a transpose is only a view),
// also where they are a part of another tensor; constants are packed.
//
// Some of oneDNN's kernels take a part for the beginning of its tensor, since they read from the
// pointer that a memory has, without the descriptor's offset (those by gemm, where there is one
// product). So oneDNN gets the part as memory of its own, which begins at the part's first number.
struct Operand {
  Operand(Planner* planner, int tensor, bool transpose, bool without_gaps)
      : value(without_gaps ? planner->Any(tensor) : planner->AsItLies(tensor)) {
    if (!value.desc.FromItsFirst()) value = planner->Any(tensor);
    value.desc = MaybeTranspose(value.desc, transpose);
    wanted = value.desc;
    if (planner->IsConstant(tensor)) {
      wanted = MemDesc::Any(value.desc.dims(), planner->type(tensor));
    } else if (const auto part = value.desc.FromItsFirst()) {
      wanted = part->first;
      begin = part->second * planner->graph().dtypes[tensor].bytes();
    }
  }

  // What the step gets, in the layout that its primitive has chosen.
  StepArg Arg(Planner* planner, int arg, const MemDesc& chosen) const {
    if (chosen == wanted) return {arg, chosen, value.buffer, begin};
    return {arg, chosen, planner->RequireFrom(value, chosen).buffer};
  }

  Value value;  // where it lies
  MemDesc wanted;
  int64_t begin = 0;
};

void BuildMatmul(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  const Dims& dst_dims = planner->shape(node.output);
  const bool has_bias = node.inputs.size() > 2;
  Dims bias_dims(dst_dims.size(), 1);
  bias_dims.back() = dst_dims.back();
  const MemDesc bias =
      has_bias ? MemDesc::Plain(bias_dims, planner->type(node.inputs[2])) : MemDesc();

  // A kernel that is named was timed on numbers without gaps.
  const bool is_named = !KernelOf(node).implementation.empty();
  const Operand a(planner, node.inputs[0], node.Int("transpose_a") != 0, is_named);
  const Operand b(planner, node.inputs[1], node.Int("transpose_b") != 0, is_named);
  const PostOpChain chain(planner, node,
                          [&](int tensor) { return WithRank(planner, tensor, dst_dims.size()); });
  const MemDesc dst_wanted = planner->Plain(node.output);
  const auto create = [&](const MemDesc& a_layout, const MemDesc& b_layout) {
    return planner->Choose(node, "matmul", [&] {
      return NewPrimitive(what, chain.attr(), GetApi().matmul_primitive_desc_create, a_layout.get(),
                          b_layout.get(), bias.get(), dst_wanted.get());
    });
  };
  PrimitiveDesc pd = create(a.wanted, b.wanted);
  if (IsReferenceCode(pd)) {
    // No kernel reads a matrix whose numbers lie apart along both axes, as a view may leave them.
    const auto readable = [&](const Operand& operand) {
      const MemDesc& desc = operand.value.desc;
      const auto order = desc.OrderInMemory();
      const int rows = static_cast<int>(desc.dims().size()) - 2;
      const bool is_near = order && (order->empty() || order->back() >= rows);
      return is_near || planner->IsConstant(operand.value)
                 ? operand.wanted
                 : MemDesc::Plain(desc.dims(), desc.type());
    };
    PrimitiveDesc of_copies = create(readable(a), readable(b));
    if (!IsReferenceCode(of_copies)) pd = std::move(of_copies);
  }
  const MemDesc a_desc = MemDesc::Query(pd, dnnl_query_src_md);
  const MemDesc b_desc = MemDesc::Query(pd, dnnl_query_weights_md);
  const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
  const Value dst = chain.Result(planner, dst_desc);
  std::vector<StepArg> args = {a.Arg(planner, DNNL_ARG_SRC, a_desc),
                               b.Arg(planner, DNNL_ARG_WEIGHTS, b_desc),
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
}  // namespace tvm::collage::onednn
