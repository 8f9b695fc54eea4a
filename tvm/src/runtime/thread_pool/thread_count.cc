// SPDX-License-Identifier: Apache-2.0
#include "thread_count.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "c_backend_abi.h"

namespace tvm::collage::pool {
namespace {

// More is surely a typing error, and OpenMP ends the process when it cannot make its threads.
constexpr int kMaxThreads = 1024;

std::atomic<int> process_setting{0};
thread_local int thread_setting = 0;

bool IsValidCount(long count) { return count >= 1 && count <= kMaxThreads; }

// 0 when the variable is unset or no valid count. OMP_NUM_THREADS may be a list, one number per
// nesting level: its first is read.
int CountFromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  char* end = nullptr;
  long count = std::strtol(text, &end, 10);
  bool ends_well = end != text && (*end == '\0' || *end == ',' || *end == ' ');
  return ends_well && IsValidCount(count) ? static_cast<int>(count) : 0;
}

int FindDefaultCount() {
  for (const char* name : {"TVM_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (int count = CountFromEnvironment(name)) return count;
  }
  return std::min(omp_get_max_threads(), kMaxThreads);
}

// Read once, at the first use, as TVM's pool does: getenv is no friend of other threads' setenv.
int DefaultCount() {
  static const int count = FindDefaultCount();
  return count;
}

}  // namespace

int NumThreads() {
  int count = thread_setting;
  if (count == 0) count = process_setting.load(std::memory_order_relaxed);
  if (count == 0) count = DefaultCount();
  return std::min(count, omp_get_thread_limit());
}

void SetNumThreadsOfThisThread(int num_threads) {
  thread_setting = num_threads;
  omp_set_num_threads(NumThreads());
}

}  // namespace tvm::collage::pool

extern "C" COLLAGE_POOL_EXPORT int CollagePoolNumThreads() {
  return tvm::collage::pool::NumThreads();
}

// Sets the count for the whole process; 0 goes back to the environment's. Returns -1 (and changes
// nothing) for a count out of range.
extern "C" COLLAGE_POOL_EXPORT int CollagePoolSetNumThreads(int num_threads) {
  using namespace tvm::collage::pool;  // NOLINT(build/namespaces)
  if (num_threads != 0 && !IsValidCount(num_threads)) return -1;
  process_setting.store(num_threads, std::memory_order_relaxed);
  SetNumThreadsOfThisThread(0);
  return 0;
}
