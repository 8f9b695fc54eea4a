// SPDX-License-Identifier: Apache-2.0
/*!
 * \file openvino_api.cc
 * \brief Finds, opens and checks libopenvino_c.so.
 */
#include "openvino_api.h"

#include <dlfcn.h>
#include <tvm/runtime/logging.h>

#include <cstdlib>

#include "shared_library.h"

namespace tvm {
namespace collage {
namespace onnx_model {
namespace ov {
namespace {

constexpr LibraryPlace kPlace = {"OpenVINO 2023.0 or later (libopenvino_c.so)",
                                 "COLLAGE_OPENVINO_LIBRARY", "libopenvino_c.so",
                                 "openvino/libs/libopenvino_c.so*", "openvino"};
constexpr int kOldestYear = 2023;

struct Loaded {
  Api api;
  std::string version;
  std::string problem;

  Loaded() {
    void* library = OpenLibrary(kPlace, &problem);
    if (!library) return;
    std::string missing;
#define COLLAGE_OV_LOAD(name, result, parameters)                               \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "ov_" #name)); \
  if (!api.name && missing.empty()) missing = "ov_" #name;
    COLLAGE_OV_FUNCTIONS(COLLAGE_OV_LOAD)
#undef COLLAGE_OV_LOAD
    std::string found;
    LibraryVersion raw{nullptr, nullptr};
    if (api.get_openvino_version && api.version_free && api.get_openvino_version(&raw) == kOk) {
      found = raw.build_number;
      found = found.substr(0, found.find('-'));
      api.version_free(&raw);
    }
    if (!missing.empty() || std::strtol(found.c_str(), nullptr, 10) < kOldestYear) {
      problem = "OpenVINO " + found + " won't do, 2023.0 or later is needed" +
                (missing.empty() ? "" : " (it lacks function " + missing + ")") + ": pip install " +
                kPlace.package;
      return;
    }
    version = found;
  }
};

const Loaded& Load() {
  // Never freed: models may still be released while the process ends.
  static const Loaded* loaded = new Loaded;
  return *loaded;
}

}  // namespace

const Api& GetApi() {
  const Loaded& loaded = Load();
  if (!loaded.problem.empty()) LOG(FATAL) << "RuntimeError: " << loaded.problem;
  return loaded.api;
}

std::string WhyUnavailable() { return Load().problem; }

std::string Version() { return Load().version; }

}  // namespace ov
}  // namespace onnx_model
}  // namespace collage
}  // namespace tvm
