// SPDX-License-Identifier: Apache-2.0
/*!
 * \file onnxruntime_api.cc
 * \brief Finds, opens and checks libonnxruntime.so.
 */
#include "onnxruntime_api.h"

#include <dlfcn.h>
#include <tvm/runtime/logging.h>

#include "shared_library.h"

namespace tvm {
namespace collage {
namespace onnx_model {
namespace ort {
namespace {

constexpr LibraryPlace kPlace = {"ONNX Runtime 1.14 or later (libonnxruntime.so)",
                                 "COLLAGE_ONNXRUNTIME_LIBRARY", "libonnxruntime.so",
                                 "onnxruntime/capi/libonnxruntime.so*", "onnxruntime"};

/*! \brief What the library's one exported function answers. */
struct ApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

struct Loaded {
  Api api;
  std::string version;
  std::string problem;

  Loaded() {
    void* library = OpenLibrary(kPlace, &problem);
    if (!library) return;
    using GetBase = const ApiBase* (*)();
    auto get_base = reinterpret_cast<GetBase>(dlsym(library, "OrtGetApiBase"));
    if (!get_base) {
      problem =
          "the library found as ONNX Runtime has no function OrtGetApiBase: name another in " +
          std::string(kPlace.variable);
      return;
    }
    const std::string found = get_base()->get_version();
    const void* const* table = get_base()->get_api(kApiVersion);
    if (!table) {
      problem = "ONNX Runtime " + found + " is too old, 1.14 or later is needed: pip install " +
                kPlace.package;
      return;
    }
#define COLLAGE_ORT_LOAD(name, place, result, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(const_cast<void*>(table[place]));
    COLLAGE_ORT_FUNCTIONS(COLLAGE_ORT_LOAD)
#undef COLLAGE_ORT_LOAD
    version = found;
  }
};

const Loaded& Load() {
  // Never freed: sessions may still be released while the process ends.
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

}  // namespace ort
}  // namespace onnx_model
}  // namespace collage
}  // namespace tvm
