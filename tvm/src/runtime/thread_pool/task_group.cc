// SPDX-License-Identifier: Apache-2.0
#include "task_group.h"

#include <sched.h>

#include <exception>
#include <string>

namespace tvm::collage::pool {
namespace {

// Polls before the core is offered to others: the tasks of a barrier are mostly close together.
constexpr int kSpinsBeforeYield = 1000;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

std::string DescribeTask(int task_id, int num_task) {
  return "task " + std::to_string(task_id) + " of " + std::to_string(num_task);
}

}  // namespace

TaskGroup::TaskGroup(FTVMParallelLambda flambda, void* cdata, int num_task, TaskProgress* progress)
    : flambda_(flambda), cdata_(cdata), env_{this, num_task}, progress_(progress) {
  for (int i = 0; progress_ != nullptr && i < num_task; ++i) {
    progress_[i].barriers.store(0, std::memory_order_relaxed);
  }
}

bool TaskGroup::HasThreadPerTask() const {
  return progress_ != nullptr && num_threads_.load(std::memory_order_relaxed) >= env_.num_task;
}

void TaskGroup::RunTasks(int first, int step, int num_threads) {
  num_threads_.store(num_threads, std::memory_order_relaxed);
  for (int task_id = first; task_id < env_.num_task; task_id += step) {
    RunTask(task_id);
    if (progress_ == nullptr) continue;
    std::atomic<int>& mine = progress_[task_id].barriers;
    mine.store(~mine.load(std::memory_order_relaxed), std::memory_order_release);
  }
}

// An exception must not leave an OpenMP region (that ends the process), and TVM's callers read a
// return code and the last error, so it becomes these.
void TaskGroup::RunTask(int task_id) {
  try {
    int code = flambda_(task_id, &env_, cdata_);
    if (code == 0) return;
    ThreadError error = TakeThreadError();
    if (error.message.empty()) {
      error.message = DescribeTask(task_id, env_.num_task) + " returned " + std::to_string(code) +
                      " and left no error message";
    }
    errors_.Add(task_id, error);
  } catch (const std::exception& error) {
    errors_.Add(task_id, {error.what()});
  } catch (...) {
    errors_.Add(task_id,
                {DescribeTask(task_id, env_.num_task) + " threw an unknown C++ exception"});
  }
}

// Kernels that TVM generates ignore the barrier's result, so the launch itself has to fail as well.
int TaskGroup::Refuse(int task_id, const std::string& reason) {
  ThreadError error{"Barrier in " + DescribeTask(task_id, env_.num_task) + " refused: " + reason};
  errors_.Add(task_id, error);
  SetThreadError(error);
  return -1;
}

int TaskGroup::Wait(int task_id) {
  if (env_.num_task == 1) return 0;
  if (!HasThreadPerTask()) {
    return Refuse(task_id,
                  "the tasks share " + std::to_string(num_threads_.load()) +
                      " thread(s), so it would wait for ever. Launch as many tasks as the pool has "
                      "threads (num_task = 0, not from inside another task), or allow more threads "
                      "with TVM_NUM_THREADS and OMP_THREAD_LIMIT.");
  }
  int entered = progress_[task_id].barriers.load(std::memory_order_relaxed) + 1;
  progress_[task_id].barriers.store(entered, std::memory_order_release);
  for (int other = 0; other < env_.num_task; ++other) {
    for (int spins = 1;; ++spins) {
      int progress = progress_[other].barriers.load(std::memory_order_acquire);
      bool has_ended = progress < 0;
      if ((has_ended ? ~progress : progress) >= entered) break;
      if (has_ended) {
        return Refuse(task_id, DescribeTask(other, env_.num_task) + " ended before it got there.");
      }
      spins % kSpinsBeforeYield == 0 ? static_cast<void>(sched_yield()) : Pause();
    }
  }
  return 0;
}

}  // namespace tvm::collage::pool

extern "C" int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv) {
  // A group of one needs no waiting, whoever made it.
  if (penv->num_task == 1) return 0;
  return tvm::collage::pool::TaskGroup::FromEnv(penv)->Wait(task_id);
}
