// SPDX-License-Identifier: Apache-2.0
#include "team.h"

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/threading_backend.h>

#include <algorithm>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tvm::collage::xnnpack {
namespace {

// Turns of a thread that waits, before it leaves its CPU to others.
constexpr int kTurns = 1000;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#endif
}

}  // namespace

struct Team::Call {
  Team* team;
  Runtime* runtime;
  int status = 0;
};

Team::Team(int num_threads) : num_threads_(num_threads) {
  if (num_threads <= 1) return;
  const Executor executor{NumHelpers, Schedule};
  pool_ = GetApi().pool.create_v2(&executor, this, num_threads);
  ICHECK(pool_) << "XNNPACK: there is no memory for a thread pool";
}

Team::~Team() {
  if (pool_) GetApi().pool.destroy(pool_);
}

int Team::Invoke(Runtime* runtime) {
  const Api& api = GetApi();
  if (!pool_) return api.invoke_runtime(runtime);
  Call call{this, runtime};
  is_done_.store(false, std::memory_order_release);
  const auto task = [](int number, TVMParallelGroupEnv*, void* data) -> int {
    auto* call = static_cast<Call*>(data);
    if (number > 0) {
      call->team->Help();
      return 0;
    }
    call->status = GetApi().invoke_runtime(call->runtime);
    GetApi().pool.release_executor_threads(call->team->pool_);
    call->team->is_done_.store(true, std::memory_order_release);
    return 0;
  };
  const int num_tasks = std::max(1, std::min(num_threads_, runtime::threading::NumThreads()));
  const int failed = TVMBackendParallelLaunch(task, &call, num_tasks);
  // Of tasks that no thread has taken, the pool waits to be left.
  while (RunScheduled()) {
  }
  ICHECK_EQ(failed, 0) << TVMGetLastError();
  return call.status;
}

int Team::NumHelpers(void* self) { return static_cast<Team*>(self)->num_threads_ - 1; }

void Team::Schedule(void* self, void* context, void (*task)(void* context)) {
  auto* team = static_cast<Team*>(self);
  std::lock_guard<std::mutex> lock(team->mutex_);
  team->scheduled_.push_back({context, task});
  team->num_scheduled_.fetch_add(1, std::memory_order_release);
}

bool Team::RunScheduled() {
  if (num_scheduled_.load(std::memory_order_acquire) == 0) return false;
  Task task;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (scheduled_.empty()) return false;
    task = scheduled_.back();
    scheduled_.pop_back();
    num_scheduled_.fetch_sub(1, std::memory_order_relaxed);
  }
  task.run(task.context);
  return true;
}

void Team::Help() {
  for (int turns = 0; !is_done_.load(std::memory_order_acquire); ++turns) {
    if (RunScheduled()) {
      turns = 0;
    } else if (turns % kTurns == kTurns - 1) {
      std::this_thread::yield();
    } else {
      Pause();
    }
  }
}

}  // namespace tvm::collage::xnnpack
