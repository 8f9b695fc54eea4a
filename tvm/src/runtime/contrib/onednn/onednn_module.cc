// SPDX-License-Identifier: Apache-2.0
// The kind of partition that oneDNN runs: `collage.onednn.create` and loading it again.
// Test: backends/test_contract.py, backends/dnnl/test_module.py.
#include <utility>

#include "../partition/partition_module.h"
#include "executable.h"
#include "planner.h"

namespace tvm::collage::onednn {
namespace {

std::unique_ptr<partition::Program> Compile(const GraphDesc& graph,
                                            std::vector<std::shared_ptr<void>> constants) {
  return std::make_unique<Executable>(Planner(graph, std::move(constants)).Run());
}

[[maybe_unused]] const bool registered =
    partition::RegisterPartitionKind("onednn", CheckGraph, Compile);

}  // namespace
}  // namespace tvm::collage::onednn
