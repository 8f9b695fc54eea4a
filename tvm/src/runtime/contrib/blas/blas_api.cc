// SPDX-License-Identifier: Apache-2.0
/*!
 * \file blas_api.cc
 * \brief Finds and opens OpenBLAS and MKL, both for use on the calling thread alone.
 */
#include "blas_api.h"

#include <dlfcn.h>
#include <sched.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/registry.h>

#include <sstream>
#include <vector>

#include "../partition/open_library.h"

namespace tvm {
namespace collage {
namespace blas {
namespace {

using partition::OpenOnce;

template <typename T>
bool Find(void* handle, const std::string& name, T* function, std::string* missing) {
  *function = reinterpret_cast<T>(dlsym(handle, name.c_str()));
  if (!*function && missing->empty()) *missing = "lacks function " + name;
  return *function != nullptr;
}

void FindCommon(void* handle, const std::string& prefix, Api* api, std::string* missing) {
  Find(handle, prefix + "cblas_sgemm", &api->sgemm, missing);
  Find(handle, prefix + "cblas_dgemm", &api->dgemm, missing);
  Find(handle, prefix + "cblas_sgemv", &api->sgemv, missing);
  Find(handle, prefix + "cblas_dgemv", &api->dgemv, missing);
}

std::string LoadOpenBlas(void* handle, Library* library) {
  // Builds for SciPy prefix their names.
  const std::string prefix = dlsym(handle, "scipy_cblas_sgemm") ? "scipy_" : "";
  std::string missing;
  void (*set_num_threads)(int) = nullptr;
  char* (*get_config)() = nullptr;
  FindCommon(handle, prefix, &library->api, &missing);
  Find(handle, prefix + "openblas_set_num_threads", &set_num_threads, &missing);
  Find(handle, prefix + "openblas_get_config", &get_config, &missing);
  if (!missing.empty()) return missing;
  // Most builds with 64-bit sizes have a suffix to their names; this tells of all.
  const std::string config = get_config();
  if (config.find("USE64BITINT") != std::string::npos) {
    return "is built with 64-bit sizes (" + config + "), and ours are of 32 bits";
  }
  set_num_threads(1);
  // As in "OpenBLAS 0.3.34.481.3 DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64": the kernels'
  // name counts, as a variable can change it.
  library->version = config;
  return "";
}

std::string LoadMkl(void* handle, Library* library) {
  std::string missing;
  int (*set_threading_layer)(int) = nullptr;
  int (*set_interface_layer)(int) = nullptr;
  void (*get_version_string)(char*, int) = nullptr;
  Find(handle, "MKL_Set_Threading_Layer", &set_threading_layer, &missing);
  Find(handle, "MKL_Set_Interface_Layer", &set_interface_layer, &missing);
  Find(handle, "MKL_Get_Version_String", &get_version_string, &missing);
  FindCommon(handle, "", &library->api, &missing);
  Find(handle, "cblas_sgemm_pack_get_size", &library->api.pack_size, &missing);
  Find(handle, "cblas_sgemm_pack", &library->api.pack, &missing);
  Find(handle, "cblas_sgemm_compute", &library->api.compute, &missing);
  Find(handle, "cblas_gemm_s8u8s32", &library->api.byte_gemm, &missing);
  if (!missing.empty()) return missing;
  // Before the first product, which opens the layers: neither Intel's OpenMP nor TBB is loaded.
  constexpr int kSequential = 1;
  constexpr int kLp64 = 0;
  if (set_interface_layer(kLp64) != kLp64) return "is in use already with 64-bit sizes";
  const int layer = set_threading_layer(kSequential);
  if (layer != kSequential) {
    return "is in use already with threads of its own (layer " + std::to_string(layer) + ")";
  }
  char text[256] = {};
  get_version_string(text, sizeof(text) - 1);
  library->version = text;
  return "";
}

/*! \brief Leaves the calling thread one CPU while it lives, then all that it had. */
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

 private:
  cpu_set_t before_;
  bool saved_;
};

/*!
 * \brief dlopen that lets the library see one CPU.
 *
 * OpenBLAS starts a thread for each CPU that it sees when it is opened. Its variable for that
 * number can't be set here: setenv is no friend of other threads' getenv.
 */
void* Open(const std::string& path) {
  ScopedOneCpu one_cpu;
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

const Library& OpenBlas() {
  static const Library* library = OpenOnce<Api>({"OpenBLAS (libscipy_openblas.so)",
                                                 "libscipy_openblas.so",
                                                 "COLLAGE_OPENBLAS_LIBRARY",
                                                 "scipy-openblas32==0.3.34.481.3",
                                                 {"scipy_openblas32/lib/libscipy_openblas.so"}},
                                                LoadOpenBlas, Open);
  return *library;
}

const Library& Mkl() {
  static const Library* library =
      OpenOnce<Api>({"MKL (libmkl_rt.so.3)",
                     "libmkl_rt.so.3",
                     "COLLAGE_MKL_LIBRARY",
                     "mkl==2026.2.0",
                     {"../../libmkl_rt.so.3", "../../../lib/libmkl_rt.so.3"}},
                    LoadMkl, Open);
  return *library;
}

TVM_REGISTER_GLOBAL("collage.cblas.why_unavailable").set_body_typed([]() -> runtime::String {
  return OpenBlas().problem;
});
TVM_REGISTER_GLOBAL("collage.cblas.version").set_body_typed([]() -> runtime::String {
  return OpenBlas().version;
});
TVM_REGISTER_GLOBAL("collage.mkl.why_unavailable").set_body_typed([]() -> runtime::String {
  return Mkl().problem;
});
TVM_REGISTER_GLOBAL("collage.mkl.version").set_body_typed([]() -> runtime::String {
  return Mkl().version;
});

}  // namespace blas
}  // namespace collage
}  // namespace tvm
