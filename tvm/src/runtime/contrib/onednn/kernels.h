// SPDX-License-Identifier: Apache-2.0
// By which of its kernels a node runs, where it names one.
//
// A kernel is a form of the node, as "inner_product" or "matmul" of a dense layer, "conv" or
// "winograd" of a convolution, and the name of an implementation: "matmul brg:avx512_core",
// "winograd avx512:2x4x4" by its tile. Of oneDNN's own convolution it is not chosen. The compiler
// writes into a node's string "kernel" the one that was measured to be fastest, and into "measured"
// the times that it was chosen by, which the plan shows. Nothing is measured here.
// Test: backends/dnnl/test_kernel_choice.py.
#pragma once

#include <string>
#include <vector>

#include "../partition/node_checks.h"
#include "handles.h"

namespace tvm::collage::onednn {

// Both are empty where the node leaves the choice to us, the second where to oneDNN.
struct Kernel {
  std::string form;
  std::string implementation;
};

Kernel KernelOf(const NodeDesc& node);

std::string KernelName(const std::string& form, const std::string& implementation);

// A node names no form that its kind does not have.
void CheckKernel(const partition::NodeChecks& checks);

// All kernels of the description's one node: first the one that runs where none is named, then the
// others but for reference code, and code for lesser instructions where there is the same for more.
std::vector<std::string> ListKernels(GraphDesc graph);

}  // namespace tvm::collage::onednn
