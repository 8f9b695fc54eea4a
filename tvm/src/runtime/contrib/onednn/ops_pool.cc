// SPDX-License-Identifier: Apache-2.0
/*!
 * \file ops_pool.cc
 * \brief Max and average pooling of one to three spatial axes; global pooling is a kernel of the
 * whole image. Resampling of images.
 *
 * ints: kernel, strides, dilation (Relay's), pad_l, pad_r. strings: layout, algorithm (max,
 * avg_include_padding, avg_exclude_padding). resample: strings layout and algorithm (nearest,
 * linear), by the shapes' ratios. Tested by test_onednn_ops.py.
 */
#include <tvm/runtime/logging.h>

#include <utility>

#include "ops_common.h"

namespace tvm {
namespace collage {
namespace onednn {
namespace {

dnnl_alg_kind_t PoolAlgorithm(const std::string& name) {
  if (name == "max") return dnnl_pooling_max;
  if (name == "avg_include_padding") return dnnl_pooling_avg_include_padding;
  if (name == "avg_exclude_padding") return dnnl_pooling_avg_exclude_padding;
  LOG(FATAL) << "ValueError: oneDNN partition: unknown pooling '" << name << "'";
  throw;  // LOG(FATAL) has thrown
}

/*! \brief The right padding that gives just this result's size (TVM rounds down or up). */
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

void BuildPool(Planner* planner, const NodeDesc& node) {
  const Api& api = GetApi();
  const std::string what = Summary(planner->graph(), node);
  const std::string& layout = node.Str("layout");
  const AxisOrder order(layout, CanonicalLayout(layout, "NC"));
  const Value src = planner->Any(node.inputs[0]);
  const MemDesc src_desc = order.To(src.desc);
  const Dims dst_dims = order.To(planner->shape(node.output));
  const Dims pad_r = EffectiveRightPadding(node, src_desc.dims(), dst_dims);
  Dims dilation = node.Ints("dilation");
  for (int64_t& d : dilation) d -= 1;

  PrimitiveDesc pd;
  const PrimitiveAttr attr = NewAttr();
  CheckStatus(
      api.pooling_forward_primitive_desc_create(
          pd.out(), api.engine, dnnl_forward_inference, PoolAlgorithm(node.Str("algorithm")),
          src_desc.get(), MemDesc::Any(dst_dims, planner->type(node.output)).get(),
          node.Ints("strides").data(), node.Ints("kernel").data(), dilation.data(),
          node.Ints("pad_l").data(), pad_r.data(), attr.get()),
      what);
  const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
  const Value dst = planner->NewResult(node.output, order.Back(dst_desc));
  planner->Emit(std::move(pd),
                {{DNNL_ARG_SRC, src_desc, src.buffer}, {DNNL_ARG_DST, dst_desc, dst.buffer}}, what);
  planner->Define(node.output, dst);
}

void BuildResample(Planner* planner, const NodeDesc& node) {
  const Api& api = GetApi();
  const std::string what = Summary(planner->graph(), node);
  const std::string& layout = node.Str("layout");
  const AxisOrder order(layout, CanonicalLayout(layout, "NC"));
  const Value src = planner->Any(node.inputs[0]);
  const MemDesc src_desc = order.To(src.desc);
  const Dims dst_dims = order.To(planner->shape(node.output));
  const bool is_linear = node.Str("algorithm") == "linear";
  PrimitiveDesc pd;
  const PrimitiveAttr attr = NewAttr();
  // Without factors they are those of the shapes.
  CheckStatus(
      api.resampling_forward_primitive_desc_create(
          pd.out(), api.engine, dnnl_forward_inference,
          is_linear ? dnnl_resampling_linear : dnnl_resampling_nearest, nullptr, src_desc.get(),
          MemDesc::Any(dst_dims, planner->type(node.output)).get(), attr.get()),
      what);
  const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
  const Value dst = planner->NewResult(node.output, order.Back(dst_desc));
  planner->Emit(std::move(pd),
                {{DNNL_ARG_SRC, src_desc, src.buffer}, {DNNL_ARG_DST, dst_desc, dst.buffer}}, what);
  planner->Define(node.output, dst);
}

[[maybe_unused]] const bool registered =
    RegisterNodeBuilder("pool", BuildPool) && RegisterNodeBuilder("resample", BuildResample);

}  // namespace
}  // namespace onednn
}  // namespace collage
}  // namespace tvm
