// SPDX-License-Identifier: Apache-2.0
// The tasks of one launch: what to call, how far each task has come (for the barrier), what failed.
// Test: runtime/test_thread_pool.py.
#pragma once

#include <atomic>
#include <string>

#include "c_backend_abi.h"
#include "task_errors.h"

namespace tvm::collage::pool {

// How many barriers a task has entered; after the task's end, the same number's complement (a
// negative value). One cache line each, as every task writes its own and reads all.
struct alignas(64) TaskProgress {
  std::atomic<int> barriers{0};
};

class TaskGroup {
 public:
  // `progress` has num_task entries, or is null for tasks that run one after another.
  TaskGroup(FTVMParallelLambda flambda, void* cdata, int num_task, TaskProgress* progress);

  int num_task() const { return env_.num_task; }
  TaskErrors& errors() { return errors_; }

  // Runs the tasks first, first + step, ... on this thread; nothing leaves it but recorded errors.
  // `num_threads` is the size of the team: each thread of a team gives the same.
  void RunTasks(int first, int step, int num_threads);

  // The barrier, called from within task `task_id`.
  int Wait(int task_id);

  // The group whose environment a task was given.
  static TaskGroup* FromEnv(TVMParallelGroupEnv* env) {
    return static_cast<TaskGroup*>(env->sync_handle);
  }

 private:
  bool HasThreadPerTask() const;
  void RunTask(int task_id);
  int Refuse(int task_id, const std::string& reason);

  FTVMParallelLambda flambda_;
  void* cdata_;
  TVMParallelGroupEnv env_;
  TaskProgress* progress_;
  // Every thread stores the same value before its first task, so each reads at least its own store.
  std::atomic<int> num_threads_{0};
  TaskErrors errors_;
};

}  // namespace tvm::collage::pool
