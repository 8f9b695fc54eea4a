// SPDX-License-Identifier: Apache-2.0
// What libraries that run parts ask of our thread pool, which need not be in the process.
// Test: process_wide/test_denormals.py, runtime/test_thread_pool.py.
#pragma once

#include <cstdint>

namespace tvm::collage::partition {

// Has this thread, its OpenMP team and threads that they start do what is asked for.
void FollowFlushDenormals();

// Whether it is asked for now. False where our thread pool is not in the process.
bool WantsFlushDenormals();

// Whether the calling thread does so much in less time than waking others for it takes.
bool IsSmallWork(int64_t operations, int64_t bytes);

// Tells it that so many threads of another pool, which has just worked for this thread, may still
// turn and wait for more.
void OthersWorked(int threads);

// While it lives, threads of this thread's team keep to CPUs of their own where they were seen to
// share one.
class ScopedSpread {
 public:
  ScopedSpread();
  ~ScopedSpread();
  ScopedSpread(const ScopedSpread&) = delete;
  ScopedSpread& operator=(const ScopedSpread&) = delete;
};

}  // namespace tvm::collage::partition
