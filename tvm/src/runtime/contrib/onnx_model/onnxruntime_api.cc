// SPDX-License-Identifier: Apache-2.0
#include "onnxruntime_api.h"

#include <dlfcn.h>

#include "../partition/open_library.h"

namespace tvm::collage::onnx_model::ort {
namespace {

using partition::Opened;
using partition::OpenOnce;

// What the library's one exported function answers.
struct ApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

// Fills the table and the version from an open file; returns "" or why it won't do.
std::string Load(void* library, Opened<Api>* opened) {
  using GetBase = const ApiBase* (*)();
  auto get_base = reinterpret_cast<GetBase>(dlsym(library, "OrtGetApiBase"));
  if (!get_base) return "lacks function OrtGetApiBase";
  const std::string version = get_base()->get_version();
  const void* const* table = get_base()->get_api(kApiVersion);
  if (!table) return "is ONNX Runtime " + version + ", not 1.14 or later";
  Api& api = opened->api;
#define COLLAGE_ORT_LOAD(name, place, result, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(const_cast<void*>(table[place]));
  COLLAGE_ORT_FUNCTIONS(COLLAGE_ORT_LOAD)
#undef COLLAGE_ORT_LOAD
  opened->version = version;
  return "";
}

const Opened<Api>& OnnxRuntime() {
  static const Opened<Api>* opened =
      OpenOnce<Api>({"ONNX Runtime 1.14 or later (libonnxruntime.so)",
                     "libonnxruntime.so",
                     "COLLAGE_ONNXRUNTIME_LIBRARY",
                     "onnxruntime",
                     {"onnxruntime/capi/libonnxruntime.so*"}},
                    Load);
  return *opened;
}

}  // namespace

const Api& GetApi() { return OnnxRuntime().Require(); }

std::string WhyUnavailable() { return OnnxRuntime().problem; }

std::string Version() { return OnnxRuntime().version; }

}  // namespace tvm::collage::onnx_model::ort
