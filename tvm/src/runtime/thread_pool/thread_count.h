// SPDX-License-Identifier: Apache-2.0
// How many threads a launch from the current thread uses.
// Test: runtime/test_thread_pool.py.
#pragma once

namespace tvm::collage::pool {

// The setting of the calling thread, else that of the process, else the first valid one of
// TVM_NUM_THREADS, OMP_NUM_THREADS and OpenMP's own default; never above OMP_THREAD_LIMIT.
int NumThreads();

// A setting for launches from the calling thread alone, as TVM's config_threadpool has it; 0 takes
// it back. OpenMP's count for this thread follows: libgomp ends and makes threads whenever two
// libraries ask it for teams of different sizes.
void SetNumThreadsOfThisThread(int num_threads);

}  // namespace tvm::collage::pool
