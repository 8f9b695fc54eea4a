// SPDX-License-Identifier: Apache-2.0
// Convolution, also transposed, of one to three spatial axes, any groups, any Relay layout of plain
// axes.
//
// inputs: data, of floats whichever the weights are not, weights, optional bias of shape
// (channels). ints: strides, dilation (Relay's: 1 is dense), pad_l, pad_r, groups. strings:
// data_layout, kernel_layout, and of a convolution optional winograd, kernel (kernels.h) and
// layout, in which its data and result lie: "any" (oneDNN's choice), "blocked", "channels last".
// Test: backends/dnnl/test_lower.py, backends/dnnl/test_layout_choice.py.
#include <tvm/runtime/logging.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "conv_winograd.h"
#include "kernels.h"
#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

// The weights' plain desc as (O, I, spatial), or (groups, O / groups, I / groups, spatial).
//
// TVM has two forms for depthwise weights with a multiplier, (C * m, 1, ...) and (C, m, ...); both
// are the same numbers in the same order. With G the layout has an axis of groups already.
Value PlainWeights(Planner* planner, const NodeDesc& node, int64_t in_channels,
                   int64_t out_channels, int64_t groups) {
  const std::string& layout = node.Str("kernel_layout");
  const bool has_groups = layout.find('G') != std::string::npos;
  const AxisOrder order(layout, CanonicalLayout(layout, has_groups ? "GOI" : "OI"));
  const int tensor = node.inputs[1];
  const Value plain = planner->Require(tensor, planner->Plain(tensor));
  const MemDesc desc = order.To(plain.desc);
  if (has_groups && groups == 1) {
    const Dims dims = desc.dims();
    return Reshaped({desc, plain.buffer}, Dims(dims.begin() + 1, dims.end()));
  }
  if (groups == 1 || has_groups) return {desc, plain.buffer};
  const Dims dims = desc.dims();
  Dims grouped = {groups, out_channels / groups, in_channels / groups};
  grouped.insert(grouped.end(), dims.begin() + 2, dims.end());
  const std::optional<MemDesc> view = desc.Reshape(grouped);
  ICHECK(view) << "oneDNN partition: weights of layout " << layout << " can't be split into "
               << groups << " groups";
  return {*view, plain.buffer};
}

// What stands before the last axis, with one number more there.
Dims WithRow(Dims dims, int64_t row) {
  dims.insert(dims.end() - 1, row);
  return dims;
}

// From the axes of a convolution's data to those of its primitive, and back.
//
// For groups along one axis oneDNN has its general product of matrices alone, 40 times slower than
// its kernels for images; so these become images of one row.
class Axes {
 public:
  Axes(const NodeDesc& node, bool is_transposed)
      : order_(node.Str("data_layout"), CanonicalLayout(node.Str("data_layout"), "NC")),
        has_row_(!is_transposed && node.Int("groups") > 1 && node.Ints("strides").size() == 1) {}

  bool has_row() const { return has_row_; }
  Dims To(const Dims& dims) const {
    return has_row_ ? WithRow(order_.To(dims), 1) : order_.To(dims);
  }
  MemDesc To(const MemDesc& desc) const {
    const MemDesc ordered = order_.To(desc);
    return has_row_ ? ordered.Reshape(WithRow(ordered.dims(), 1)).value() : ordered;
  }
  MemDesc Back(const MemDesc& desc) const {
    if (!has_row_) return order_.Back(desc);
    Dims dims = desc.dims();
    dims.erase(dims.end() - 2);
    return order_.Back(desc.Reshape(dims).value());
  }
  // A list of the node's, one number an axis, where `none` changes nothing.
  Dims Each(const Dims& numbers, int64_t none) const {
    return has_row_ ? WithRow(numbers, none) : numbers;
  }

 private:
  AxisOrder order_;
  bool has_row_;
};

// Layouts of a convolution's data and its result.
struct Ends {
  MemDesc src, dst;
  std::string name;  // for people; "" where oneDNN chooses
};

// Those to try, in order: what the node's string asks for, last what oneDNN prefers.
std::vector<Ends> EndsToTry(const Planner& planner, const NodeDesc& node, const Dims& src_dims,
                            const Dims& dst_dims) {
  // Kernels for an image of few channels, the first of a net, read it as it is.
  constexpr int64_t kFewChannels = 8;
  struct Tag {
    dnnl_format_tag_t of_axes[3];  // one to three spatial ones
    const char* name;
  };
  // The widest blocks first: those of the CPU's vectors, or as few as a group's channels.
  static const auto* tags = new std::map<std::string, std::vector<Tag>>{
      {"blocked",
       {{{dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c}, " in blocks of 16"},
        {{dnnl_nCw8c, dnnl_nChw8c, dnnl_nCdhw8c}, " in blocks of 8"},
        {{dnnl_nCw4c, dnnl_nChw4c, dnnl_nCdhw4c}, " in blocks of 4"}}},
      {"channels last", {{{dnnl_nwc, dnnl_nhwc, dnnl_ndhwc}, " with channels last"}}},
  };
  const dnnl_data_type_t src_type = TypeOfData(planner, node), type = planner.type(node.output);
  const MemDesc any = MemDesc::Any(src_dims, src_type);
  std::vector<Ends> ends;
  const auto named = node.strings.find("layout");
  const auto found = named == node.strings.end() ? tags->end() : tags->find(named->second);
  if (found != tags->end()) {
    for (const Tag& each : found->second) {
      const dnnl_format_tag_t tag = each.of_axes[src_dims.size() - 3];
      const bool has_few = src_dims[1] < kFewChannels;
      ends.push_back({has_few ? any : MemDesc::Tagged(src_dims, src_type, tag),
                      MemDesc::Tagged(dst_dims, type, tag), each.name});
    }
  }
  ends.push_back({any, MemDesc::Any(dst_dims, type), ""});
  return ends;
}

void Build(Planner* planner, const NodeDesc& node, bool is_transposed) {
  const Api& api = GetApi();
  const std::string what = Summary(planner->graph(), node);
  const Axes axes(node, is_transposed);
  const Dims src_dims = axes.To(planner->shape(node.inputs[0]));
  const Dims dst_dims = axes.To(planner->shape(node.output));
  Value weights = PlainWeights(planner, node, src_dims[1], dst_dims[1], node.Int("groups"));
  if (axes.has_row()) weights = Reshaped(weights, WithRow(weights.desc.dims(), 1));
  const bool has_bias = node.inputs.size() > 2;
  const MemDesc bias =
      has_bias ? MemDesc::Plain({dst_dims[1]}, planner->type(node.inputs[2])) : MemDesc();
  Dims dilates = axes.Each(node.Ints("dilation"), 1);
  for (int64_t& d : dilates) d -= 1;
  const Dims strides = axes.Each(node.Ints("strides"), 1);
  const Dims pad_l = axes.Each(node.Ints("pad_l"), 0), pad_r = axes.Each(node.Ints("pad_r"), 0);

  const PostOpChain chain(
      planner, node,
      [&](int tensor) -> Value {
        const Value value = WithRank(planner, tensor, planner->shape(node.output).size());
        return {axes.To(value.desc), value.buffer};
      },
      /*may_sum=*/true,
      FreeLayouts{dst_dims, [&](const MemDesc& desc) { return axes.Back(desc); }});
  const auto create = is_transposed ? api.deconvolution_forward_primitive_desc_create
                                    : api.convolution_forward_primitive_desc_create;
  const MemDesc any_weights = MemDesc::Any(weights.desc.dims(), planner->type(node.inputs[1]));
  const std::vector<Ends> to_try = EndsToTry(*planner, node, src_dims, dst_dims);
  std::string layout;
  FusedPrimitive made(planner, node, chain, [&](const_dnnl_primitive_attr_t attr) {
    for (const Ends& ends : to_try) {
      PrimitiveDesc pd;
      const dnnl_status_t status =
          create(pd.out(), api.engine, dnnl_forward_inference,
                 is_transposed ? dnnl_deconvolution_direct : dnnl_convolution_direct,
                 ends.src.get(), any_weights.get(), bias.get(), ends.dst.get(), strides.data(),
                 dilates.data(), pad_l.data(), pad_r.data(), attr);
      const bool is_last = &ends == &to_try.back();
      if (is_last) CheckStatus(status, what);
      if (!is_last && (status != dnnl_success || IsReferenceCode(pd))) continue;
      layout = ends.name;
      return pd;
    }
    throw std::logic_error("the last one is taken or refused");
  });

  NodeDesc first = node;  // without what runs behind it
  if (!made.has_post_ops) first.post_ops.clear();
  const MemDesc src_desc = MemDesc::Query(made.pd, dnnl_query_src_md);
  const MemDesc weights_desc = MemDesc::Query(made.pd, dnnl_query_weights_md);
  const MemDesc dst_desc = MemDesc::Query(made.pd, dnnl_query_dst_md);
  const Value src = planner->Require(node.inputs[0], axes.Back(src_desc));
  const MemDesc layout_of_result = axes.Back(dst_desc);
  const Value dst = made.has_post_ops ? chain.Result(planner, layout_of_result)
                                      : planner->NewResult(node.output, layout_of_result);
  std::vector<StepArg> args = {{DNNL_ARG_SRC, src_desc, src.buffer},
                               {DNNL_ARG_DST, dst_desc, dst.buffer}};
  if (has_bias) {
    args.push_back({DNNL_ARG_BIAS, bias, planner->Require(node.inputs[2], bias).buffer});
  }
  if (is_transposed || !EmitWinograd(planner, first, weights, args)) {
    const Value packed = planner->RequireFrom(weights, weights_desc);
    planner->NoteKernel(node.kind, made.pd);
    args.push_back({DNNL_ARG_WEIGHTS, weights_desc, packed.buffer});
    if (made.has_post_ops) chain.AppendArgs(planner, made.pd, &args);
    planner->Emit(std::move(made.pd), std::move(args), Summary(planner->graph(), first) + layout);
  }
  if (made.has_post_ops) {
    planner->Define(node.output, dst);
  } else {
    EmitPostOps(planner, node, dst);
  }
}

void CheckConv(const partition::NodeChecks& checks) {
  checks.NumInputs(2, 3);
  checks.Rank("data", checks.input(0), 3, 5);
  const size_t axes = checks.input(0).size() - 2;
  const std::string spatial = std::string("DHW").substr(3 - axes);
  checks.Rank("result", checks.output(), axes + 2, axes + 2);
  checks.Layout("data_layout", "NC" + spatial);
  const Dims& weights = checks.input(1);
  checks.Rank("weights", weights, axes + 2, axes + 3);
  const bool has_groups = weights.size() == axes + 3;
  checks.Layout("kernel_layout", (has_groups ? "GOI" : "OI") + spatial);
  constexpr int64_t kMost = partition::NodeChecks::kMostSteps;
  for (const char* key : {"strides", "dilation"}) checks.Ints(key, axes, 1, kMost);
  for (const char* key : {"pad_l", "pad_r"}) checks.Ints(key, axes, -kMost, kMost);
  if (checks.node().ints.count("src_zero_point")) {
    checks.Int("src_zero_point", -partition::NodeChecks::kMost);
  }
  if (checks.node().strings.count("winograd")) {
    checks.OneOf("winograd", {"auto", "always", "never"});
  }
  if (checks.node().strings.count("layout")) {
    checks.OneOf("layout", {"any", "blocked", "channels last"});
  }
  const int64_t groups = checks.Int("groups", 1);
  const AxisOrder order(checks.Str("data_layout"), "NC" + spatial);
  const int64_t in_channels = order.To(checks.input(0))[1];
  const int64_t out_channels = order.To(checks.output())[1];
  checks.Require(in_channels % groups == 0 && out_channels % groups == 0, "groups",
                 "they do not divide " + std::to_string(in_channels) + " and " +
                     std::to_string(out_channels) + " channels");
  if (has_groups) {
    const size_t axis = checks.Str("kernel_layout").find('G');
    checks.Require(weights[axis] == groups, "groups", "the weights have others");
  }
  if (checks.node().inputs.size() > 2) checks.SameShape("bias", checks.input(2), {out_channels});
}

void BuildConv(Planner* planner, const NodeDesc& node) { Build(planner, node, false); }
void BuildDeconv(Planner* planner, const NodeDesc& node) { Build(planner, node, true); }

[[maybe_unused]] const bool registered =
    RegisterNode("conv", CheckConv, BuildConv) && RegisterNode("deconv", CheckConv, BuildDeconv);

}  // namespace
}  // namespace tvm::collage::onednn
