// SPDX-License-Identifier: Apache-2.0
#include "onednn_api.h"

#include <dlfcn.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/registry.h>

#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "../partition/open_library.h"
#include "../winograd/winograd.h"

namespace tvm::collage::onednn {
namespace {

using partition::Opened;
using partition::OpenOnce;

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

// Fills the table and the version from an open file; returns "" or why it won't do.
std::string Load(void* library, Opened<Api>* opened) {
  Api& api = opened->api;
  std::string missing;
#define COLLAGE_DNNL_LOAD(name)                                                   \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "dnnl_" #name)); \
  if (!api.name && missing.empty()) missing = "dnnl_" #name;
  COLLAGE_DNNL_FUNCTIONS(COLLAGE_DNNL_LOAD)
#undef COLLAGE_DNNL_LOAD
  // A handle finds what the library itself was linked with.
  api.omp_get_max_threads =
      reinterpret_cast<decltype(api.omp_get_max_threads)>(dlsym(library, "omp_get_max_threads"));
  api.omp_set_num_threads =
      reinterpret_cast<decltype(api.omp_set_num_threads)>(dlsym(library, "omp_set_num_threads"));
  std::ostringstream text;
  if (api.version) {
    // First, as it explains a missing function better than the function's name does.
    const dnnl_version_t* v = api.version();
    text << v->major << "." << v->minor << "." << v->patch;
    if (v->major != 3 || v->minor < 2) {
      return "is oneDNN " + text.str() + ", not 3.2 or a later 3.x";
    }
  }
  if (!missing.empty()) return "lacks function " + missing;
  if (api.engine_create(&api.engine, dnnl_cpu, 0) != dnnl_success) {
    return "oneDNN " + text.str() + " offers no CPU engine";
  }
  opened->version = text.str();
  return "";
}

const Opened<Api>& OneDnn() {
  static const Opened<Api>* opened =
      OpenOnce<Api>({"oneDNN (libdnnl.so.3, version 3.2 or a later 3.x)",
                     "libdnnl.so.3",
                     "COLLAGE_ONEDNN_LIBRARY",
                     "onednn-cpu-gomp==2023.2.0",
                     {"../../libdnnl.so.3", "../../../lib/libdnnl.so.3"}},
                    Load);
  return *opened;
}

}  // namespace

const Api& GetApi() { return OneDnn().Require(); }

std::string WhyUnavailable() { return OneDnn().problem; }

std::string Version() { return OneDnn().version; }

namespace {

bool Has(dnnl_cpu_isa_t isa) {
  return (GetApi().get_effective_cpu_isa() & isa) == isa;  // sets of instructions are bits
}

// As in "AVX512_CORE_VNNI", the words of ONEDNN_MAX_CPU_ISA.
std::string EffectiveIsa() {
  static const auto* names = new std::map<int, std::string>{
      {dnnl_cpu_isa_sse41, "SSE41"},
      {dnnl_cpu_isa_avx, "AVX"},
      {dnnl_cpu_isa_avx2, "AVX2"},
      {dnnl_cpu_isa_avx2_vnni, "AVX2_VNNI"},
      {dnnl_cpu_isa_avx2_vnni_2, "AVX2_VNNI_2"},
      {dnnl_cpu_isa_avx512_core, "AVX512_CORE"},
      {dnnl_cpu_isa_avx512_core_vnni, "AVX512_CORE_VNNI"},
      {dnnl_cpu_isa_avx512_core_bf16, "AVX512_CORE_BF16"},
      {dnnl_cpu_isa_avx512_core_fp16, "AVX512_CORE_FP16"},
      {dnnl_cpu_isa_avx512_core_amx, "AVX512_CORE_AMX"},
      {dnnl_cpu_isa_avx512_core_amx_fp16, "AVX512_CORE_AMX_FP16"},
  };
  const int isa = GetApi().get_effective_cpu_isa();
  const auto name = names->find(isa);
  return name == names->end() ? "instructions " + std::to_string(isa) : name->second;
}

// Raised when the same description becomes other primitives: costs of before are measured again.
constexpr int kPlansVersion = 4;

}  // namespace

// AVX-512 begins with the instructions of its core.
bool RunsBfloat16() { return Has(dnnl_cpu_isa_avx512_core); }

std::string WhyBytesAreInexact() {
  if (!WhyUnavailable().empty()) return WhyUnavailable();
  // VNNI of 256 bits alone will not do: oneDNN's product of matrices makes no use of it.
  if (Has(dnnl_cpu_isa_avx512_core_vnni)) return "";
  return "8-bit products need AVX512_VNNI, which this CPU lacks or ONEDNN_MAX_CPU_ISA forbids (" +
         EffectiveIsa() + "): oneDNN's sums of them would saturate";
}

void CheckBytesAreExact(const std::string& implementation, const std::string& what) {
  static const auto* kInexact =
      new std::set<std::string>{"sse41", "avx", "avx2", "avx512_core", "avx512_common"};
  std::string reason = WhyBytesAreInexact();
  if (kInexact->count(implementation.substr(implementation.find(':') + 1)) && reason.empty()) {
    reason = "its implementation " + implementation + " saturates";
  }
  if (!reason.empty()) LOG(FATAL) << "ValueError: oneDNN: " << what << ": " << reason;
}

int VectorLanes() {
  if (Has(dnnl_cpu_isa_avx512_core)) return 16;
  return Has(dnnl_cpu_isa_avx2) ? 8 : 4;  // AVX2 here means FMA as well
}

ScopedOneThread::ScopedOneThread(bool is_wanted) {
  const Api& api = GetApi();
  if (!is_wanted || !api.omp_get_max_threads || !api.omp_set_num_threads) return;
  before_ = api.omp_get_max_threads();
  api.omp_set_num_threads(1);
}

ScopedOneThread::~ScopedOneThread() {
  if (before_ > 0) GetApi().omp_set_num_threads(before_);
}

void CheckStatus(dnnl_status_t status, const std::string& what) {
  if (status != dnnl_success) {
    LOG(FATAL) << "ValueError: oneDNN: " << what << ": " << StatusName(status);
  }
}

TVM_REGISTER_GLOBAL("collage.onednn.why_unavailable").set_body_typed([]() -> runtime::String {
  return WhyUnavailable();
});
TVM_REGISTER_GLOBAL("collage.onednn.runs_bfloat16").set_body_typed([]() -> bool {
  return WhyUnavailable().empty() && RunsBfloat16();
});
TVM_REGISTER_GLOBAL("collage.onednn.why_bytes_are_inexact").set_body_typed([]() -> runtime::String {
  return WhyBytesAreInexact();
});
TVM_REGISTER_GLOBAL("collage.onednn.version").set_body_typed([]() -> runtime::String {
  if (!WhyUnavailable().empty()) return "";
  return Version() + ", plans " + std::to_string(kPlansVersion) + ", Winograd kernel " +
         std::to_string(winograd::kVersion) + ", " + EffectiveIsa();
});

}  // namespace tvm::collage::onednn
