// SPDX-License-Identifier: Apache-2.0
// Convolutions of a plan that our Winograd kernel runs in place of oneDNN.
//
// It reads and writes the layouts that oneDNN chose for its own kernel, so that nothing around it
// changes.
// Test: backends/dnnl/test_winograd.py.
#pragma once

#include <vector>

#include "planner.h"

namespace tvm::collage::onednn {

// Adds the step of a convolution if it can run so, and is expected to be faster; tells whether it
// did.
//
// `weights`: in the axes (out, in, spatial); not in groups.
// `args`: source, destination and perhaps bias, in this order.
bool EmitWinograd(Planner* planner, const NodeDesc& node, const Value& weights,
                  const std::vector<StepArg>& args);

}  // namespace tvm::collage::onednn
