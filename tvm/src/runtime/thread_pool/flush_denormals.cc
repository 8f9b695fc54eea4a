// SPDX-License-Identifier: Apache-2.0
#include "flush_denormals.h"

#include <omp.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "c_backend_abi.h"
#include "thread_count.h"

namespace tvm::collage::pool {
namespace {

bool IsWantedByEnvironment() {
  const char* text = std::getenv("COLLAGE_FLUSH_DENORMALS");
  return ScopedFlushDenormals::kSupported && text != nullptr && std::strcmp(text, "1") == 0;
}

// Odd: flush. It grows with each change, so that threads know whether they have followed it.
std::atomic<int> setting{IsWantedByEnvironment() ? 1 : 0};
thread_local int followed = 0;

bool IsOn(int value) { return value % 2 == 1; }

}  // namespace

bool WantsFlushDenormals() { return IsOn(setting.load(std::memory_order_relaxed)); }

}  // namespace tvm::collage::pool

// Returns -1 when this processor has no such mode; disabling always works.
extern "C" COLLAGE_POOL_EXPORT int CollagePoolSetFlushDenormals(int enabled) {
  using namespace tvm::collage::pool;
  if (enabled != 0 && !ScopedFlushDenormals::kSupported) return -1;
  int before = setting.load();
  while (IsOn(before) != (enabled != 0) && !setting.compare_exchange_weak(before, before + 1)) {
  }
  return 0;
}

extern "C" COLLAGE_POOL_EXPORT int CollagePoolFlushDenormals() {
  return tvm::collage::pool::WantsFlushDenormals() ? 1 : 0;
}

// Has this thread and its OpenMP team follow the setting from now on, outside of tasks too; threads
// that they start inherit it. Costs nothing when nothing has changed.
extern "C" COLLAGE_POOL_EXPORT void CollagePoolFollowFlushDenormals() {
  using namespace tvm::collage::pool;
  const int wanted = setting.load(std::memory_order_relaxed);
  if (followed == wanted) return;
  // A thread that has not seen the setting go on and off again need not start a team to say so.
  const bool is_as_wanted = IsOn(followed) == IsOn(wanted) && FlushesDenormals() == IsOn(wanted);
  followed = wanted;
  if (is_as_wanted) return;
  SetFlushDenormals(IsOn(wanted));
  if (omp_in_parallel()) return;
#pragma omp parallel num_threads(NumThreads())
  SetFlushDenormals(IsOn(wanted));
}
