// SPDX-License-Identifier: Apache-2.0
#include "conv_winograd.h"

#include <tvm/runtime/logging.h>
#include <tvm/runtime/threading_backend.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../winograd/winograd.h"
#include "kernels.h"
#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

using winograd::PostOp;

// With leading axes of extent (or stride, ...) `fill`, so that there are three.
Dims Spatial(const Dims& values, size_t skip, int64_t fill) {
  Dims result(values.begin() + skip, values.end());
  result.insert(result.begin(), 3 - result.size(), fill);
  return result;
}

// The window over an image or a volume in one group; nothing for another convolution.
std::optional<winograd::Window> WindowOf(const NodeDesc& node, const Dims& weights) {
  const Dims& strides = node.Ints("strides");
  const Dims& dilation = node.Ints("dilation");
  const size_t axes = strides.size();
  if (node.Int("groups") != 1 || axes < 2) return std::nullopt;
  if (dilation[axes - 1] != 1 || dilation[axes - 2] != 1) return std::nullopt;
  const Dims window = Spatial(weights, 2, 1);
  return winograd::Window{window[0], window[1], window[2], strides[axes - 2], strides[axes - 1]};
}

winograd::Shape ShapeOf(const NodeDesc& node, const Dims& src, const Dims& dst) {
  const Dims in = Spatial(src, 2, 1), out = Spatial(dst, 2, 1);
  const Dims pad = Spatial(node.Ints("pad_l"), 0, 0), strides = Spatial(node.Ints("strides"), 0, 1);
  const Dims dilation = Spatial(node.Ints("dilation"), 0, 1);
  winograd::Shape s;
  s.batch = src[0], s.in_channels = src[1], s.out_channels = dst[1];
  s.depth = in[0], s.height = in[1], s.width = in[2];
  s.out_depth = out[0], s.out_height = out[1], s.out_width = out[2];
  s.pad_front = pad[0], s.pad_top = pad[1], s.pad_left = pad[2];
  s.kernel_depth = 1, s.stride_depth = strides[0], s.dilation_depth = dilation[0];
  return s;
}

winograd::Strides StridesOf(const Dims& axes) {
  const Dims spatial = Spatial(axes, 2, 0);
  return {axes[0], axes[1], spatial[0], spatial[1], spatial[2]};
}

// Results that are computed at once, of depths, rows and columns.
std::string TileOf(const winograd::Form& form) {
  return std::to_string(form.depths.outputs) + "x" + std::to_string(form.rows.outputs) + "x" +
         std::to_string(form.columns.outputs);
}

// As a node names it (kernels.h).
std::string ImplementationOf(const winograd::Kernel& kernel, const winograd::Form& form) {
  return std::string(kernel.name) + ":" + TileOf(form);
}

// The one that the node names, else the one that is expected to take least.
const winograd::Fit& Chosen(const winograd::Kernel& kernel, const std::vector<winograd::Fit>& fits,
                            const NodeDesc& node) {
  const std::string named = KernelOf(node).implementation;
  const auto found = std::find_if(fits.begin(), fits.end(), [&](const winograd::Fit& fit) {
    return ImplementationOf(kernel, *fit.form) == named;
  });
  return found == fits.end() ? fits.front() : *found;  // another CPU may have none of that name
}

bool IsElementwise(const PostOpDesc& op) { return op.input < 0; }

// The node's post-ops: what the kernel does, then what follows as steps of their own.
struct Epilogue {
  std::vector<PostOp> own;
  std::vector<PostOpDesc> after;
};

// Nothing when there is an operand that the kernel cannot take.
std::optional<Epilogue> SplitPostOps(const NodeDesc& node) {
  static const auto* kinds = new std::map<std::string, PostOp::Kind>{
      {"sum", PostOp::kSum},
      {"relu", PostOp::kRelu},
      {"clip", PostOp::kClip},
      {"linear", PostOp::kLinear},
  };
  Epilogue found;
  bool has_sum = false;
  for (const PostOpDesc& op : node.post_ops) {
    const auto kind = kinds->find(op.kind);
    // The first sum's operand is what the destination holds; others lie elsewhere.
    const bool is_own = found.after.empty() && kind != kinds->end() &&
                        (IsElementwise(op) || !std::exchange(has_sum, true));
    if (is_own) {
      found.own.push_back({kind->second, op.alpha, op.beta});
    } else if (IsElementwise(op)) {
      found.after.push_back(op);
    } else {
      return std::nullopt;
    }
  }
  return found;
}

// always and never by a kernel that the node names, else by the target's option; auto.
std::string Wanted(const NodeDesc& node) {
  const std::string form = KernelOf(node).form;
  if (!form.empty()) return form == "winograd" ? "always" : "never";
  const auto option = node.strings.find("winograd");
  return option == node.strings.end() ? "auto" : option->second;
}

bool IsFloat(const Planner& planner, const NodeDesc& node) {
  for (int tensor : node.inputs) {
    if (planner.type(tensor) != dnnl_f32) return false;
  }
  return planner.type(node.output) == dnnl_f32;
}

}  // namespace

bool EmitWinograd(Planner* planner, const NodeDesc& node, const Value& weights,
                  const std::vector<StepArg>& args) {
  const std::string wanted = Wanted(node);
  const Dims dims = weights.desc.dims();
  if (wanted == "never" || !IsFloat(*planner, node)) return false;
  const std::optional<Epilogue> post_ops = SplitPostOps(node);
  if (!post_ops || !planner->IsConstant(weights)) return false;
  const Dims outputs = args[1].desc.dims();
  if (std::count(outputs.begin(), outputs.end(), 0)) return false;
  const std::optional<winograd::Window> window = WindowOf(node, dims);
  if (!window) return false;
  const int num_threads = planner->NumThreads();
  for (int lanes = VectorLanes(); lanes >= 8; lanes /= 2) {
    const winograd::Kernel* kernel = winograd::FindKernel(lanes);
    if (!kernel) continue;
    const winograd::Shape given = ShapeOf(node, args[0].desc.dims(), outputs);
    const std::vector<winograd::Fit> fits =
        winograd::FindForms(*kernel, *window, num_threads, given);
    const bool has_few = winograd::HasFewChannels(*kernel, given);
    const auto src = args[0].desc.StridesOfVectors(has_few ? 1 : lanes);
    const auto dst = args[1].desc.StridesOfVectors(lanes);
    if (fits.empty() || !src || !dst) continue;
    if (wanted != "always" && !winograd::IsFaster(*kernel, fits.front(), num_threads)) return false;
    for (const winograd::Fit& fit : fits) {
      planner->NoteKernel(KernelName("winograd", ImplementationOf(*kernel, *fit.form)));
    }
    const auto& [form, shape] = Chosen(*kernel, fits, node);
    const std::shared_ptr<void> plain =
        planner->CopyConstant(weights, MemDesc::Plain(dims, dnnl_f32));
    const std::shared_ptr<float> packed =
        winograd::PackWeights(*kernel, *form, shape, static_cast<const float*>(plain.get()));
    const winograd::Convolution conv(*kernel, *form, shape, StridesOf(*src), StridesOf(*dst),
                                     post_ops->own);
    const auto run = [conv, packed](const std::vector<void*>& operands, int num_threads,
                                    void* scratch) {
      const void* bias = operands.size() > 2 ? operands[2] : nullptr;
      conv.Run({static_cast<const float*>(operands[0]), packed.get(),
                static_cast<const float*>(bias), static_cast<float*>(operands[1])},
               num_threads, scratch);
    };
    const auto scratch_bytes = [conv](int num_threads) { return conv.scratch_bytes(num_threads); };
    planner->Emit(
        {scratch_bytes, run}, args,
        Summary(planner->graph(), node) + " by winograd:" + ImplementationOf(*kernel, *form));
    for (const PostOpDesc& op : post_ops->after) {
      EmitEltwise(planner, op, {args[1].desc, args[1].buffer}, args[1].buffer, op.kind);
    }
    return true;
  }
  return false;
}

}  // namespace tvm::collage::onednn
