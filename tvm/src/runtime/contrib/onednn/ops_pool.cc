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

/*! \brief A node from one image to another, in oneDNN's order of axes. */
struct ImageNode {
  ImageNode(Planner* planner, const NodeDesc& node)
      : order(node.Str("layout"), CanonicalLayout(node.Str("layout"), "NC")),
        src(planner->Any(node.inputs[0])),
        src_desc(order.To(src.desc)),
        dst_dims(order.To(planner->shape(node.output))),
        dst_wanted(MemDesc::Any(dst_dims, planner->type(node.output))) {}

  void Emit(Planner* planner, const NodeDesc& node, PrimitiveDesc pd, const std::string& what) {
    const MemDesc dst_desc = MemDesc::Query(pd, dnnl_query_dst_md);
    const Value dst = planner->NewResult(node.output, order.Back(dst_desc));
    planner->Emit(std::move(pd),
                  {{DNNL_ARG_SRC, src_desc, src.buffer}, {DNNL_ARG_DST, dst_desc, dst.buffer}},
                  what);
    planner->Define(node.output, dst);
  }

  const AxisOrder order;
  const Value src;
  const MemDesc src_desc;
  const Dims dst_dims;
  const MemDesc dst_wanted;
};

void BuildPool(Planner* planner, const NodeDesc& node) {
  const Api& api = GetApi();
  const std::string what = Summary(planner->graph(), node);
  ImageNode image(planner, node);
  const Dims pad_r = EffectiveRightPadding(node, image.src_desc.dims(), image.dst_dims);
  Dims dilation = node.Ints("dilation");
  for (int64_t& d : dilation) d -= 1;

  PrimitiveDesc pd;
  const PrimitiveAttr attr = NewAttr();
  CheckStatus(api.pooling_forward_primitive_desc_create(
                  pd.out(), api.engine, dnnl_forward_inference,
                  PoolAlgorithm(node.Str("algorithm")), image.src_desc.get(),
                  image.dst_wanted.get(), node.Ints("strides").data(), node.Ints("kernel").data(),
                  dilation.data(), node.Ints("pad_l").data(), pad_r.data(), attr.get()),
              what);
  image.Emit(planner, node, std::move(pd), what);
}

void BuildResample(Planner* planner, const NodeDesc& node) {
  const Api& api = GetApi();
  const std::string what = Summary(planner->graph(), node);
  ImageNode image(planner, node);
  const bool is_linear = node.Str("algorithm") == "linear";
  PrimitiveDesc pd;
  const PrimitiveAttr attr = NewAttr();
  // Without factors they are those of the shapes.
  CheckStatus(api.resampling_forward_primitive_desc_create(
                  pd.out(), api.engine, dnnl_forward_inference,
                  is_linear ? dnnl_resampling_linear : dnnl_resampling_nearest, nullptr,
                  image.src_desc.get(), image.dst_wanted.get(), attr.get()),
              what);
  image.Emit(planner, node, std::move(pd), what);
}

[[maybe_unused]] const bool registered =
    RegisterNodeBuilder("pool", BuildPool) && RegisterNodeBuilder("resample", BuildResample);

}  // namespace
}  // namespace onednn
}  // namespace collage
}  // namespace tvm
