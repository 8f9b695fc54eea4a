// SPDX-License-Identifier: Apache-2.0
// Carries the errors of tasks to the launching thread; see task_error.h.
// Test: tests/python/collage/test_thread_pool.py.
#include "task_error.h"

#include <dlfcn.h>

#include <set>
#include <utility>

#include "c_backend_abi.h"

namespace tvm {
namespace collage {
namespace pool {
namespace {

thread_local std::string last_error;

// TVM comes into the process after this library, if at all, so its functions are looked up when
// an error needs them. A missing one is not remembered: TVM may be loaded later.
template <typename Function>
Function FindTVMFunction(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void SetThreadError(const std::string& message) {
  last_error = message;
  if (auto set = FindTVMFunction<void (*)(const char*)>("TVMAPISetLastError")) {
    set(message.c_str());
  }
}

std::string TakeThreadError() {
  std::string message = last_error;
  if (auto get = FindTVMFunction<const char* (*)()>("TVMGetLastError")) {
    // TVM answers null when the error is a Python exception object, which has no text here.
    const char* text = get();
    message = text != nullptr ? text : "";
  }
  SetThreadError("");
  return message;
}

void TaskErrors::Add(int task_id, std::string message) {
  std::lock_guard<std::mutex> lock(mutex_);
  messages_.emplace(task_id, std::move(message));
  failed_.store(true, std::memory_order_release);
}

void TaskErrors::PublishToThisThread() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::set<std::string> told;
  std::string report;
  for (const auto& [task_id, message] : messages_) {
    if (!told.insert(message).second) continue;
    if (!report.empty()) report += "\nAlso, in task " + std::to_string(task_id) + ": ";
    report += message;
  }
  SetThreadError(report);
}

}  // namespace pool
}  // namespace collage
}  // namespace tvm

extern "C" COLLAGE_POOL_EXPORT const char* CollagePoolLastError() {
  return tvm::collage::pool::last_error.c_str();
}
