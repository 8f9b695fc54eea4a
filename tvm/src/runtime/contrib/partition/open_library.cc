// SPDX-License-Identifier: Apache-2.0
/*!
 * \file open_library.cc
 * \brief Looks where the loader does, then above the libraries that are in the process already.
 */
#include "open_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <tvm/runtime/c_runtime_api.h>

#include <cstdlib>

namespace tvm {
namespace collage {
namespace partition {
namespace {

constexpr int kDirectoriesUp = 6;

/*! \brief Adds the files found below each directory above the library that holds `address`. */
void AddPathsAbove(void* address, const std::vector<std::string>& patterns,
                   std::vector<std::string>* paths) {
  Dl_info found;
  if (!dladdr(address, &found) || !found.dli_fname) return;
  std::string directory = found.dli_fname;
  for (int i = 0; i < kDirectoriesUp; ++i) {
    const size_t slash = directory.rfind('/');
    if (slash == std::string::npos) return;
    directory.resize(slash);
    for (const std::string& pattern : patterns) {
      glob_t matches;
      if (glob((directory + "/" + pattern).c_str(), 0, nullptr, &matches) == 0) {
        for (size_t k = 0; k < matches.gl_pathc; ++k) paths->push_back(matches.gl_pathv[k]);
      }
      globfree(&matches);
    }
  }
}

std::vector<std::string> CandidatePaths(const LibraryPlace& place) {
  const char* chosen = std::getenv(place.variable);
  if (chosen && *chosen) return {chosen};  // "" would be the program itself
  std::vector<std::string> paths = {place.soname};
  AddPathsAbove(reinterpret_cast<void*>(&OpenFirst), place.patterns, &paths);
  AddPathsAbove(reinterpret_cast<void*>(&TVMGetLastError), place.patterns, &paths);
  return paths;
}

}  // namespace

std::string OpenFirst(const LibraryPlace& place, const std::function<std::string(void*)>& use,
                      const std::function<void*(const std::string&)>& open) {
  std::string tried;
  for (const std::string& path : CandidatePaths(place)) {
    void* handle = open ? open(path) : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const std::string reason = handle ? use(handle) : dlerror();
    if (reason.empty()) return "";
    tried += (tried.empty() ? "" : "; ") + (handle ? path + ": " : "") + reason;
  }
  return std::string(place.title) + " was not found. Install it (pip install " + place.package +
         ") or name the file in " + place.variable + ". Tried: " + tried;
}

}  // namespace partition
}  // namespace collage
}  // namespace tvm
