// SPDX-License-Identifier: Apache-2.0
// Stands in for libtvm's functions behind `runtime.config_threadpool` and `runtime.NumThreads`,
// which would start TVM's own pool beside ours and set or report a count that nobody uses.
// Precondition: names and types are those of tvm/runtime/threading_backend.h of TVM 0.19.
// Test: runtime/test_thread_pool.py.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "c_backend_abi.h"
#include "thread_count.h"

namespace tvm::runtime::threading {

class ThreadGroup {
 public:
  enum AffinityMode : int {};
};

// Affinity is left to OpenMP (OMP_PLACES, OMP_PROC_BIND), whose threads oneDNN shares: `mode` and
// the names in `cpus` are not followed, only how many there are.
COLLAGE_POOL_EXPORT void Configure(ThreadGroup::AffinityMode, int nthreads,
                                   std::vector<unsigned int> cpus) {
  collage::pool::SetNumThreadsOfThisThread(static_cast<int>(cpus.size()));
  if (nthreads > 0) {
    // As in TVM, `nthreads` can lower the count, not raise it.
    collage::pool::SetNumThreadsOfThisThread(std::min(nthreads, collage::pool::NumThreads()));
  }
  // The rest of libtvm asks MaxConcurrency().
  using SetMaxConcurrency = void (*)(int);
  if (auto set = reinterpret_cast<SetMaxConcurrency>(
          dlsym(RTLD_DEFAULT, "_ZN3tvm7runtime9threading17SetMaxConcurrencyEi"))) {
    set(static_cast<int>(cpus.size()));
  }
}

COLLAGE_POOL_EXPORT int32_t NumThreads() { return collage::pool::NumThreads(); }

COLLAGE_POOL_EXPORT void ResetThreadPool() { collage::pool::SetNumThreadsOfThisThread(0); }

}  // namespace tvm::runtime::threading
