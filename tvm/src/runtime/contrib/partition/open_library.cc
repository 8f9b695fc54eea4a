// SPDX-License-Identifier: Apache-2.0
// Looks in the environment that our library and TVM's are installed in and where the loader does,
// never in other folders above them: others may be able to write there.
#include "open_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <tvm/runtime/c_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace tvm::collage::partition {
namespace {

// Cuts "/tail" off a path; false, and the path as it was, when it ends otherwise.
bool CutTail(const std::string& tail, std::string* path) {
  const std::string end = "/" + tail;
  if (path->size() <= end.size() || path->compare(path->size() - end.size(), end.size(), end) != 0)
    return false;
  path->resize(path->size() - end.size());
  return true;
}

// The site-packages that the library with `address` is installed in as `<site>/<folder>/*`,
// `<environment>/lib/python3.*` being above; "" when it lies anywhere else.
std::string SiteOf(void* address, const std::string& folder) {
  Dl_info found;
  if (!dladdr(address, &found) || !found.dli_fname) return "";
  std::string site = found.dli_fname;
  site.resize(std::min(site.size(), site.rfind('/')));
  if (!CutTail(folder, &site)) return "";
  std::string above = site;
  if (!CutTail("site-packages", &above) && !CutTail("dist-packages", &above)) return "";
  const size_t slash = above.rfind('/');
  return slash != std::string::npos && above.compare(slash, 7, "/python") == 0 ? site : "";
}

// Where pip puts things: for our library, and for TVM's, which may lie in another.
std::vector<std::string> Sites() {
  std::vector<std::string> sites;
  for (std::string site : {SiteOf(reinterpret_cast<void*>(&OpenFirst), "tvm_collage/lib"),
                           SiteOf(reinterpret_cast<void*>(&TVMGetLastError), "tvm")}) {
    if (!site.empty() && (sites.empty() || sites[0] != site)) sites.push_back(std::move(site));
  }
  return sites;
}

// The files that the pattern names; the pattern itself, for the error, when there is none.
std::vector<std::string> Expand(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t matches;
  if (glob(pattern.c_str(), GLOB_NOCHECK, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  globfree(&matches);
  return paths;
}

std::vector<std::string> CandidatePaths(const LibraryPlace& place) {
  const char* chosen = std::getenv(place.variable);
  if (chosen && *chosen) return {chosen};  // "" would be the program itself
  std::vector<std::string> paths;
  // What the user's environment comes with goes before what the system has, and after what the
  // user has told the loader.
  if (const char* told = std::getenv("LD_LIBRARY_PATH"); told && *told) {
    std::istringstream directories(told);
    for (std::string directory; std::getline(directories, directory, ':');) {
      const std::string path = directory + "/" + place.soname;
      if (!directory.empty() && access(path.c_str(), F_OK) == 0) paths.push_back(path);
    }
  }
  for (const std::string& site : Sites()) {
    for (const std::string& pattern : place.patterns) {
      for (std::string& path : Expand(site + "/" + pattern)) paths.push_back(std::move(path));
    }
  }
  paths.emplace_back(place.soname);
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

}  // namespace tvm::collage::partition
