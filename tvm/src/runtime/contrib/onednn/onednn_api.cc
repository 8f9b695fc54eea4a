// SPDX-License-Identifier: Apache-2.0
/*!
 * \file onednn_api.cc
 * \brief Finds, opens and checks libdnnl.so.3.
 */
#include "onednn_api.h"

#include <dlfcn.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/registry.h>

#include <mutex>
#include <sstream>
#include <vector>

#include "../partition/find_library.h"

namespace tvm {
namespace collage {
namespace onednn {
namespace {

using partition::LibraryCandidates;

constexpr const char* kSoname = "libdnnl.so.3";

const char* StatusName(dnnl_status_t status) {
  switch (status) {
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "no implementation for these shapes and attributes";
    case dnnl_runtime_error:
      return "runtime error";
    default:
      return "error";
  }
}

/*! \brief Fills the table and the version from one file; returns "" or why the file won't do. */
std::string LoadFrom(const std::string& path, Api* result, std::string* version) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return dlerror();
  // A library that won't do stays open: its thread pool's threads may already run its code.
  Api api;
  std::string missing;
#define COLLAGE_DNNL_LOAD(name)                                                   \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "dnnl_" #name)); \
  if (!api.name && missing.empty()) missing = "dnnl_" #name;
  COLLAGE_DNNL_FUNCTIONS(COLLAGE_DNNL_LOAD)
#undef COLLAGE_DNNL_LOAD
  std::ostringstream text;
  if (api.version) {
    // First, as it explains a missing function better than the function's name does.
    const dnnl_version_t* v = api.version();
    text << v->major << "." << v->minor << "." << v->patch;
    if (v->major != 3 || v->minor < 2) {
      return path + ": is oneDNN " + text.str() + ", not 3.2 or a later 3.x";
    }
  }
  if (!missing.empty()) return path + ": lacks function " + missing;
  if (api.engine_create(&api.engine, dnnl_cpu, 0) != dnnl_success) {
    return path + ": oneDNN " + text.str() + " offers no CPU engine";
  }
  *result = api;
  *version = text.str();
  return "";
}

/*! \brief What loading gave: a whole table, or the reasons why there is none. */
struct Loaded {
  Api api;
  std::string version;
  std::string problem;

  Loaded() {
    std::ostringstream tried;
    for (const std::string& path :
         LibraryCandidates(kSoname, "COLLAGE_ONEDNN_LIBRARY", {"/", "/lib/"})) {
      const std::string reason = LoadFrom(path, &api, &version);
      if (reason.empty()) return;
      tried << (tried.tellp() > 0 ? "; " : "") << reason;
    }
    problem = "oneDNN (" + std::string(kSoname) + ", version 3.2 or a later 3.x) was not found. " +
              "Install it (pip install onednn-cpu-gomp==2023.2.0) or name the file in " +
              "COLLAGE_ONEDNN_LIBRARY. Tried: " + tried.str();
  }
};

const Loaded& Load() {
  // Never freed: handles may still be destroyed while the process ends.
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

void CheckStatus(dnnl_status_t status, const std::string& what) {
  if (status != dnnl_success) {
    LOG(FATAL) << "ValueError: oneDNN: " << what << ": " << StatusName(status);
  }
}

TVM_REGISTER_GLOBAL("collage.onednn.why_unavailable").set_body_typed([]() -> runtime::String {
  return WhyUnavailable();
});
TVM_REGISTER_GLOBAL("collage.onednn.version").set_body_typed([]() -> runtime::String {
  return Version();
});

}  // namespace onednn
}  // namespace collage
}  // namespace tvm
