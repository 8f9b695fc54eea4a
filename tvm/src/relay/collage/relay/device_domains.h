// SPDX-License-Identifier: Apache-2.0
// Which device a program wants each value on: `on_device`, `device_copy` and virtual devices of
// variables and functions, spread to all that must then be on the same device.
// Precondition: nodes are in post-dfs order, expressions beside them. Test:
// relay/test_device_domains.py.
#pragma once

#include <string>
#include <vector>

#include "../graph/dataflow_graph.h"
#include "fields.h"

namespace tvm::collage {

// "cpu:0", "cuda:1 global.texture"; empty where nothing is demanded, "several devices" where
// demands meet. A call's arguments and result are on one device, as those of a kernel are, unless
// the call is `on_device` or `device_copy`. Coarser than TVM's own planning where functions and
// control flow are concerned, thus never less careful.
std::vector<std::string> DevicesOf(const ObjectRef& function, const std::vector<Node>& nodes,
                                   const std::vector<ObjectRef>& exprs, NodeIndex result);

// The device that a target's code runs on.
std::string DeviceOfTarget(const ObjectRef& target);

// Does the expression itself say which device its value is on?
bool HasOwnDevice(const ObjectRef& expr);

}  // namespace tvm::collage
