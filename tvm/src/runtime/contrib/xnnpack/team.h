// SPDX-License-Identifier: Apache-2.0
// XNNPACK's thread pool on the threads of TVM's parallel launch, so that no second set of threads
// exists.
//
// A run is one launch: its first task runs the library, which schedules the others' work as it
// goes; the others wait for that until the first one is done. Where a launch has fewer threads,
// as inside another one, what nobody takes is work that the first thread does itself.
// Test: backends/test_threads.py, backends/xnnpack/test_backend.py.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "xnnpack_api.h"

namespace tvm::collage::xnnpack {

class Team {
 public:
  explicit Team(int num_threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // What runtimes are made with; null where one thread does all.
  Pool* pool() const { return pool_; }

  // Invokes a runtime; one call at a time. Returns the library's status.
  int Invoke(Runtime* runtime);

 private:
  struct Task {
    void* context;
    void (*run)(void* context);
  };
  struct Call;

  static int NumHelpers(void* self);
  static void Schedule(void* self, void* context, void (*task)(void* context));
  bool RunScheduled();
  void Help();

  const int num_threads_;
  Pool* pool_ = nullptr;
  std::atomic<bool> is_done_{true};
  std::atomic<int> num_scheduled_{0};  // of the list below, to be seen without the lock
  std::mutex mutex_;                   // guards scheduled_
  std::vector<Task> scheduled_;
};

}  // namespace tvm::collage::xnnpack
