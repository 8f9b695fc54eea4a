// SPDX-License-Identifier: Apache-2.0
// Finds and opens the library that a backend needs, when a model first needs it.
//
// Nothing of such a library is linked: libtvm_collage_runtime.so loads where it is absent, and a
// model that needs it gets one clear error.
// Test: backends/dnnl/test_errors.py, backends/test_blas.py,
// backends/onnx_model/test_backend.py.
#pragma once

#include <tvm/runtime/logging.h>

#include <functional>
#include <string>
#include <vector>

namespace tvm::collage::partition {

// What to look for, where, and what to tell who lacks it.
struct LibraryPlace {
  const char* title;     // for people
  const char* soname;    // for the loader's own search
  const char* variable;  // environment variable that names the file; then nothing else is tried
  const char* package;   // what pip installs
  // Globs below the site-packages of our library and of TVM's, where pip puts it.
  std::vector<std::string> patterns;
};

// Opens the first file that will do; returns "" or why none does, with what was tried.
//
// `use` gets an open library and returns "" or why it won't do; such a one stays open, as its
// threads may run its code. `open` is dlopen unless given.
std::string OpenFirst(const LibraryPlace& place, const std::function<std::string(void*)>& use,
                      const std::function<void*(const std::string&)>& open = nullptr);

// A library's functions, or the reason why there are none.
template <typename Api>
struct Opened {
  Api api;
  std::string version;
  std::string problem;

  // The functions; throws with the reason when there are none.
  const Api& Require() const {
    if (!problem.empty()) LOG(FATAL) << "RuntimeError: " << problem;
    return api;
  }
};

// OpenFirst with a table to fill; `load` gets an empty one each time.
//
// Never freed, for static variables: handles may still be released while the process ends.
template <typename Api>
const Opened<Api>* OpenOnce(const LibraryPlace& place,
                            std::string (*load)(void* handle, Opened<Api>* opened)) {
  auto* opened = new Opened<Api>;
  const auto use = [&](void* handle) {
    *opened = Opened<Api>();
    return load(handle, opened);
  };
  const std::string problem = OpenFirst(place, use);
  if (!problem.empty()) *opened = Opened<Api>{{}, "", problem};
  return opened;
}

}  // namespace tvm::collage::partition
