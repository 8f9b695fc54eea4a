// SPDX-License-Identifier: Apache-2.0
/*!
 * \file find_library.cc
 * \brief Looks above the libraries that are in the process already.
 */
#include "find_library.h"

#include <dlfcn.h>
#include <tvm/runtime/c_runtime_api.h>
#include <unistd.h>

#include <cstdlib>

namespace tvm {
namespace collage {
namespace partition {
namespace {

constexpr int kDirectoriesUp = 6;

/*! \brief Adds the files found in each directory above the library that holds `address`. */
void AddPathsAbove(void* address, const std::string& file,
                   const std::vector<std::string>& sub_folders, std::vector<std::string>* paths) {
  Dl_info found;
  if (!dladdr(address, &found) || !found.dli_fname) return;
  std::string directory = found.dli_fname;
  for (int i = 0; i < kDirectoriesUp; ++i) {
    const size_t slash = directory.rfind('/');
    if (slash == std::string::npos) break;
    directory.resize(slash);
    for (const std::string& sub_folder : sub_folders) {
      const std::string path = directory + sub_folder + file;
      if (access(path.c_str(), R_OK) == 0) paths->push_back(path);
    }
  }
}

}  // namespace

std::vector<std::string> LibraryCandidates(const std::string& soname, const char* variable,
                                           const std::vector<std::string>& sub_folders) {
  if (const char* chosen = std::getenv(variable)) return {chosen};
  std::vector<std::string> paths = {soname};
  AddPathsAbove(reinterpret_cast<void*>(&LibraryCandidates), soname, sub_folders, &paths);
  AddPathsAbove(reinterpret_cast<void*>(&TVMGetLastError), soname, sub_folders, &paths);
  return paths;
}

}  // namespace partition
}  // namespace collage
}  // namespace tvm
