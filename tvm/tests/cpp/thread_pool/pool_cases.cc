// SPDX-License-Identifier: Apache-2.0
// One process per case of the thread pool's tests: `pool_cases <case>` exits with 0 when it holds.
// Linked with libtvm_collage_pool.so and nothing of TVM; built, and run with the thread counts in
// the environment, by runtime/test_thread_pool.py.
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "c_backend_abi.h"
#include "cases.h"

extern "C" {
const char* CollagePoolLastError();
int CollagePoolNumThreads();
int CollagePoolSetNumThreads(int num_threads);
int64_t CollagePoolLaunchCount();
int64_t CollagePoolTaskCount();
int CollagePoolSetFlushDenormals(int enabled);

// TVM's thread-local last error, which the pool looks up by these names.
thread_local std::string tvm_last_error;
COLLAGE_POOL_EXPORT void TVMAPISetLastError(const char* message) { tvm_last_error = message; }
COLLAGE_POOL_EXPORT const char* TVMGetLastError() { return tvm_last_error.c_str(); }
}

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition);      \
      std::fprintf(stderr, "last error: %s\n", tvm_last_error.c_str()); \
      std::exit(1);                                                     \
    }                                                                   \
  } while (false)

namespace {

using Task = std::function<int(int task_id, TVMParallelGroupEnv* env)>;

int CallTask(int task_id, TVMParallelGroupEnv* env, void* data) {
  return (*static_cast<Task*>(data))(task_id, env);
}

int Launch(int num_task, Task task) { return TVMBackendParallelLaunch(CallTask, &task, num_task); }

bool LastErrorHas(const std::string& text) {
  return tvm_last_error.find(text) != std::string::npos &&
         std::string(CollagePoolLastError()) == tvm_last_error;
}

bool RunsEachTaskOnce(int num_task, int expected) {
  std::vector<std::atomic<int>> runs(expected);
  std::atomic<bool> env_is_right{true};
  int code = Launch(num_task, [&](int task_id, TVMParallelGroupEnv* env) {
    if (env->num_task != expected || task_id < 0 || task_id >= expected) {
      env_is_right = false;
    } else {
      ++runs[task_id];
    }
    return 0;
  });
  for (auto& count : runs) env_is_right = env_is_right && count == 1;
  return code == 0 && env_is_right;
}

void AllTasksOnce() {
  CHECK(RunsEachTaskOnce(0, CollagePoolNumThreads()));
  for (int num_task : {1, 2, 3, 7, 64, 1000}) CHECK(RunsEachTaskOnce(num_task, num_task));
  CHECK(CollagePoolLaunchCount() == 7);
  CHECK(CollagePoolTaskCount() == CollagePoolNumThreads() + 1 + 2 + 3 + 7 + 64 + 1000);
}

void BadArguments() {
  CHECK(TVMBackendParallelLaunch(nullptr, nullptr, 2) == -1);
  CHECK(LastErrorHas("needs a function"));
  CHECK(Launch(-1, [](int, TVMParallelGroupEnv*) { return 0; }) == -1);
}

void Nested() {
  std::atomic<int> inner_tasks{0};
  CHECK(Launch(4, [&](int, TVMParallelGroupEnv*) {
          auto outer_thread = std::this_thread::get_id();
          for (int num_task : {0, 5}) {
            int code = Launch(num_task, [&](int, TVMParallelGroupEnv* env) {
              ++inner_tasks;
              bool same_thread = std::this_thread::get_id() == outer_thread;
              bool right_count = env->num_task == (num_task == 0 ? 1 : num_task);
              return same_thread && right_count ? 0 : 1;
            });
            if (code != 0) return code;
          }
          return 0;
        }) == 0);
  CHECK(inner_tasks == 4 * (1 + 5));
}

// A nested group of one may use the barrier; a larger one runs in turn and may not.
void NestedBarrier() {
  CHECK(Launch(0, [](int, TVMParallelGroupEnv*) {
          return Launch(0, [](int task_id, TVMParallelGroupEnv* env) {
            return TVMBackendParallelBarrier(task_id, env);
          });
        }) == 0);
  CHECK(Launch(0, [](int, TVMParallelGroupEnv*) {
          return Launch(3, [](int task_id, TVMParallelGroupEnv* env) {
            return TVMBackendParallelBarrier(task_id, env);
          });
        }) == -1);
  CHECK(LastErrorHas("Barrier in task 0 of 3 refused"));
}

void ConcurrentLaunches() {
  std::atomic<int> bad{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&bad, user] {
      for (int round = 0; round < 300; ++round) {
        int num_task = (user + round) % 5;
        if (!RunsEachTaskOnce(num_task, num_task ? num_task : CollagePoolNumThreads())) ++bad;
      }
    });
  }
  for (auto& user : users) user.join();
  CHECK(bad == 0);
}

void Errors() {
  auto fails_in = [](int failing, std::function<int()> failure) {
    std::atomic<int> runs{0};
    TVMAPISetLastError("");
    int code = Launch(6, [&](int task_id, TVMParallelGroupEnv*) {
      ++runs;
      return task_id == failing ? failure() : 0;
    });
    return code == -1 && runs == 6;
  };
  for (int failing = 0; failing < 6; ++failing) {
    CHECK(fails_in(failing, [] {
      TVMAPISetLastError("ValueError: from a task");
      return -1;
    }));
    CHECK(tvm_last_error == "ValueError: from a task");
    CHECK(fails_in(failing, []() -> int { throw std::runtime_error("thrown in a task"); }));
    CHECK(tvm_last_error == "thrown in a task");
    CHECK(fails_in(failing, []() -> int { throw 5; }));
    CHECK(LastErrorHas("threw an unknown C++ exception"));
    CHECK(fails_in(failing, [] { return 7; }));
    CHECK(LastErrorHas("task " + std::to_string(failing) + " of 6 returned 7"));
    CHECK(RunsEachTaskOnce(6, 6));
  }
  CHECK(Launch(5, [](int task_id, TVMParallelGroupEnv*) {
          TVMAPISetLastError(task_id == 1 ? "TypeError: first" : "second");
          return task_id == 1 || task_id >= 3 ? 1 : 0;
        }) == -1);
  CHECK(tvm_last_error == "TypeError: first\nAlso, in task 3: second");
}

void BarrierWorks() {
  constexpr int kRounds = 300;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<int> seen(CollagePoolNumThreads());  // not atomic: the barrier has to order it
    CHECK(Launch(0, [&](int task_id, TVMParallelGroupEnv* env) {
            for (int round = 1; round <= kRounds; ++round) {
              seen[task_id] = round;
              if (TVMBackendParallelBarrier(task_id, env) != 0) return 1;
              for (int value : seen) {
                if (value != round) return 2;
              }
              if (TVMBackendParallelBarrier(task_id, env) != 0) return 1;
            }
            return 0;
          }) == 0);
  }
}

// Kernels ignore the barrier's result, so the launch must fail for them too.
void BarrierRefusedWhenTasksShareThreads() {
  int num_task = 3 * CollagePoolNumThreads();
  std::atomic<int> refused{0};
  CHECK(Launch(num_task, [&](int task_id, TVMParallelGroupEnv* env) {
          if (TVMBackendParallelBarrier(task_id, env) != 0) ++refused;
          return 0;
        }) == -1);
  CHECK(refused == num_task);
  CHECK(LastErrorHas("TVM_NUM_THREADS"));
}

void BarrierRefusedWhenATaskIsGone() {
  CHECK(CollagePoolNumThreads() > 1);
  CHECK(Launch(0, [&](int task_id, TVMParallelGroupEnv* env) {
          if (task_id == 1) return 0;
          TVMBackendParallelBarrier(task_id, env);
          return 0;
        }) == -1);
  CHECK(LastErrorHas("task 1 of " + std::to_string(CollagePoolNumThreads()) + " ended before"));
  BarrierWorks();
}

void SetCount() {
  int before = CollagePoolNumThreads();
  CHECK(CollagePoolSetNumThreads(3) == 0 && RunsEachTaskOnce(0, 3));
  std::thread([] { CHECK(RunsEachTaskOnce(0, 3)); }).join();
  for (int bad : {-1, 1000000}) CHECK(CollagePoolSetNumThreads(bad) == -1);
  CHECK(CollagePoolNumThreads() == 3);
  CHECK(CollagePoolSetNumThreads(0) == 0 && RunsEachTaskOnce(0, before));
}

int ExitCodeOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

void Fork() {
  int count = CollagePoolNumThreads();
  CHECK(RunsEachTaskOnce(0, count));
  pid_t child = fork();
  if (child == 0) _exit(RunsEachTaskOnce(0, count) && RunsEachTaskOnce(9, 9) ? 0 : 1);
  CHECK(RunsEachTaskOnce(0, count));
  CHECK(ExitCodeOf(child) == 0);
}

void ForkInsideTask() {
  CHECK(Launch(0, [](int task_id, TVMParallelGroupEnv*) {
          if (task_id != 0) return 0;
          pid_t child = fork();
          if (child == 0) _exit(RunsEachTaskOnce(0, 1) && RunsEachTaskOnce(4, 4) ? 0 : 1);
          return ExitCodeOf(child);
        }) == 0);
  CHECK(RunsEachTaskOnce(5, 5));
}

// True when every task of a launch finds the half of the smallest normal float to be zero.
bool TasksFlushDenormals(int num_task) {
  std::atomic<int> flushed{0};
  CHECK(Launch(num_task, [&](int, TVMParallelGroupEnv*) {
          volatile float smallest_normal = 1.17549435e-38f;
          volatile float denormal = smallest_normal * 0.5f;
          if (denormal == 0.0f) ++flushed;
          return 0;
        }) == 0);
  CHECK(flushed == 0 || flushed == num_task);
  return flushed == num_task;
}

// The processor's control bits; the other six are flags that any arithmetic raises.
unsigned FloatControl() { return _mm_getcsr() & ~0x3Fu; }

void FlushDenormals() {
  unsigned before = FloatControl();
  for (int num_task : {1, 2, 8}) {
    CHECK(!TasksFlushDenormals(num_task));
    CHECK(CollagePoolSetFlushDenormals(1) == 0);
    CHECK(TasksFlushDenormals(num_task));
    CHECK(FloatControl() == before);
    CHECK(CollagePoolSetFlushDenormals(0) == 0);
    CHECK(!TasksFlushDenormals(num_task));
  }
}

const Cases kCases = {
    {"all_tasks_once", AllTasksOnce},
    {"bad_arguments", BadArguments},
    {"nested", Nested},
    {"nested_barrier", NestedBarrier},
    {"concurrent_launches", ConcurrentLaunches},
    {"errors", Errors},
    {"barrier_works", BarrierWorks},
    {"barrier_refused_when_tasks_share_threads", BarrierRefusedWhenTasksShareThreads},
    {"barrier_refused_when_a_task_is_gone", BarrierRefusedWhenATaskIsGone},
    {"set_count", SetCount},
    {"fork", Fork},
    {"fork_inside_task", ForkInsideTask},
    {"flush_denormals", FlushDenormals},
    {"print_count", [] { std::printf("%d\n", CollagePoolNumThreads()); }},
};

}  // namespace

int main(int argc, char** argv) { return RunCase(kCases, argc, argv); }
