// SPDX-License-Identifier: Apache-2.0
// Layer normalization over the last axis.
//
// layer_norm: x, then scale and shift (one number a column) as ints.scale and ints.shift (0 or 1)
// say; floats.epsilon.
// Test: backends/dnnl/test_norms.py.
#include <utility>

#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

void CheckLayerNorm(const partition::NodeChecks& checks) {
  const int64_t given = checks.Int("scale", 0, 1) + checks.Int("shift", 0, 1);
  checks.NumInputs(1 + given, 1 + given);
  checks.Rank("data", checks.input(0), 2, 5);
  checks.SameShape("result", checks.output(), checks.input(0));
  for (int64_t i = 1; i <= given; ++i) {
    checks.SameShape("scale or shift", checks.input(i), {checks.output().back()});
  }
  checks.Float("epsilon");
  checks.NoPostOps();
}

void BuildLayerNorm(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  // Its fast kernels want whole rows: other layouts would go to the reference code.
  const Dims& dims = planner->shape(node.output);
  const Value src = planner->Require(node.inputs[0], planner->Plain(node.inputs[0]));
  const bool has_scale = node.Int("scale") != 0;
  const bool has_shift = node.Int("shift") != 0;
  const unsigned flags =
      (has_scale ? dnnl_use_scale : dnnl_normalization_flags_none) |  // NOLINT(*)
      (has_shift ? dnnl_use_shift : dnnl_normalization_flags_none);   // NOLINT(*)
  PrimitiveDesc pd = NewPrimitive(what, NewAttr().get(),
                                  GetApi().layer_normalization_forward_primitive_desc_create,
                                  dnnl_forward_inference, src.desc.get(), src.desc.get(), nullptr,
                                  static_cast<float>(node.Float("epsilon")), flags);
  const Value dst = planner->ResultOver(node.inputs[0], src, node.output);
  std::vector<StepArg> args = {{DNNL_ARG_SRC, src.desc, src.buffer},
                               {DNNL_ARG_DST, dst.desc, dst.buffer}};
  // In float32 whatever the data are.
  const MemDesc column = MemDesc::Plain({dims.back()}, dnnl_f32);
  size_t next = 1;
  for (const auto& [is_there, argument] :
       {std::pair{has_scale, DNNL_ARG_SCALE}, std::pair{has_shift, DNNL_ARG_SHIFT}}) {
    if (!is_there) continue;
    args.push_back({argument, column, planner->Require(node.inputs[next++], column).buffer});
  }
  planner->Emit(std::move(pd), std::move(args), what);
  planner->Define(node.output, dst);
}

[[maybe_unused]] const bool registered = RegisterNode("layer_norm", CheckLayerNorm, BuildLayerNorm);

}  // namespace
}  // namespace tvm::collage::onednn
