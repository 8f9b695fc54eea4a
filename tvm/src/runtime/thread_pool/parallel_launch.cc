// SPDX-License-Identifier: Apache-2.0
// TVM's parallel launch over OpenMP, so that compiled kernels and oneDNN share one set of threads.
// Loaded with RTLD_GLOBAL before libtvm.so it takes the place of TVM's own pool.
// Test: runtime/test_thread_pool.py.
#include <omp.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "c_backend_abi.h"
#include "flush_denormals.h"
#include "spread.h"
#include "task_group.h"
#include "thread_count.h"
#include "thread_error.h"

namespace tvm::collage::pool {
namespace {

std::atomic<int64_t> launch_count{0};
std::atomic<int64_t> task_count{0};

// OpenMP does not call a team of one parallel, so being inside a task is noted here.
thread_local bool is_in_task = false;

class ScopedInTask {
 public:
  ScopedInTask() : was_in_task_(is_in_task) { is_in_task = true; }
  ~ScopedInTask() { is_in_task = was_in_task_; }

 private:
  bool was_in_task_;
};

bool IsNested() { return is_in_task || omp_in_parallel(); }

// Grows and is kept, so that a launch costs no allocation. One a thread is enough: only launches
// that are not nested use it.
TaskProgress* ProgressOfThisThread(int num_task) {
  thread_local std::unique_ptr<TaskProgress[]> entries;
  thread_local int size = 0;
  if (size < num_task) {
    entries.reset(new TaskProgress[num_task]);
    size = num_task;
  }
  return entries.get();
}

void RunHere(TaskGroup* group) {
  ScopedInTask in_task;
  ScopedFlushDenormals flush(WantsFlushDenormals());
  group->RunTasks(/*first=*/0, /*step=*/1, /*num_threads=*/1);
}

// The team always has the pool's size, even for fewer tasks: libgomp ends and makes threads when
// the size changes from one region to the next, which costs more than waking idle ones.
void RunOnTeam(TaskGroup* group, int num_threads) {
  bool flush_wanted = WantsFlushDenormals();
  TeamSpread* spread = WantsSpread() ? TeamSpread::OfThisThread() : nullptr;
  // A part has seen to it for all of its launches.
  if (spread && (spread->IsInPart() || spread->CanSkip())) spread = nullptr;
  if (spread) spread->Begin(num_threads);
#pragma omp parallel num_threads(num_threads)
  {
    ScopedInTask in_task;
    ScopedFlushDenormals flush(flush_wanted);
    if (spread) spread->Enter(omp_get_thread_num());
    // OpenMP may give fewer threads than asked; then each takes several tasks.
    int team_size = omp_get_num_threads();
    group->RunTasks(omp_get_thread_num(), team_size, team_size);
    if (spread) spread->Leave(omp_get_thread_num());
  }
  if (spread) spread->End();
}

int Finish(TaskGroup* group) {
  if (group->errors().empty()) return 0;
  SetThreadError(group->errors().Merged());
  return -1;
}

int Launch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  if (flambda == nullptr || num_task < 0) {
    SetThreadError({"TVMBackendParallelLaunch needs a function and num_task >= 0"});
    return -1;
  }
  launch_count.fetch_add(1, std::memory_order_relaxed);
  int num_threads = IsNested() ? 1 : NumThreads();
  if (num_task == 0) num_task = num_threads;
  task_count.fetch_add(num_task, std::memory_order_relaxed);
  if (num_threads == 1 || num_task == 1) {
    TaskGroup group(flambda, cdata, num_task, nullptr);
    RunHere(&group);
    return Finish(&group);
  }
  TaskGroup group(flambda, cdata, num_task, ProgressOfThisThread(num_task));
  RunOnTeam(&group, num_threads);
  return Finish(&group);
}

}  // namespace
}  // namespace tvm::collage::pool

extern "C" int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  return tvm::collage::pool::Launch(flambda, cdata, num_task);
}

// Launches since the library was loaded, nested ones too: tests see by it that the pool is in use.
extern "C" COLLAGE_POOL_EXPORT int64_t CollagePoolLaunchCount() {
  return tvm::collage::pool::launch_count.load(std::memory_order_relaxed);
}

// Tasks of all these: tests see by it over how many threads a caller's work was spread.
extern "C" COLLAGE_POOL_EXPORT int64_t CollagePoolTaskCount() {
  return tvm::collage::pool::task_count.load(std::memory_order_relaxed);
}
