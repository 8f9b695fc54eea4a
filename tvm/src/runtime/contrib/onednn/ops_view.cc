// SPDX-License-Identifier: Apache-2.0
/*!
 * \file ops_view.cc
 * \brief Reshape and transpose: other views of the same memory, where the layout allows it.
 *
 * reshape takes the result's shape; transpose has ints.axes as Relay's. Tested by
 * test_onednn_ops.py.
 */
#include "ops_common.h"

namespace tvm {
namespace collage {
namespace onednn {
namespace {

void BuildReshape(Planner* planner, const NodeDesc& node) {
  const int source = node.inputs[0];
  const Dims& dims = planner->shape(node.output);
  Value value = planner->Any(source);
  std::optional<MemDesc> view = value.desc.Reshape(dims);
  if (!view) {
    value = planner->Require(source, MemDesc::Plain(planner->shape(source)));
    view = value.desc.Reshape(dims);
  }
  planner->DefineView(node.output, source, {view ? *view : MemDesc::Plain(dims), value.buffer});
}

void BuildTranspose(Planner* planner, const NodeDesc& node) {
  const int source = node.inputs[0];
  const Dims& axes = node.Ints("axes");
  std::vector<int> to(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) to[axes[i]] = static_cast<int>(i);
  const Value& value = planner->Any(source);
  planner->DefineView(node.output, source, {value.desc.Permute(to), value.buffer});
}

[[maybe_unused]] const bool registered = RegisterNodeBuilder("reshape", BuildReshape) &&
                                         RegisterNodeBuilder("transpose", BuildTranspose);

}  // namespace
}  // namespace onednn
}  // namespace collage
}  // namespace tvm
