// SPDX-License-Identifier: Apache-2.0
// Opens the library that a partition's C calls, by the place that own_code.py describes.
//
// The compiled C names the library by its SONAME alone. The loader takes an open library of that
// name, wherever it lies, so it is opened here first and stays open.
// Test: backends/test_blas.py, backends/test_contract.py.
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/registry.h>

#include <sstream>

#include "../partition/open_library.h"
#include "own_code.h"

namespace tvm::collage::own_code {
namespace {

// Leaves the calling thread one CPU while it lives, then all that it had.
class ScopedOneCpu {
 public:
  ScopedOneCpu() : saved_(sched_getaffinity(0, sizeof(before_), &before_) == 0) {
    if (!saved_) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_)) continue;
      CPU_SET(cpu, &one);
      break;
    }
    saved_ = sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  ~ScopedOneCpu() {
    if (saved_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  ScopedOneCpu(const ScopedOneCpu&) = delete;
  ScopedOneCpu& operator=(const ScopedOneCpu&) = delete;

 private:
  cpu_set_t before_;
  bool saved_;
};

// dlopen that lets the library see one CPU, if it starts a thread for each that it sees.
//
// Variables for that number can't be set here: setenv is no friend of other threads' getenv.
void* OpenOnOneCpu(const std::string& path) {
  ScopedOneCpu one_cpu;
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Opens the library for good and returns its file; RuntimeError says what was tried.
std::string Open(const NeededLibrary& needed) {
  partition::LibraryPlace place{needed.title.c_str(),
                                needed.soname.c_str(),
                                needed.variable.c_str(),
                                needed.package.c_str(),
                                {}};
  std::istringstream patterns(needed.patterns);
  for (std::string pattern; std::getline(patterns, pattern, ':');) {
    place.patterns.push_back(pattern);
  }
  std::string file;
  const auto use = [&](void* handle) -> std::string {
    link_map* found = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &found) != 0) return dlerror();
    file = found->l_name;
    return "";
  };
  const std::string problem = needed.one_cpu ? partition::OpenFirst(place, use, OpenOnOneCpu)
                                             : partition::OpenFirst(place, use);
  if (!problem.empty()) LOG(FATAL) << "RuntimeError: " << problem;
  return file;
}

}  // namespace

void OpenNeededLibrary(const partition::GraphDesc& graph) {
  if (!graph.nodes[0].strings.count("needs_title")) return;
  Open({AttributeOf(graph, "needs_title"), AttributeOf(graph, "needs_soname"),
        AttributeOf(graph, "needs_variable"), AttributeOf(graph, "needs_package"),
        AttributeOf(graph, "needs_patterns"), graph.nodes[0].Int("needs_one_cpu") != 0});
}

TVM_REGISTER_GLOBAL("collage.own_code.open_library")
    .set_body_typed([](runtime::String title, runtime::String soname, runtime::String variable,
                       runtime::String package, runtime::String patterns, bool one_cpu) {
      return runtime::String(Open({title, soname, variable, package, patterns, one_cpu}));
    });

}  // namespace tvm::collage::own_code
