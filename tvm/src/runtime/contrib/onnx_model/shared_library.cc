// SPDX-License-Identifier: Apache-2.0
/*!
 * \file shared_library.cc
 * \brief The search for a library: a variable, the loader, the directories above ours and TVM's.
 */
#include "shared_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <tvm/runtime/c_runtime_api.h>

#include <cstdlib>
#include <vector>

namespace tvm {
namespace collage {
namespace onnx_model {
namespace {

constexpr int kDirectoriesUp = 6;

void AddMatchesAbove(void* address, const std::string& pattern, std::vector<std::string>* paths) {
  Dl_info found;
  if (!dladdr(address, &found) || !found.dli_fname) return;
  std::string directory = found.dli_fname;
  for (int i = 0; i < kDirectoriesUp; ++i) {
    const size_t slash = directory.rfind('/');
    if (slash == std::string::npos) return;
    directory.resize(slash);
    glob_t matches;
    if (glob((directory + "/" + pattern).c_str(), 0, nullptr, &matches) == 0) {
      for (size_t k = 0; k < matches.gl_pathc; ++k) paths->push_back(matches.gl_pathv[k]);
    }
    globfree(&matches);
  }
}

std::vector<std::string> CandidatePaths(const LibraryPlace& place) {
  if (const char* chosen = std::getenv(place.variable)) return {chosen};
  std::vector<std::string> paths;
  AddMatchesAbove(reinterpret_cast<void*>(&OpenLibrary), place.pattern, &paths);
  AddMatchesAbove(reinterpret_cast<void*>(&TVMGetLastError), place.pattern, &paths);
  paths.push_back(place.soname);
  return paths;
}

}  // namespace

void* OpenLibrary(const LibraryPlace& place, std::string* problem) {
  std::string tried;
  for (const std::string& path : CandidatePaths(place)) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
  }
  *problem = std::string(place.title) + " was not found. Install it (pip install " + place.package +
             ") or name the file in " + place.variable + ". Tried: " + tried;
  return nullptr;
}

}  // namespace onnx_model
}  // namespace collage
}  // namespace tvm
