// SPDX-License-Identifier: Apache-2.0
// One process per case of how the pool keeps a team's threads on different CPUs: `spread_cases
// <case>` exits with 0 when it holds, with 77 where this process has fewer CPUs than threads. Built
// and run as pool_cases.cc is.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "c_backend_abi.h"
#include "cases.h"

extern "C" {
int CollagePoolNumThreads();
int64_t CollagePoolSpreadCount();
int CollagePoolThreadsThatShare();
void CollagePoolBeginPart();
void CollagePoolEndPart();
void CollagePoolOthersWorked(int threads);
}

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      std::exit(1);                                                \
    }                                                              \
  } while (false)

namespace {

constexpr int kSkipped = 77;

std::set<int> CpusOf(const cpu_set_t& mask) {
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.insert(cpu);
  }
  return cpus;
}

// Of the calling thread.
std::set<int> Allowed() {
  cpu_set_t mask;
  CHECK(sched_getaffinity(0, sizeof(mask), &mask) == 0);
  return CpusOf(mask);
}

void Allow(const std::set<int>& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (int cpu : cpus) CPU_SET(cpu, &mask);
  CHECK(sched_setaffinity(0, sizeof(mask), &mask) == 0);
}

using Task = std::function<void(int task_id)>;

int CallTask(int task_id, TVMParallelGroupEnv*, void* data) {
  (*static_cast<Task*>(data))(task_id);
  return 0;
}

void Launch(Task task) { CHECK(TVMBackendParallelLaunch(CallTask, &task, 0) == 0); }

// What each thread of the team is allowed while it works.
std::vector<std::set<int>> AllowedInTasks() {
  std::vector<std::set<int>> allowed(CollagePoolNumThreads());
  Launch([&](int task_id) { allowed[task_id] = Allowed(); });
  return allowed;
}

// Each thread has a CPU of its own, the caller, whose task is the first, as well.
bool IsSpread(const std::vector<std::set<int>>& allowed) {
  std::set<int> cpus;
  for (const std::set<int>& each : allowed) {
    if (each.size() == 1) cpus.insert(*each.begin());
  }
  return cpus.size() == allowed.size();
}

// The whole team works on one CPU, as some kernels have it do after a pause; the caller's own
// affinity is then what it was. A launch sees it, and a pause follows.
void ShareOneCpu(const std::set<int>& callers) {
  Launch([&](int) { Allow({*callers.begin()}); });
  Allow(callers);
  Launch([&](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

const std::set<int>& EnoughCpus() {
  static const std::set<int> allowed = Allowed();
  if (static_cast<int>(allowed.size()) < CollagePoolNumThreads()) std::exit(kSkipped);
  return allowed;
}

void SharedCpuIsLeft() {
  const std::set<int> callers = EnoughCpus();
  ShareOneCpu(callers);
  const int64_t before = CollagePoolSpreadCount();
  CHECK(IsSpread(AllowedInTasks()));
  CHECK(CollagePoolSpreadCount() == before + 1);
  CHECK(Allowed() == callers);
}

// As beside another pool, whose threads turn while those of the team wake: there is no pause.
void SharedCpuIsLeftInFullRun() {
  const std::set<int> callers = EnoughCpus();
  Launch([&](int) { Allow({*callers.begin()}); });
  Allow(callers);
  Launch([&](int) {});  // sees it
  CHECK(IsSpread(AllowedInTasks()));
  CHECK(Allowed() == callers);
}

void WorkersAreFreedInTheEnd() {
  const std::set<int> callers = EnoughCpus();
  ShareOneCpu(callers);
  CHECK(IsSpread(AllowedInTasks()));
  // On a busy machine launches come after pauses, and threads are bound again and again for a
  // while.
  std::set<int> freed;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (static_cast<int>(freed.size()) < CollagePoolNumThreads()) {
    CHECK(std::chrono::steady_clock::now() < end);
    const std::vector<std::set<int>> allowed = AllowedInTasks();
    for (size_t i = 0; i < allowed.size(); ++i) {
      if (allowed[i] == callers) freed.insert(static_cast<int>(i));
    }
  }
  CHECK(Allowed() == callers);
}

void PartKeepsIt() {
  const std::set<int> callers = EnoughCpus();
  ShareOneCpu(callers);
  CollagePoolBeginPart();
  const std::vector<std::set<int>> outer = AllowedInTasks();
  CHECK(IsSpread(outer));
  CollagePoolBeginPart();
  CHECK(AllowedInTasks() == outer);
  CollagePoolEndPart();
  CHECK(AllowedInTasks() == outer);
  CHECK(Allowed() == outer[0]);
  CollagePoolEndPart();
  CHECK(Allowed() == callers);
}

void PartLooksForItself() {
  const std::set<int> callers = EnoughCpus();
  const std::set<int> one = {*callers.begin()};
  Launch([&](int task_id) {
    if (task_id > 0) Allow(one);
  });
  const int64_t before = CollagePoolSpreadCount();
  for (int tries = 0; CollagePoolSpreadCount() == before && tries < 1000; ++tries) {
    Allow(one);
    Allow(callers);  // the caller is still where the workers have to be
    CollagePoolBeginPart();
    CHECK(CollagePoolSpreadCount() == before || IsSpread(AllowedInTasks()));
    CollagePoolEndPart();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(CollagePoolSpreadCount() == before + 1);
  CHECK(Allowed() == callers);
}

long NumCpus() { return sysconf(_SC_NPROCESSORS_ONLN); }

// Whether a team has room whose caller is awake, and as many threads of another pool.
bool HasRoom(int others) {
  double averages[3];
  int runnable = 0;
  std::FILE* file = std::fopen("/proc/loadavg", "r");
  CHECK(file != nullptr);
  const int read =
      std::fscanf(file, "%lf %lf %lf %d/", averages, averages + 1, averages + 2, &runnable);
  std::fclose(file);
  CHECK(read == 4);
  return runnable - others - 1 + CollagePoolNumThreads() <= NumCpus();
}

// Whether the pool has bound threads, which it has to where there was room often enough. So many
// threads of another pool turn, of which it is told before each try.
bool IsSpreadWhereThereIsRoom(const std::set<int>& callers, int others) {
  int had_room = 0;
  for (int tries = 0; CollagePoolSpreadCount() == 0; ++tries) {
    if (tries == 200) return false;
    ShareOneCpu(callers);
    had_room += HasRoom(others);
    if (others > 0) CollagePoolOthersWorked(others);
    AllowedInTasks();
    CHECK(CollagePoolSpreadCount() > 0 || had_room < 20);
  }
  return true;
}

// So many threads that turn, from when it is made until it goes.
class TurningThreads {
 public:
  explicit TurningThreads(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        ++num_running_;
        while (!is_over_) {
        }
      });
    }
    while (num_running_ < count) std::this_thread::yield();
  }
  ~TurningThreads() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<int> num_running_{0};
  std::vector<std::thread> threads_;
};

// Run without the variable, or empty. Where others run, there is no room, and it is tried again.
void SharedCpuIsLeftByDefault() {
  if (!IsSpreadWhereThereIsRoom(EnoughCpus(), 0)) std::exit(kSkipped);
}

// By default, too: threads of another pool that turn on all CPUs leave no room until it is told
// whose they are.
void SharedCpuIsLeftBesideAnotherPool() {
  const std::set<int> callers = EnoughCpus();
  const int num_others = static_cast<int>(NumCpus());
  if (static_cast<int>(callers.size()) < num_others) std::exit(kSkipped);
  bool is_spread = false;
  {
    TurningThreads others(num_others);
    for (int i = 0; i < 20; ++i) ShareOneCpu(callers);
    CHECK(CollagePoolSpreadCount() == 0);
    is_spread = IsSpreadWhereThereIsRoom(callers, num_others);
  }
  if (!is_spread) std::exit(kSkipped);
}

// Run with the variable at 1, unlike the other cases.
void NotWhileOthersNeedTheCpus() {
  const std::set<int> callers = EnoughCpus();
  {
    TurningThreads others(2 * static_cast<int>(std::thread::hardware_concurrency()));
    for (int i = 0; i < 20; ++i) {
      CollagePoolOthersWorked(1);  // one of them may be another pool's
      ShareOneCpu(callers);
    }
  }
  CHECK(CollagePoolSpreadCount() == 0);
}

void OneCpuIsNotEnough() {
  const std::set<int> callers = EnoughCpus();
  const std::set<int> one = {*callers.begin()};
  Allow(one);
  ShareOneCpu(one);
  for (const std::set<int>& allowed : AllowedInTasks()) CHECK(allowed == one);
  CHECK(CollagePoolSpreadCount() == 0);
}

void ThreadsThatShareAreCounted() {
  const std::set<int> callers = EnoughCpus();
  const std::vector<int> cpus(callers.begin(), callers.end());
  Launch([&](int task_id) { Allow({cpus[task_id]}); });
  CHECK(CollagePoolThreadsThatShare() == 0);
  Launch([&](int) { Allow({cpus[0]}); });
  CHECK(CollagePoolThreadsThatShare() == CollagePoolNumThreads() - 1);
}

// Run with variables that say so.
void NotWanted() {
  const std::set<int> callers = Allowed();
  ShareOneCpu(callers);
  CollagePoolBeginPart();
  AllowedInTasks();
  CollagePoolEndPart();
  CHECK(CollagePoolSpreadCount() == 0);
  CHECK(Allowed() == callers);
}

const Cases kCases = {
    {"shared_cpu_is_left", SharedCpuIsLeft},
    {"shared_cpu_is_left_by_default", SharedCpuIsLeftByDefault},
    {"shared_cpu_is_left_beside_another_pool", SharedCpuIsLeftBesideAnotherPool},
    {"shared_cpu_is_left_in_full_run", SharedCpuIsLeftInFullRun},
    {"workers_are_freed", WorkersAreFreedInTheEnd},
    {"part_keeps_it", PartKeepsIt},
    {"part_looks_for_itself", PartLooksForItself},
    {"one_cpu_is_not_enough", OneCpuIsNotEnough},
    {"not_wanted", NotWanted},
    {"threads_that_share_are_counted", ThreadsThatShareAreCounted},
    {"not_while_others_need_the_cpus", NotWhileOthersNeedTheCpus},
};

}  // namespace

int main(int argc, char** argv) { return RunCase(kCases, argc, argv); }
