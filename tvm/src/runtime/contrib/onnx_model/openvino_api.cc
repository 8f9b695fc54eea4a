// SPDX-License-Identifier: Apache-2.0
#include "openvino_api.h"

#include <dlfcn.h>

#include <cstdlib>

#include "../partition/open_library.h"

namespace tvm::collage::onnx_model::ov {
namespace {

using partition::Opened;
using partition::OpenOnce;

constexpr int kOldestYear = 2023;

// Fills the table and the version from an open file; returns "" or why it won't do.
std::string Load(void* library, Opened<Api>* opened) {
  Api& api = opened->api;
  std::string missing;
#define COLLAGE_OV_LOAD(name, result, parameters)                               \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "ov_" #name)); \
  if (!api.name && missing.empty()) missing = "ov_" #name;
  COLLAGE_OV_FUNCTIONS(COLLAGE_OV_LOAD)
#undef COLLAGE_OV_LOAD
  if (!missing.empty()) return "lacks function " + missing;
  LibraryVersion raw{nullptr, nullptr};
  if (api.get_openvino_version(&raw) != kOk) return "does not tell its version";
  std::string version = raw.build_number;  // as in 2026.4.1-22982-...
  version = version.substr(0, version.find('-'));
  api.version_free(&raw);
  if (std::strtol(version.c_str(), nullptr, 10) < kOldestYear) {
    return "is OpenVINO " + version + ", not 2023.0 or later";
  }
  opened->version = version;
  return "";
}

const Opened<Api>& OpenVino() {
  static const Opened<Api>* opened = OpenOnce<Api>({"OpenVINO 2023.0 or later (libopenvino_c.so)",
                                                    "libopenvino_c.so",
                                                    "COLLAGE_OPENVINO_LIBRARY",
                                                    "openvino",
                                                    {"openvino/libs/libopenvino_c.so*"}},
                                                   Load);
  return *opened;
}

}  // namespace

const Api& GetApi() { return OpenVino().Require(); }

std::string WhyUnavailable() { return OpenVino().problem; }

std::string Version() { return OpenVino().version; }

}  // namespace tvm::collage::onnx_model::ov
