// SPDX-License-Identifier: Apache-2.0
#include "task_errors.h"

#include <set>
#include <string>
#include <utility>

namespace tvm::collage::pool {

void TaskErrors::Add(int task_id, ThreadError error) {
  std::lock_guard<std::mutex> lock(mutex_);
  errors_.emplace(task_id, std::move(error));
  failed_.store(true, std::memory_order_release);
}

ThreadError TaskErrors::Merged() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (errors_.empty()) return {};
  ThreadError merged = errors_.begin()->second;
  std::set<std::string> told{merged.message};
  for (const auto& [task_id, error] : errors_) {
    if (!told.insert(error.message).second) continue;
    merged.message += "\nAlso, in task " + std::to_string(task_id) + ": " + error.message;
  }
  return merged;
}

}  // namespace tvm::collage::pool
