// SPDX-License-Identifier: Apache-2.0
// The kinds of nodes, one row a kind: what must hold of its description, and how it is added.
//
// All that a node reads and writes is checked by shapes here: versions of the library believe some
// of it unseen.
//
// Windows: ints strides, dilation, pads (top, left, bottom, right); images are NHWC. Kinds with a
// clamp behind: floats low, high, where they are finite.
// Test: backends/xnnpack/test_lower.py, runtime/test_partition_checks.py.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "subgraph.h"

namespace tvm::collage::xnnpack {
namespace {

using partition::NodeChecks;
using partition::NumElements;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kMostSteps = NodeChecks::kMostSteps;
constexpr size_t kMostJoined = 5;  // operands of one node

float Bound(const NodeDesc& node, const char* name, float otherwise) {
  const auto found = node.floats.find(name);
  return found == node.floats.end() ? otherwise : static_cast<float>(found->second);
}

float Low(const NodeDesc& node) { return Bound(node, "low", -kInfinity); }
float High(const NodeDesc& node) { return Bound(node, "high", kInfinity); }

uint32_t Number(int64_t value) { return static_cast<uint32_t>(value); }

void Check(int status, Builder* builder, const NodeDesc& node) {
  if (status == 0) return;
  std::string what = node.kind;
  for (int tensor : node.inputs) what += " " + partition::ShapeText(builder->shape(tensor));
  CheckStatus(status, what);
}

// --- windows -------------------------------------------------------------------------------------

struct Windows {
  explicit Windows(const NodeDesc& node)
      : strides(node.Ints("strides")), dilation(node.Ints("dilation")), pads(node.Ints("pads")) {}
  uint32_t top() const { return Number(pads[0]); }
  uint32_t left() const { return Number(pads[1]); }
  uint32_t bottom() const { return Number(pads[2]); }
  uint32_t right() const { return Number(pads[3]); }

  const Dims &strides, &dilation, &pads;
};

void CheckWindows(const NodeChecks& checks) {
  checks.Rank("data", checks.input(0), 4, 4);
  checks.Rank("result", checks.output(), 4, 4);
  checks.Ints("strides", 2, 1, kMostSteps);
  checks.Ints("dilation", 2, 1, kMostSteps);
  checks.Ints("pads", 4, 0, kMostSteps);
}

// The result has as many windows as fit into the image, and so many channels.
void CheckWindowsFit(const NodeChecks& checks, const Dims& kernel, int64_t channels) {
  const NodeDesc& node = checks.node();
  Dims result = {checks.input(0)[0], 0, 0, channels};
  for (int i : {0, 1}) {
    const int64_t extent = (kernel[i] - 1) * node.Ints("dilation")[i] + 1;
    const int64_t room =
        checks.input(0)[i + 1] + node.Ints("pads")[i] + node.Ints("pads")[i + 2] - extent;
    checks.Require(room >= 0, "pads", "a window is larger than the image");
    result[i + 1] = room / node.Ints("strides")[i] + 1;
  }
  checks.SameShape("result", checks.output(), result);
}

// Where each letter stands in a layout of weights.
std::vector<int> Places(const std::string& layout, const std::string& letters) {
  std::vector<int> places;
  for (char letter : letters) places.push_back(static_cast<int>(layout.find(letter)));
  return places;
}

void CheckConvolution(const NodeChecks& checks) {
  checks.NumInputs(2, 3);
  CheckWindows(checks);
  checks.Layout("kernel_layout", "OIHW");
  checks.Rank("weights", checks.input(1), 4, 4);
  const std::vector<int> places = Places(checks.Str("kernel_layout"), "OIHW");
  const Dims& weights = checks.input(1);
  const int64_t outputs = weights[places[0]], inputs = weights[places[1]];
  const Dims kernel = {weights[places[2]], weights[places[3]]};
  const bool is_transposed = checks.node().kind == "deconv";
  const int64_t groups = is_transposed ? 1 : checks.Int("groups", 1);
  checks.Require(inputs * groups == checks.input(0)[3], "weights", "they have other channels");
  checks.Require(outputs % groups == 0, "groups", "they do not divide the channels");
  if (checks.node().inputs.size() > 2) checks.SameShape("bias", checks.input(2), {outputs});
  if (!is_transposed) {
    CheckWindowsFit(checks, kernel, outputs);
    return;
  }
  const Dims& more = checks.Ints("more", 2, 0, kMostSteps);
  Dims result = {checks.input(0)[0], 0, 0, outputs};
  for (int i : {0, 1}) {
    const NodeDesc& node = checks.node();
    const int64_t between = (checks.input(0)[i + 1] - 1) * node.Ints("strides")[i];
    const int64_t pads = node.Ints("pads")[i] + node.Ints("pads")[i + 2];
    result[i + 1] = between + more[i] + (kernel[i] - 1) * node.Ints("dilation")[i] + 1 - pads;
  }
  checks.SameShape("result", checks.output(), result);
}

void DefineConvolution(Builder* builder, const NodeDesc& node) {
  const Windows windows(node);
  const std::vector<int> places = Places(node.Str("kernel_layout"), "OHWI");
  const Dims& kernel = builder->shape(node.inputs[1]);
  const int64_t outputs = kernel[places[0]], height = kernel[places[1]], width = kernel[places[2]];
  const int64_t inputs = kernel[places[3]];
  const bool is_transposed = node.kind == "deconv";
  const int64_t groups = is_transposed ? 1 : node.Int("groups");
  const uint32_t data = builder->Input(node.inputs[0]);
  const uint32_t bias =
      node.inputs.size() > 2 ? builder->Input(node.inputs[2]) : builder->Filled(outputs, 0.f);
  const uint32_t result = builder->Output(node);
  const float low = Low(node), high = High(node);
  const auto stride = [&](int i) { return Number(windows.strides[i]); };
  const auto dilation = [&](int i) { return Number(windows.dilation[i]); };
  const Api& api = GetApi();
  if (!is_transposed && groups > 1 && inputs == 1) {
    const std::vector<int> order = {places[3], places[1], places[2], places[0]};
    const uint32_t filter = builder->Weights(node.inputs[1], order, {1, height, width, outputs});
    Check(api.define_depthwise_convolution_2d(
              builder->subgraph(), windows.top(), windows.right(), windows.bottom(), windows.left(),
              Number(height), Number(width), stride(0), stride(1), dilation(0), dilation(1),
              Number(outputs / groups), groups, low, high, data, filter, bias, result, 0),
          builder, node);
    return;
  }
  const uint32_t filter =
      builder->Weights(node.inputs[1], places, {outputs, height, width, inputs});
  if (is_transposed) {
    const Dims& more = node.Ints("more");
    Check(api.define_deconvolution_2d(builder->subgraph(), windows.top(), windows.right(),
                                      windows.bottom(), windows.left(), Number(more[0]),
                                      Number(more[1]), Number(height), Number(width), stride(0),
                                      stride(1), dilation(0), dilation(1), 1, inputs, outputs, low,
                                      high, data, filter, bias, result, 0),
          builder, node);
    return;
  }
  Check(api.define_convolution_2d(
            builder->subgraph(), windows.top(), windows.right(), windows.bottom(), windows.left(),
            Number(height), Number(width), stride(0), stride(1), dilation(0), dilation(1),
            Number(groups), inputs, outputs / groups, low, high, data, filter, bias, result, 0),
        builder, node);
}

void CheckPool(const NodeChecks& checks) {
  checks.NumInputs(1, 1);
  CheckWindows(checks);
  const Dims& kernel = checks.Ints("kernel", 2, 1, kMostSteps);
  checks.OneOf("algorithm", {"max", "avg"});
  CheckWindowsFit(checks, kernel, checks.input(0)[3]);
  const NodeDesc& node = checks.node();
  for (int i : {0, 1}) {
    // One that reads the padding alone would have nothing to read.
    const int64_t dilation = node.Ints("dilation")[i];
    const int64_t pads = std::max(node.Ints("pads")[i], node.Ints("pads")[i + 2]);
    const bool fits = pads < (kernel[i] - 1) * dilation + 1 &&
                      (pads == 0 || dilation == 1 || dilation <= checks.input(0)[i + 1]);
    checks.Require(fits, "pads", "a window lies outside of the image");
  }
}

void DefinePool(Builder* builder, const NodeDesc& node) {
  const Windows windows(node);
  const Dims& kernel = node.Ints("kernel");
  const uint32_t data = builder->Input(node.inputs[0]), result = builder->Output(node);
  const float low = Low(node), high = High(node);
  const uint32_t height = Number(kernel[0]), width = Number(kernel[1]);
  const uint32_t rows = Number(windows.strides[0]), columns = Number(windows.strides[1]);
  if (node.Str("algorithm") == "max") {
    Check(GetApi().define_max_pooling_2d(builder->subgraph(), windows.top(), windows.right(),
                                         windows.bottom(), windows.left(), height, width, rows,
                                         columns, Number(windows.dilation[0]),
                                         Number(windows.dilation[1]), low, high, data, result, 0),
          builder, node);
  } else {
    Check(GetApi().define_average_pooling_2d(builder->subgraph(), windows.top(), windows.right(),
                                             windows.bottom(), windows.left(), height, width, rows,
                                             columns, low, high, data, result, 0),
          builder, node);
  }
}

// --- products ------------------------------------------------------------------------------------

void CheckDense(const NodeChecks& checks) {
  checks.NumInputs(2, 3);
  checks.Rank("weights", checks.input(1), 2, 2);
  checks.Require(checks.input(0).back() == checks.input(1)[1], "weights",
                 "they have other columns");
  if (checks.node().inputs.size() > 2) {
    checks.SameShape("bias", checks.input(2), {checks.input(1)[0]});
  }
  Dims result = checks.input(0);
  result.back() = checks.input(1)[0];
  checks.SameShape("result", checks.output(), result);
}

void DefineDense(Builder* builder, const NodeDesc& node) {
  const bool has_bias = node.inputs.size() > 2;
  Check(GetApi().define_fully_connected(
            builder->subgraph(), Low(node), High(node), builder->Input(node.inputs[0]),
            builder->Input(node.inputs[1]), has_bias ? builder->Input(node.inputs[2]) : kNoValue,
            builder->Output(node), 0),
        builder, node);
}

void CheckMatmul(const NodeChecks& checks) {
  checks.NumInputs(2, 2);
  checks.Rank("first operand", checks.input(0), 2, kMostDims);
  Dims result = checks.input(0);
  const size_t rank = result.size();
  Dims second = checks.input(1);
  checks.Rank("second operand", second, rank, rank);
  if (checks.Int("transpose_b", 0, 1)) std::swap(second[rank - 1], second[rank - 2]);
  checks.Require(second[rank - 2] == result[rank - 1], "second operand", "it has other rows");
  result[rank - 1] = second[rank - 1];
  second[rank - 2] = result[rank - 2];
  checks.SameShape("second operand", second, result);  // but for the product's own axes
  checks.SameShape("result", checks.output(), result);
}

void DefineMatmul(Builder* builder, const NodeDesc& node) {
  Check(GetApi().define_batch_matrix_multiply(builder->subgraph(), builder->Input(node.inputs[0]),
                                              builder->Input(node.inputs[1]), builder->Output(node),
                                              node.Int("transpose_b") ? kTransposeB : 0),
        builder, node);
}

// --- functions of elements -----------------------------------------------------------------------

template <Unary* Api::* function>
void DefineUnary(Builder* builder, const NodeDesc& node) {
  Check((GetApi().*function)(builder->subgraph(), builder->Input(node.inputs[0]),
                             builder->Output(node), 0),
        builder, node);
}

template <Binary* Api::* function>
void DefineBinary(Builder* builder, const NodeDesc& node) {
  Check((GetApi().*function)(builder->subgraph(), builder->Input(node.inputs[0]),
                             builder->Input(node.inputs[1]), builder->Output(node), 0),
        builder, node);
}

template <BoundedBinary* Api::* function>
void DefineBounded(Builder* builder, const NodeDesc& node) {
  Check((GetApi().*function)(builder->subgraph(), -kInfinity, kInfinity,
                             builder->Input(node.inputs[0]), builder->Input(node.inputs[1]),
                             builder->Output(node), 0),
        builder, node);
}

void CheckUnary(const NodeChecks& checks) {
  checks.NumInputs(1, 1);
  checks.SameShape("result", checks.output(), checks.input(0));
}

void CheckWithAlpha(const NodeChecks& checks) {
  CheckUnary(checks);
  checks.Float("alpha");
}

// Axes are aligned at the last one; one of 1 serves all of the other operand's.
void CheckBinary(const NodeChecks& checks) {
  checks.NumInputs(2, 2);
  Dims result = checks.input(0), second = checks.input(1);
  const size_t rank = std::max(result.size(), second.size());
  result.insert(result.begin(), rank - result.size(), 1);
  second.insert(second.begin(), rank - second.size(), 1);
  for (size_t i = 0; i < rank; ++i) {
    const bool fits = result[i] == second[i] || result[i] == 1 || second[i] == 1;
    checks.Require(fits, "operands", "their shapes do not fit");
    result[i] = std::max(result[i], second[i]);
  }
  checks.SameShape("result", checks.output(), result);
}

void DefineClamp(Builder* builder, const NodeDesc& node) {
  Check(GetApi().define_clamp(builder->subgraph(), Low(node), High(node),
                              builder->Input(node.inputs[0]), builder->Output(node), 0),
        builder, node);
}

void DefineElu(Builder* builder, const NodeDesc& node) {
  Check(GetApi().define_elu(builder->subgraph(), static_cast<float>(node.Float("alpha")),
                            builder->Input(node.inputs[0]), builder->Output(node), 0),
        builder, node);
}

void DefineLeakyRelu(Builder* builder, const NodeDesc& node) {
  Check(GetApi().define_leaky_relu(builder->subgraph(), static_cast<float>(node.Float("alpha")),
                                   builder->Input(node.inputs[0]), builder->Output(node), 0),
        builder, node);
}

// --- along axes ----------------------------------------------------------------------------------

void CheckMean(const NodeChecks& checks) {
  checks.NumInputs(1, 1);
  const Dims& source = checks.input(0);
  const auto axes = checks.node().ints.find("axes");
  checks.Require(axes != checks.node().ints.end() && !axes->second.empty() &&
                     axes->second.size() <= source.size(),
                 "axes", "they are missing, or too many");
  checks.Ints("axes", axes->second.size(), 0, static_cast<int64_t>(source.size()) - 1);
  const bool keeps = checks.Int("keep_dims", 0, 1);
  Dims result;
  for (size_t i = 0; i < source.size(); ++i) {
    const auto count = std::count(axes->second.begin(), axes->second.end(), i);
    checks.Require(count < 2, "axes", "one stands twice");
    if (count == 0 || keeps) result.push_back(count ? 1 : source[i]);
  }
  checks.SameShape("result", checks.output(), result);
}

void DefineMean(Builder* builder, const NodeDesc& node) {
  const std::vector<size_t> axes = Sizes(node.Ints("axes"));
  Check(GetApi().define_static_mean(builder->subgraph(), axes.size(), axes.data(),
                                    builder->Input(node.inputs[0]), builder->Output(node),
                                    node.Int("keep_dims") ? kKeepDims : 0),
        builder, node);
}

void CheckConcat(const NodeChecks& checks) {
  checks.NumInputs(1, kMostJoined);
  const size_t axis = checks.Int("axis", 0, static_cast<int64_t>(checks.output().size()) - 1);
  Dims result = checks.output();
  result[axis] = 0;
  for (size_t i = 0; i < checks.node().inputs.size(); ++i) {
    Dims alike = checks.input(i);
    checks.Rank("operand", alike, result.size(), result.size());
    alike[axis] = checks.output()[axis];
    checks.SameShape("operand", alike, checks.output());  // but for that axis
    result[axis] += checks.input(i)[axis];
  }
  checks.SameShape("result", checks.output(), result);
}

void DefineConcat(Builder* builder, const NodeDesc& node) {
  std::vector<uint32_t> inputs;
  for (int tensor : node.inputs) inputs.push_back(builder->Input(tensor));
  Check(GetApi().define_concatenate(builder->subgraph(), static_cast<int32_t>(node.Int("axis")),
                                    inputs.size(), inputs.data(), builder->Output(node), 0),
        builder, node);
}

// --- views and boxes -----------------------------------------------------------------------------

void CheckReshape(const NodeChecks& checks) {
  checks.NumInputs(1, 1);
  checks.Require(NumElements(checks.input(0)) == NumElements(checks.output()), "result",
                 "it holds another number of elements");
}

void DefineReshape(Builder* builder, const NodeDesc& node) {
  const std::vector<size_t> dims = Sizes(builder->shape(node.output));
  Check(GetApi().define_static_reshape(builder->subgraph(), dims.size(), dims.data(),
                                       builder->Input(node.inputs[0]), builder->Output(node), 0),
        builder, node);
}

void CheckTranspose(const NodeChecks& checks) {
  checks.NumInputs(1, 1);
  const size_t rank = checks.input(0).size();
  Dims order = checks.Ints("axes", rank, 0, static_cast<int64_t>(rank) - 1);
  std::sort(order.begin(), order.end());
  Dims all(rank);
  std::iota(all.begin(), all.end(), 0);
  checks.Require(order == all, "axes", "they are no order of all axes");
  Dims result;
  for (int64_t axis : checks.node().Ints("axes")) result.push_back(checks.input(0)[axis]);
  checks.SameShape("result", checks.output(), result);
}

void DefineTranspose(Builder* builder, const NodeDesc& node) {
  const std::vector<size_t> order = Sizes(node.Ints("axes"));
  Check(GetApi().define_static_transpose(builder->subgraph(), order.size(), order.data(),
                                         builder->Input(node.inputs[0]), builder->Output(node), 0),
        builder, node);
}

void CheckSlice(const NodeChecks& checks) {
  checks.NumInputs(1, 1);
  const Dims &source = checks.input(0), &result = checks.output();
  checks.Rank("result", result, source.size(), source.size());
  const Dims& begin = checks.Ints("begin", source.size(), 0);
  for (size_t i = 0; i < source.size(); ++i) {
    checks.Require(begin[i] + result[i] <= source[i], "begin",
                   "the slice lies outside of the data");
  }
}

void DefineSlice(Builder* builder, const NodeDesc& node) {
  const std::vector<size_t> begin = Sizes(node.Ints("begin"));
  const std::vector<size_t> extents = Sizes(builder->shape(node.output));
  Check(
      GetApi().define_static_slice(builder->subgraph(), begin.size(), begin.data(), extents.data(),
                                   builder->Input(node.inputs[0]), builder->Output(node), 0),
      builder, node);
}

void CheckPad(const NodeChecks& checks) {
  checks.NumInputs(1, 1);
  Dims result = checks.input(0);
  const Dims& before = checks.Ints("before", result.size(), 0, kMostSteps);
  const Dims& behind = checks.Ints("behind", result.size(), 0, kMostSteps);
  for (size_t i = 0; i < result.size(); ++i) result[i] += before[i] + behind[i];
  checks.SameShape("result", checks.output(), result);
  checks.Float("value");
}

void DefinePad(Builder* builder, const NodeDesc& node) {
  const std::vector<size_t> before = Sizes(node.Ints("before")),
                            behind = Sizes(node.Ints("behind"));
  Check(
      GetApi().define_static_constant_pad(builder->subgraph(), before.data(), behind.data(),
                                          static_cast<float>(node.Float("value")),
                                          builder->Input(node.inputs[0]), builder->Output(node), 0),
      builder, node);
}

// -------------------------------------------------------------------------------------------------

const std::map<std::string, NodeKind>& NodeKinds() {
  static const auto* kinds = new std::map<std::string, NodeKind>{
      {"conv", {CheckConvolution, DefineConvolution, {"Convolution", "Fully Connected"}, true}},
      {"deconv", {CheckConvolution, DefineConvolution, {"Deconvolution"}, true}},
      {"pool", {CheckPool, DefinePool, {"Max Pooling", "Average Pooling"}}},
      {"dense", {CheckDense, DefineDense, {"Fully Connected"}, true}},
      {"matmul", {CheckMatmul, DefineMatmul, {"Batch Matrix Multiply"}, true}},
      {"clamp", {CheckUnary, DefineClamp, {"Clamp"}}},
      {"elu", {CheckWithAlpha, DefineElu, {"ELU"}}},
      {"leaky_relu", {CheckWithAlpha, DefineLeakyRelu, {"LeakyReLU"}}},
      {"ceil", {CheckUnary, DefineUnary<&Api::define_ceiling>, {"Ceiling"}}},
      {"floor", {CheckUnary, DefineUnary<&Api::define_floor>, {"Floor"}}},
      {"gelu", {CheckUnary, DefineUnary<&Api::define_gelu>, {"GELU"}}},
      {"hardswish", {CheckUnary, DefineUnary<&Api::define_hardswish>, {"HardSwish"}}},
      {"sigmoid", {CheckUnary, DefineUnary<&Api::define_sigmoid>, {"Sigmoid"}}},
      {"softmax", {CheckUnary, DefineUnary<&Api::define_softmax>, {"Softmax"}}},
      {"square", {CheckUnary, DefineUnary<&Api::define_square>, {"Square"}}},
      {"tanh", {CheckUnary, DefineUnary<&Api::define_tanh>, {"TanH"}}},
      {"prelu", {CheckBinary, DefineBinary<&Api::define_prelu>, {"PReLU"}}},
      {"maximum", {CheckBinary, DefineBinary<&Api::define_maximum2>, {"Maximum", "Clamp"}}},
      {"minimum", {CheckBinary, DefineBinary<&Api::define_minimum2>, {"Minimum", "Clamp"}}},
      {"add", {CheckBinary, DefineBounded<&Api::define_add2>, {"Add"}}},
      {"subtract", {CheckBinary, DefineBounded<&Api::define_subtract>, {"Subtract"}}},
      {"multiply", {CheckBinary, DefineBounded<&Api::define_multiply2>, {"Multiply"}}},
      {"divide", {CheckBinary, DefineBounded<&Api::define_divide>, {"Divide"}}},
      {"mean", {CheckMean, DefineMean, {"Mean"}}},
      {"concat", {CheckConcat, DefineConcat, {"Concatenate", "Copy"}}},
      {"reshape", {CheckReshape, DefineReshape, {"Static Reshape"}}},
      {"transpose", {CheckTranspose, DefineTranspose, {"Transpose"}}},
      {"slice", {CheckSlice, DefineSlice, {"Slice"}}},
      {"pad", {CheckPad, DefinePad, {"Constant Pad"}}},
  };
  return *kinds;
}

}  // namespace

const NodeKind& GetNodeKind(const std::string& name) {
  const auto found = NodeKinds().find(name);
  if (found == NodeKinds().end()) partition::Refuse("unknown kind of step '" + name + "'");
  return found->second;
}

}  // namespace tvm::collage::xnnpack
