// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "planner.h"

namespace tvm::collage::onednn {
namespace {

// The forms of each kind of node that has several kernels: first the usual one, which is empty
// where it depends on more than the kind.
const std::vector<std::string>& FormsOf(const std::string& kind) {
  static const auto* table = new std::map<std::string, std::vector<std::string>>{
      {"inner_product", {"inner_product", "matmul"}},
      {"matmul", {"matmul"}},
      {"conv", {"", "conv", "winograd"}},
  };
  static const auto* none = new std::vector<std::string>();
  const auto found = table->find(kind);
  return found == table->end() ? *none : found->second;
}

// Constants of a description of which only the sizes matter.
std::vector<std::shared_ptr<void>> Zeros(const GraphDesc& graph) {
  std::vector<std::shared_ptr<void>> zeros;
  for (const int tensor : graph.constants) {
    const int64_t bytes =
        partition::NumElements(graph.shapes[tensor]) * graph.dtypes[tensor].bytes();
    zeros.push_back(AllocateAligned(bytes));
    std::memset(zeros.back().get(), 0, bytes);
  }
  return zeros;
}

}  // namespace

Kernel KernelOf(const NodeDesc& node) {
  const auto named = node.strings.find("kernel");
  if (named == node.strings.end()) return {};
  const size_t space = named->second.find(' ');
  if (space == std::string::npos) return {named->second, ""};
  return {named->second.substr(0, space), named->second.substr(space + 1)};
}

std::string KernelName(const std::string& form, const std::string& implementation) {
  return form + " " + implementation;
}

void CheckKernel(const partition::NodeChecks& checks) {
  const std::string form = KernelOf(checks.node()).form;
  const std::vector<std::string>& forms = FormsOf(checks.node().kind);
  const bool is_known = std::find(forms.begin(), forms.end(), form) != forms.end();
  checks.Require(form.empty() || is_known, "kernel", "unknown form '" + form + "'");
}

std::vector<std::string> ListKernels(GraphDesc graph) {
  ICHECK_EQ(graph.nodes.size(), 1) << "kernels are those of one node";
  std::vector<std::string> names;
  NodeDesc& node = graph.nodes[0];
  for (const std::string& form : FormsOf(node.kind)) {
    node.strings["kernel"] = form;
    try {
      Planner planner(graph, Zeros(graph));
      planner.NoteKernels(&names);
      planner.Run();
    } catch (const std::exception&) {
      continue;  // oneDNN has nothing for the node in this form
    }
  }
  return names;
}

TVM_REGISTER_GLOBAL("collage.onednn.kernels").set_body_typed([](runtime::String json) {
  const GraphDesc graph = GraphDesc::FromJson(json);
  CheckGraph(graph);
  runtime::Array<runtime::String> names;
  for (const std::string& name : ListKernels(graph)) names.push_back(name);
  return names;
});

}  // namespace tvm::collage::onednn
