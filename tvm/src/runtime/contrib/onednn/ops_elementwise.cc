// SPDX-License-Identifier: Apache-2.0
// Elementwise functions, binary operations with broadcast, softmax.
//
// All keep their operand's layout. eltwise: strings.algorithm, floats.alpha, floats.beta. binary:
// strings.algorithm; the second operand may have axes of 1 or fewer axes, the first has the
// result's shape. prelu: data, and slopes that broadcast to it. softmax, log_softmax: ints.axis,
// not negative.
// Test: backends/dnnl/test_lower.py.
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <utility>

#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

void CheckEltwise(const partition::NodeChecks& checks) {
  checks.NumInputs(1, 1);
  checks.SameShape("result", checks.output(), checks.input(0));
  checks.Float("alpha");
  checks.Float("beta");
  checks.Require(IsEltwise(checks.Str("algorithm")), "algorithm", "it is unknown");
  checks.NoPostOps();
}

void CheckBinary(const partition::NodeChecks& checks) {
  checks.NumInputs(2, 2);
  checks.SameShape("result", checks.output(), checks.input(0));
  checks.Rank("second operand", checks.input(1), 1, checks.output().size());
  checks.Require(IsBinary(checks.Str("algorithm")), "algorithm", "it is unknown");
}

void CheckPRelu(const partition::NodeChecks& checks) {
  checks.NumInputs(2, 2);
  checks.SameShape("result", checks.output(), checks.input(0));
  const Dims& slopes = checks.input(1);
  checks.Rank("slopes", slopes, 1, checks.output().size());
  const auto is_long = [](int64_t extent) { return extent > 1; };
  checks.Require(std::count_if(slopes.begin(), slopes.end(), is_long) < 2, "slopes",
                 "they differ along several axes");
  checks.NoPostOps();
}

void CheckAxis(const partition::NodeChecks& checks) {
  checks.Int("axis", 0, static_cast<int64_t>(checks.output().size()) - 1);
  checks.NoPostOps();
}

void CheckSoftmax(const partition::NodeChecks& checks) {
  checks.NumInputs(1, 1);
  checks.SameShape("result", checks.output(), checks.input(0));
  CheckAxis(checks);
}

void BuildEltwise(Planner* planner, const NodeDesc& node) {
  const Value src = planner->Any(node.inputs[0]);
  const Value dst = planner->ResultOver(node.inputs[0], src, node.output);
  const PostOpDesc function{node.Str("algorithm"), static_cast<float>(node.Float("alpha")),
                            static_cast<float>(node.Float("beta"))};
  EmitEltwise(planner, function, src, dst.buffer, Summary(planner->graph(), node));
  planner->Define(node.output, dst);
}

void BuildBinary(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  const Dims& dims = planner->shape(node.output);
  int first = node.inputs[0];
  int second = node.inputs[1];
  const std::string& algorithm = node.Str("algorithm");
  const bool is_same_shape = planner->shape(second) == dims;
  // Of two layouts the one that is not plain wins: it is what the neighbours like.
  MemDesc desc = planner->Layout(first);
  if (is_same_shape && desc == planner->Plain(first)) desc = planner->Layout(second);
  const Value a = planner->Require(first, desc);
  const MemDesc b_wanted =
      is_same_shape
          ? desc
          : MemDesc::Any(WithRank(planner, second, dims.size()).desc.dims(), planner->type(second));
  const PostOpChain chain(
      planner, node, [&](int tensor) { return WithRank(planner, tensor, dims.size()); },
      /*may_sum=*/false, FreeLayouts{dims, [](const MemDesc& layout) { return layout; }});
  FusedPrimitive made(planner, node, chain, [&](const_dnnl_primitive_attr_t attr) {
    return NewPrimitive(what, attr, GetApi().binary_primitive_desc_create,
                        BinaryAlgorithm(algorithm), desc.get(), b_wanted.get(), desc.get());
  });
  if (!made.has_post_ops || (IsReferenceCode(made.pd) && CanSplit(*planner, node))) {
    auto place = [&](const Value& value) {
      return value.buffer == a.buffer ? planner->ResultOver(first, a, node.output)
                                      : planner->NewResult(node.output, value.desc);
    };
    EmitPostOps(planner, node, EmitBinary(planner, algorithm, a, second, place, what));
    return;
  }
  const MemDesc b_desc = MemDesc::Query(made.pd, dnnl_query_src_md, 1);
  const Value b =
      is_same_shape ? planner->Require(second, desc) : WithRank(planner, second, dims.size());
  const Value dst = planner->ResultOver(first, a, node.output);
  std::vector<StepArg> args = {{DNNL_ARG_SRC_0, a.desc, a.buffer},
                               {DNNL_ARG_SRC_1, b_desc, planner->RequireFrom(b, b_desc).buffer},
                               {DNNL_ARG_DST, dst.desc, dst.buffer}};
  chain.AppendArgs(planner, made.pd, &args);
  planner->Emit(std::move(made.pd), std::move(args), what);
  planner->Define(node.output, dst);
}

void BuildPRelu(Planner* planner, const NodeDesc& node) {
  const int input = node.inputs[0];
  auto place = [&](const Value& value) { return planner->ResultOver(input, value, node.output); };
  planner->Define(node.output, EmitPRelu(planner, planner->Any(input), node.inputs[1], place,
                                         Summary(planner->graph(), node)));
}

void BuildSoftmax(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  const int input = node.inputs[0];
  auto make = [&](const MemDesc& desc, size_t axis) {
    return NewPrimitive(what, NewAttr().get(), GetApi().softmax_forward_primitive_desc_create,
                        dnnl_forward_inference,
                        node.kind == "log_softmax" ? dnnl_softmax_log : dnnl_softmax_accurate,
                        desc.get(), desc.get(), static_cast<int>(axis));
  };
  const size_t axis = node.Int("axis");
  Value src = planner->Any(input);
  MemDesc desc = src.desc;  // as the primitive sees it
  PrimitiveDesc pd = make(desc, axis);
  if (IsReferenceCode(pd) && planner->shape(input)[axis] > 1) {  // it is fast on the last axis
    Dims result = planner->shape(input);
    result[axis] = 1;
    const SortedAxes axes(planner->shape(input), result);
    desc = MemDesc::Plain(axes.dims, src.desc.type());
    src = planner->Require(input, desc.Permute(axes.back));
    pd = make(desc, axes.dims.size() - 1);
  }
  const Value dst = planner->ResultOver(input, src, node.output);
  planner->Emit(std::move(pd), {{DNNL_ARG_SRC, desc, src.buffer}, {DNNL_ARG_DST, desc, dst.buffer}},
                what);
  planner->Define(node.output, dst);
}

[[maybe_unused]] const bool registered = RegisterNode("eltwise", CheckEltwise, BuildEltwise) &&
                                         RegisterNode("binary", CheckBinary, BuildBinary) &&
                                         RegisterNode("prelu", CheckPRelu, BuildPRelu) &&
                                         RegisterNode("softmax", CheckSoftmax, BuildSoftmax) &&
                                         RegisterNode("log_softmax", CheckSoftmax, BuildSoftmax);

}  // namespace
}  // namespace tvm::collage::onednn
