// SPDX-License-Identifier: Apache-2.0
/*!
 * \file engine.cc
 * \brief The table of libraries that run ONNX models.
 */
#include "engine.h"

#include <tvm/runtime/logging.h>

#include <map>

#include "../partition/printable.h"

namespace tvm {
namespace collage {
namespace onnx_model {

int64_t TensorSpec::NumElements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

size_t TensorSpec::NumBytes() const {
  return static_cast<size_t>(NumElements()) * ((dtype.bits + 7) / 8);
}

const EngineKind& GetEngineKind(const std::string& name) {
  static const std::map<std::string, EngineKind> kinds = {
      {"onnxruntime", OnnxRuntimeEngineKind()},
      {"openvino", OpenVinoEngineKind()},
      {"openvino_bf16", OpenVinoBf16EngineKind()},
  };
  auto found = kinds.find(name);
  if (found == kinds.end()) {
    std::string known;
    for (const auto& kind : kinds) known += (known.empty() ? "" : ", ") + kind.first;
    LOG(FATAL) << "ValueError: nothing runs ONNX models as '" << partition::Printable(name)
               << "'; known: " << known;
  }
  return found->second;
}

}  // namespace onnx_model
}  // namespace collage
}  // namespace tvm
