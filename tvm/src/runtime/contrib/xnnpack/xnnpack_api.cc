// SPDX-License-Identifier: Apache-2.0
#include "xnnpack_api.h"

#include <dlfcn.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/registry.h>

#include <iterator>

#include "../partition/open_library.h"

namespace tvm::collage::xnnpack {
namespace {

using partition::Opened;
using partition::OpenOnce;

// As xnn_status numbers them.
constexpr const char* kStatusNames[] = {
    "success",       "the library is not initialised", "invalid parameter",
    "invalid state", "unsupported parameter",          "unsupported hardware",
    "out of memory", "tensors must be allocated anew", "the function is deprecated"};

std::string StatusName(int status) {
  const bool is_known = status >= 0 && status < static_cast<int>(std::size(kStatusNames));
  return is_known ? kStatusNames[status] : "status " + std::to_string(status);
}

// Fills the table from an open file; returns "" or why it won't do.
std::string Load(void* library, Opened<Api>* opened) {
  Api& api = opened->api;
  std::string missing;
  const auto find = [&](const char* name) {
    void* found = dlsym(library, name);
    if (!found && missing.empty()) missing = name;
    return found;
  };
#define COLLAGE_LOAD(name, ...) api.name = reinterpret_cast<decltype(api.name)>(find("xnn_" #name));
  COLLAGE_XNN_FUNCTIONS(COLLAGE_LOAD)
#undef COLLAGE_LOAD
  // A handle finds what the library itself was linked with.
#define COLLAGE_LOAD(name, ...) \
  api.pool.name = reinterpret_cast<decltype(api.pool.name)>(find("pthreadpool_" #name));
  COLLAGE_PTHREADPOOL_FUNCTIONS(COLLAGE_LOAD)
#undef COLLAGE_LOAD
  if (!missing.empty()) return "lacks function " + missing;
  const int status = api.initialize(nullptr);
  return status == 0 ? "" : "it does not start on this CPU: " + StatusName(status);
}

const Opened<Api>& Xnnpack() {
  static const Opened<Api>* opened =
      OpenOnce<Api>({"XNNPACK (libexecutorch_backend_xnnpack.so)",
                     "libexecutorch_backend_xnnpack.so",
                     "COLLAGE_XNNPACK_LIBRARY",
                     "--no-deps executorch==1.5.1",
                     {"executorch/lib/libexecutorch_backend_xnnpack.so"}},
                    Load);
  return *opened;
}

}  // namespace

const Api& GetApi() { return Xnnpack().Require(); }

void CheckStatus(int status, const std::string& what) {
  if (status != 0) LOG(FATAL) << "ValueError: XNNPACK: " << what << ": " << StatusName(status);
}

TVM_REGISTER_GLOBAL("collage.xnnpack.why_unavailable").set_body_typed([]() -> runtime::String {
  return Xnnpack().problem;
});
// The path of the library's file.
TVM_REGISTER_GLOBAL("collage.xnnpack.file").set_body_typed([]() -> runtime::String {
  Dl_info found;
  const bool is_known = dladdr(reinterpret_cast<void*>(GetApi().invoke_runtime), &found) != 0;
  return is_known && found.dli_fname ? found.dli_fname : "";
});

}  // namespace tvm::collage::xnnpack
