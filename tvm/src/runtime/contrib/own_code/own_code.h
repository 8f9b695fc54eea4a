// SPDX-License-Identifier: Apache-2.0
// What partitions that run a user's own code share: one node, all tensors in order.
// Test: backends/test_own_code.py.
#pragma once

#include <tvm/runtime/logging.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../partition/partition_module.h"

namespace tvm::collage::own_code {

// The attribute of the description's one node; ValueError where it has none.
inline const std::string& AttributeOf(const partition::GraphDesc& graph, const std::string& key) {
  if (graph.nodes.empty()) LOG(FATAL) << "ValueError: the description of a part has no step";
  return graph.nodes[0].Str(key);
}

// Where a library is looked for, as LibraryPlace has it; patterns are divided by colons.
struct NeededLibrary {
  std::string title, soname, variable, package, patterns;
  bool one_cpu = false;  // let it see one CPU while it is opened
};

// Opens the library that the description says its C calls, if it names one.
void OpenNeededLibrary(const partition::GraphDesc& graph);

// A partition's inputs, then its constants, then its outputs, as its code takes them.
class Operands {
 public:
  Operands(const partition::GraphDesc& graph, std::vector<std::shared_ptr<void>> constants)
      : constants_(std::move(constants)) {
    for (const std::vector<int>* each : {&graph.inputs, &graph.constants, &graph.outputs}) {
      tensors.insert(tensors.end(), each->begin(), each->end());
    }
  }

  // Fills in the data of one call.
  void Place(const std::vector<void*>& inputs, const std::vector<void*>& outputs,
             std::vector<void*>* data) const {
    data->assign(inputs.begin(), inputs.end());
    for (const std::shared_ptr<void>& constant : constants_) data->push_back(constant.get());
    data->insert(data->end(), outputs.begin(), outputs.end());
  }

  std::vector<int> tensors;  // numbers of the description

 private:
  const std::vector<std::shared_ptr<void>> constants_;
};

}  // namespace tvm::collage::own_code
