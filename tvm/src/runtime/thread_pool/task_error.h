// SPDX-License-Identifier: Apache-2.0
// Carries the errors of tasks, which live in thread-local storage of the worker threads, to the
// thread that launched them. Errors are rare, so nothing here is fast.
// Test: tests/python/collage/test_thread_pool.py.
#ifndef TVM_RUNTIME_THREAD_POOL_TASK_ERROR_H_
#define TVM_RUNTIME_THREAD_POOL_TASK_ERROR_H_

#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace tvm {
namespace collage {
namespace pool {

// Makes `message` this thread's last error: for CollagePoolLastError() and, when TVM is in the
// process, for TVMGetLastError().
void SetThreadError(const std::string& message);

// Takes (and clears) the last error that TVM holds for this thread; "" when there is none.
std::string TakeThreadError();

// The failures of one launch. Add() may be called from any thread.
class TaskErrors {
 public:
  // Records that a task failed; of several reasons for one task the first is kept.
  void Add(int task_id, std::string message);
  bool empty() const { return !failed_.load(std::memory_order_acquire); }
  // Call on the launching thread once all tasks have ended: the lowest failing task's message stays
  // whole and comes first, since TVM reads the exception's type from its beginning.
  void PublishToThisThread() const;

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::map<int, std::string> messages_;
};

}  // namespace pool
}  // namespace collage
}  // namespace tvm

#endif  // TVM_RUNTIME_THREAD_POOL_TASK_ERROR_H_
