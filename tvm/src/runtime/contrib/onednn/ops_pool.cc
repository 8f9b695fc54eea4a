// SPDX-License-Identifier: Apache-2.0
// Max and average pooling of one to three spatial axes; global pooling is a kernel of the whole
// image. Resampling of images.
//
// ints: kernel, strides, dilation (Relay's), pad_l, pad_r. strings: layout, algorithm (max,
// avg_include_padding, avg_exclude_padding). resample: strings layout and algorithm (nearest,
// linear), by the shapes' ratios.
// Test: backends/dnnl/test_lower.py.
#include <tvm/runtime/logging.h>

#include <utility>

#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

dnnl_alg_kind_t PoolAlgorithm(const std::string& name) {
  if (name == "max") return dnnl_pooling_max;
  if (name == "avg_include_padding") return dnnl_pooling_avg_include_padding;
  if (name == "avg_exclude_padding") return dnnl_pooling_avg_exclude_padding;
  LOG(FATAL) << "ValueError: oneDNN partition: unknown pooling '" << name << "'";
  throw;  // LOG(FATAL) has thrown
}

// The right padding that gives just this result's size (TVM rounds down or up).
Dims EffectiveRightPadding(const NodeDesc& node, const Dims& src, const Dims& dst) {
  Dims pad;
  for (size_t i = 2; i < src.size(); ++i) {
    const size_t axis = i - 2;
    const int64_t extent = (node.Ints("kernel")[axis] - 1) * node.Ints("dilation")[axis] + 1;
    pad.push_back((dst[i] - 1) * node.Ints("strides")[axis] + extent - src[i] -
                  node.Ints("pad_l")[axis]);
  }
  return pad;
}

// A node from one image to another, in oneDNN's order of axes.
struct ImageNode {
  ImageNode(Planner* planner, const NodeDesc& node)
      : order(node.Str("layout"), CanonicalLayout(node.Str("layout"), "NC")),
        src(planner->Any(node.inputs[0])),
        src_desc(order.To(src.desc)),
        dst_dims(order.To(planner->shape(node.output))),
        dst_wanted(MemDesc::Any(dst_dims, planner->type(node.output))) {}

  // Reads the image with its channels innermost.
  void PutChannelsLast(Planner* planner, const NodeDesc& node) {
    std::vector<int> to(dst_dims.size());  // from channels last to oneDNN's order
    Dims last = src_desc.dims();
    last.push_back(last[1]);
    last.erase(last.begin() + 1);
    for (size_t i = 1; i < to.size(); ++i) to[i] = static_cast<int>(i) + 1;
    to.back() = 1;
    const MemDesc wanted = MemDesc::Plain(last, src_desc.type()).Permute(to);
    src = planner->Require(node.inputs[0], order.Back(wanted));
    src_desc = wanted;
  }

  void Emit(Planner* planner, const NodeDesc& node, PrimitiveDesc pd, const std::string& what) {
    const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
    const Value dst = planner->NewResult(node.output, order.Back(dst_desc));
    planner->Emit(std::move(pd),
                  {{DNNL_ARG_SRC, src_desc, src.buffer}, {DNNL_ARG_DST, dst_desc, dst.buffer}},
                  what);
    planner->Define(node.output, dst);
  }

  const AxisOrder order;
  Value src;
  MemDesc src_desc;
  const Dims dst_dims;
  const MemDesc dst_wanted;
};

// Checks what is common; tells the number of spatial axes.
size_t CheckImage(const partition::NodeChecks& checks) {
  checks.NumInputs(1, 1);
  checks.Rank("data", checks.input(0), 3, 5);
  const size_t axes = checks.input(0).size() - 2;
  checks.Rank("result", checks.output(), axes + 2, axes + 2);
  checks.Layout("layout", "NC" + std::string("DHW").substr(3 - axes));
  checks.NoPostOps();
  return axes;
}

void CheckPool(const partition::NodeChecks& checks) {
  const size_t axes = CheckImage(checks);
  constexpr int64_t kMost = partition::NodeChecks::kMostSteps;
  const Dims& kernel = checks.Ints("kernel", axes, 1, kMost);
  const Dims& strides = checks.Ints("strides", axes, 1, kMost);
  const Dims& dilation = checks.Ints("dilation", axes, 1, kMost);
  const Dims& left = checks.Ints("pad_l", axes, 0, kMost);
  const Dims& right = checks.Ints("pad_r", axes, 0, kMost);
  const AxisOrder order(checks.Str("layout"), CanonicalLayout(checks.Str("layout"), "NC"));
  const Dims source = order.To(checks.input(0)), result = order.To(checks.output());
  for (size_t i = 0; i < axes; ++i) {
    const int64_t extent = (kernel[i] - 1) * dilation[i] + 1;
    const int64_t last = (result[i + 2] - 1) * strides[i] - left[i];
    const bool fits = left[i] < extent && last < source[i + 2] &&
                      extent < source[i + 2] + left[i] + right[i] + strides[i];
    checks.Require(fits, "kernel", "a window lies outside of the image");
  }
  checks.OneOf("algorithm", {"max", "avg_include_padding", "avg_exclude_padding"});
}

void CheckResample(const partition::NodeChecks& checks) {
  CheckImage(checks);
  checks.OneOf("algorithm", {"nearest", "linear"});
}

void BuildPool(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  ImageNode image(planner, node);
  const Dims pad_r = EffectiveRightPadding(node, image.src_desc.dims(), image.dst_dims);
  Dims dilation = node.Ints("dilation");
  for (int64_t& d : dilation) d -= 1;

  auto make = [&] {
    return NewPrimitive(what, NewAttr().get(), GetApi().pooling_forward_primitive_desc_create,
                        dnnl_forward_inference, PoolAlgorithm(node.Str("algorithm")),
                        image.src_desc.get(), image.dst_wanted.get(), node.Ints("strides").data(),
                        node.Ints("kernel").data(), dilation.data(), node.Ints("pad_l").data(),
                        pad_r.data());
  };
  PrimitiveDesc pd = make();
  if (IsReferenceCode(pd)) {  // its kernels for bytes, for few channels and for lines want this
    image.PutChannelsLast(planner, node);
    pd = make();
  }
  image.Emit(planner, node, std::move(pd), what);
}

void BuildResample(Planner* planner, const NodeDesc& node) {
  const std::string what = Summary(planner->graph(), node);
  ImageNode image(planner, node);
  const bool is_linear = node.Str("algorithm") == "linear";
  // Without factors they are those of the shapes.
  PrimitiveDesc pd = NewPrimitive(
      what, NewAttr().get(), GetApi().resampling_forward_primitive_desc_create,
      dnnl_forward_inference, is_linear ? dnnl_resampling_linear : dnnl_resampling_nearest, nullptr,
      image.src_desc.get(), image.dst_wanted.get());
  image.Emit(planner, node, std::move(pd), what);
}

[[maybe_unused]] const bool registered = RegisterNode("pool", CheckPool, BuildPool) &&
                                         RegisterNode("resample", CheckResample, BuildResample);

}  // namespace
}  // namespace tvm::collage::onednn
