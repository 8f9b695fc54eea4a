// SPDX-License-Identifier: Apache-2.0
// The part of TVM's C ABI (tvm/runtime/c_backend_api.h) that the pool stands in for, declared here
// so that the library builds and loads without TVM. The layout must stay TVM's own.
// Test: runtime/test_thread_pool.py (a TVM kernel runs on the pool).
#pragma once

#include <cstddef>
#include <cstdint>

#define COLLAGE_POOL_EXPORT __attribute__((visibility("default")))

extern "C" {

// What a task sees of its group. Compiled kernels read `num_task` to divide their loop.
struct TVMParallelGroupEnv {
  void* sync_handle;
  int32_t num_task;
};

// One task; returns 0 on success.
typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv* penv, void* cdata);

// Runs the tasks 0..num_task-1 (num_task == 0: as many as the pool has threads) and waits for them.
// Returns 0, or -1 when a task failed; then the reason is this thread's last error.
COLLAGE_POOL_EXPORT int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata,
                                                 int num_task);

// Waits until each task of the group has come here as often as this one. Returns -1, at once and
// without waiting, when that cannot happen; the launch then fails too.
COLLAGE_POOL_EXPORT int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv);

}  // extern "C"

static_assert(offsetof(TVMParallelGroupEnv, num_task) == sizeof(void*), "layout of TVM's C ABI");
