// SPDX-License-Identifier: Apache-2.0
// Collects the errors of a launch's tasks, which arise in worker threads, for the thread that
// launched them. Errors are rare, so nothing here is fast.
// Test: runtime/test_thread_pool.py.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "thread_error.h"

namespace tvm::collage::pool {

// Add() may be called from any thread.
class TaskErrors {
 public:
  // Records that a task failed; of several reasons for one task the first is kept.
  void Add(int task_id, ThreadError error);
  bool empty() const { return !failed_.load(std::memory_order_acquire); }
  // All of them as one, once all tasks have ended. The lowest failing task's comes first and whole,
  // since TVM reads the exception's type from its beginning; if it is a Python exception, it alone.
  ThreadError Merged() const;

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::map<int, ThreadError> errors_;
};

}  // namespace tvm::collage::pool
