// SPDX-License-Identifier: Apache-2.0
#include "import_signatures.h"

#include "weights.h"

namespace tvm::collage {
namespace {

/*! \brief The value of a constant as text, "" for a weight. */
std::string SmallValue(const ObjectRef& constant) {
  const NDArray tensor = Fields(constant).Tensor("data");
  if (IsWeight(tensor)) return "";
  std::string bytes(runtime::GetDataSize(*tensor.operator->()), '\0');
  tensor.CopyToBytes(bytes.data(), bytes.size());
  return "=" + bytes;
}

}  // namespace

Signatures SignaturesOf(const ImportedFunction& imported) {
  return Signatures(imported.graph, [&](NodeIndex i) { return SmallValue(imported.exprs[i]); });
}

}  // namespace tvm::collage
