// SPDX-License-Identifier: Apache-2.0
#include "import_signatures.h"

#include "weights.h"

namespace tvm::collage {
namespace {

std::string ValueOf(const ObjectRef& constant) {
  const NDArray tensor = Fields(constant).Tensor("data");
  std::string bytes(runtime::GetDataSize(*tensor.operator->()), '\0');
  tensor.CopyToBytes(bytes.data(), bytes.size());
  return "=" + bytes;
}

}  // namespace

Signatures SignaturesOf(const ImportedFunction& imported) {
  const std::vector<bool> is_weight = WeightsOf(imported);
  return Signatures(imported.graph, [&](NodeIndex i) {
    return is_weight[i] ? std::string() : ValueOf(imported.exprs[i]);
  });
}

}  // namespace tvm::collage
