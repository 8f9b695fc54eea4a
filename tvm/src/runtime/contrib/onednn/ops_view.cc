// SPDX-License-Identifier: Apache-2.0
// Reshape, transpose and slices: other views of the same memory, where the layout allows it;
// conversion to another element type.
//
// reshape takes the result's shape; transpose has ints.axes as Relay's; slice has ints.begin, one
// number an axis; convert rounds to the nearest and saturates.
// Test: backends/dnnl/test_lower.py, backends/dnnl/test_types.py.
#include <tvm/runtime/logging.h>

#include "ops_common.h"

namespace tvm::collage::onednn {
namespace {

void CheckView(const partition::NodeChecks& checks) {
  checks.NumInputs(1, 1);
  checks.NoPostOps();
}

void CheckReshape(const partition::NodeChecks& checks) {
  CheckView(checks);
  checks.Require(partition::NumElements(checks.input(0)) == partition::NumElements(checks.output()),
                 "result", "not as many elements as its operand");
}

void CheckTranspose(const partition::NodeChecks& checks) {
  CheckView(checks);
  const Dims& source = checks.input(0);
  const Dims& axes = checks.Ints("axes", source.size(), 0, static_cast<int64_t>(source.size()) - 1);
  Dims result;
  std::vector<bool> is_named(source.size(), false);
  for (int64_t axis : axes) {
    checks.Require(!is_named[axis], "axes", "one is named twice");
    is_named[axis] = true;
    result.push_back(source[axis]);
  }
  checks.SameShape("result", checks.output(), result);
}

void CheckSlice(const partition::NodeChecks& checks) {
  CheckView(checks);
  const Dims& source = checks.input(0);
  const Dims& begin = checks.Ints("begin", source.size(), 0);
  checks.Rank("result", checks.output(), source.size(), source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const bool is_inside = begin[i] + checks.output()[i] <= source[i];
    checks.Require(is_inside, "begin", "the slice ends outside of its operand");
  }
}

void CheckConvert(const partition::NodeChecks& checks) {
  CheckView(checks);
  checks.SameShape("result", checks.output(), checks.input(0));
}

void BuildReshape(Planner* planner, const NodeDesc& node) {
  const int source = node.inputs[0];
  const Dims& dims = planner->shape(node.output);
  Value value = planner->AsItLies(source);
  std::optional<MemDesc> view = value.desc.Reshape(dims);
  if (!view) {
    value = planner->Require(source, planner->Plain(source));
    view = value.desc.Reshape(dims);
  }
  ICHECK(view) << Summary(planner->graph(), node) << ": not as many elements as its operand";
  planner->DefineView(node.output, source, {*view, value.buffer});
}

void BuildTranspose(Planner* planner, const NodeDesc& node) {
  const int source = node.inputs[0];
  const Dims& axes = node.Ints("axes");
  std::vector<int> to(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) to[axes[i]] = static_cast<int>(i);
  const Value& value = planner->AsItLies(source);
  planner->DefineView(node.output, source, {value.desc.Permute(to), value.buffer});
}

// A part of the source's memory; readers that want no gaps get a copy (Planner::Any).
void BuildSlice(Planner* planner, const NodeDesc& node) {
  const int source = node.inputs[0];
  const Dims& dims = planner->shape(node.output);
  Value value = planner->AsItLies(source);
  if (dims == planner->shape(source)) return planner->DefineView(node.output, source, value);
  const Dims& begin = node.Ints("begin");
  std::optional<MemDesc> box = value.desc.Box(begin, dims);
  if (!box) {
    value = planner->Require(source, planner->Plain(source));
    box = value.desc.Box(begin, dims);
  }
  ICHECK(box) << Summary(planner->graph(), node) << ": not inside its operand";
  planner->DefineView(node.output, source, {*box, value.buffer});
}

void BuildConvert(Planner* planner, const NodeDesc& node) {
  const int source = node.inputs[0];
  planner->Define(node.output, planner->Convert(planner->AsItLies(source), node.output));
}

[[maybe_unused]] const bool registered =
    RegisterNode("reshape", CheckReshape, BuildReshape) &&
    RegisterNode("transpose", CheckTranspose, BuildTranspose) &&
    RegisterNode("slice", CheckSlice, BuildSlice) &&
    RegisterNode("convert", CheckConvert, BuildConvert);

}  // namespace
}  // namespace tvm::collage::onednn
