// SPDX-License-Identifier: Apache-2.0
#include "spread.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "c_backend_abi.h"
#include "thread_count.h"

namespace tvm::collage::pool {
namespace {

// Threads that were busy for so long are spread by the schedulers that we know.
constexpr std::chrono::milliseconds kBoundTime{50};
// A team that slept for so long may be woken on one CPU.
constexpr std::chrono::milliseconds kPause{2};
// Of so many launches and parts one is looked at while threads have CPUs of their own.
constexpr int kLookAtOneOf = 17;
// Decisions for which one time that threads shared a CPU counts.
constexpr int kWary = 64;

std::atomic<int64_t> spread_count{0};

enum class Wish { kNever, kWhereThereIsRoom, kAlways };

// COLLAGE_SPREAD_THREADS: 1, as by default, or always; anything else is never.
Wish WishOfUser() {
  static const Wish wish = [] {
    if (omp_get_proc_bind() != omp_proc_bind_false) return Wish::kNever;
    const char* text = std::getenv("COLLAGE_SPREAD_THREADS");
    if (text == nullptr || *text == '\0') text = "1";
    if (std::strcmp(text, "1") == 0) return Wish::kWhereThereIsRoom;
    return std::strcmp(text, "always") == 0 ? Wish::kAlways : Wish::kNever;
  }();
  return wish;
}

// Threads that run or wait for a CPU on this machine, the asking one included; 0 if that is not
// known. The fourth field of /proc/loadavg is "<these>/<all>".
int NumRunnable() {
  std::FILE* file = std::fopen("/proc/loadavg", "r");
  if (file == nullptr) return 0;
  char text[128] = "";
  const bool is_read = std::fgets(text, sizeof(text), file) != nullptr;
  std::fclose(file);
  const char* end = is_read ? std::strchr(text, '/') : nullptr;
  if (end == nullptr) return 0;
  const char* begin = end;
  while (begin > text && begin[-1] != ' ') --begin;
  return static_cast<int>(std::strtol(begin, nullptr, 10));
}

// Whether a team finds an idle CPU for each of its threads. So many of them, and of another pool
// that has just worked for its caller, are `awake` at most, and are thought to be: where they
// sleep, one of others' is overlooked for each, which then shares a CPU with one of the team
// instead of two of the team with each other.
bool HasRoom(int num_threads, int awake) {
  if (WishOfUser() == Wish::kAlways) return true;
  const int runnable = NumRunnable();
  return runnable > 0 && runnable - awake + num_threads <= sysconf(_SC_NPROCESSORS_ONLN);
}

void Allow(const cpu_set_t& cpus) { sched_setaffinity(0, sizeof(cpus), &cpus); }

void AllowOnly(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  Allow(one);
}

// The next one after `cpu`, around the end; -1 when the set is empty.
int NextOf(const cpu_set_t& cpus, int cpu) {
  for (int step = 1; step <= CPU_SETSIZE; ++step) {
    const int next = (cpu + step) % CPU_SETSIZE;
    if (CPU_ISSET(next, &cpus)) return next;
  }
  return -1;
}

}  // namespace

bool WantsSpread() { return WishOfUser() != Wish::kNever; }

TeamSpread* TeamSpread::OfThisThread() {
  thread_local TeamSpread spread;
  return &spread;
}

bool TeamSpread::CanSkip() {
  if (wary_ > 0 || are_workers_bound_ || WishOfUser() == Wish::kAlways) return false;
  skipped_ = (skipped_ + 1) % kLookAtOneOf;
  return skipped_ != 0;
}

void TeamSpread::LookForTwins() {
  cpu_set_t found;
  CPU_ZERO(&found);
  share_ = false;
  for (const Seen& seen : seen_) {
    if (seen.cpu < 0) continue;
    share_ |= CPU_ISSET(seen.cpu, &found) != 0;
    CPU_SET(seen.cpu, &found);
  }
  if (share_) wary_ = kWary;
}

// The first thread seen on a CPU stays there, others get allowed ones that none was seen on. False
// where there are too few.
bool TeamSpread::Plan() {
  if (sched_getaffinity(0, sizeof(allowed_), &allowed_) != 0) return false;
  if (CPU_COUNT(&allowed_) < static_cast<int>(seen_.size())) return false;
  cpu_set_t unused = allowed_, unclaimed = allowed_;
  for (const Seen& seen : seen_) {
    if (seen.cpu >= 0) CPU_CLR(seen.cpu, &unused);
  }
  planned_.clear();
  for (const Seen& seen : seen_) {
    int cpu = seen.cpu;
    if (cpu < 0 || !CPU_ISSET(cpu, &unclaimed)) cpu = NextOf(unused, cpu < 0 ? 0 : cpu);
    if (cpu < 0) return false;
    CPU_CLR(cpu, &unclaimed);
    CPU_CLR(cpu, &unused);
    planned_.push_back(cpu);
  }
  return true;
}

// Whether each thread is to have its CPU now: for a while after a pause, and after threads were
// seen to share one. Where they never do, no clock is read.
bool TeamSpread::IsDue(int num_threads) {
  if (wary_ == 0) return false;
  const Clock::time_point now = Clock::now();
  const bool is_after_pause = now - ended_ > kPause;
  if (is_after_pause || now >= decided_until_) {
    --wary_;
    decided_until_ = now + kBoundTime;
    const int others = now < others_until_ ? others_ : 0;
    is_bound_ = (is_after_pause || share_) &&
                HasRoom(num_threads, /*awake=*/others + (is_after_pause ? 1 : num_threads));
  }
  return is_bound_ && now < decided_until_;
}

void TeamSpread::BindOrFree(bool is_due, int num_threads) {
  const bool is_same_team = static_cast<int>(seen_.size()) == num_threads;
  if (is_due && is_same_team && Plan()) {
    step_ = Step::kBind;
    spread_count.fetch_add(1, std::memory_order_relaxed);
  } else if (are_workers_bound_ && sched_getaffinity(0, sizeof(allowed_), &allowed_) == 0) {
    step_ = Step::kFree;
  }
}

// While it waits for bound workers the caller is woken by them, and a kernel that wakes threads on
// the CPU of whoever wakes them would take it to theirs.
void TeamSpread::HoldCaller() {
  if (step_ != Step::kBind) return;
  callers_ = allowed_;
  AllowOnly(planned_[0]);
  is_caller_held_ = true;
}

void TeamSpread::Begin(int num_threads) {
  LookForTwins();  // of the launch before
  BindOrFree(IsDue(num_threads), num_threads);
  HoldCaller();
  seen_.assign(num_threads, Seen());
}

void TeamSpread::Enter(int thread) {
  if (thread == 0) return;
  // A worker stays bound from one time to the next, unless somebody else has moved it.
  thread_local int bound_to = -1;
  if (step_ == Step::kBind) {
    const int cpu = planned_[thread];
    const bool is_there = bound_to == cpu && sched_getcpu() == cpu;
    if (!is_there) AllowOnly(cpu);
    bound_to = cpu;
  } else if (step_ == Step::kFree) {
    Allow(allowed_);
    bound_to = -1;
  }
}

void TeamSpread::End() {
  if (std::exchange(is_caller_held_, false)) Allow(callers_);
  if (step_ != Step::kNothing) are_workers_bound_ = step_ == Step::kBind;
  step_ = Step::kNothing;
  if (wary_ > 0) ended_ = Clock::now();
}

void TeamSpread::BeginPart(int num_threads) {
  if (parts_++ > 0 || num_threads == 1 || CanSkip()) return;
  const bool is_due = IsDue(num_threads);  // asked while the workers sleep
  seen_.assign(num_threads, Seen());
#pragma omp parallel num_threads(num_threads)
  Leave(omp_get_thread_num());
  LookForTwins();
  BindOrFree(is_due, num_threads);
  if (step_ == Step::kNothing) return;
  // A part whose parallel regions differ in size has OpenMP end and make threads, which inherit the
  // caller's CPUs and call nothing here. With two threads none are made.
  if (num_threads == 2) HoldCaller();
#pragma omp parallel num_threads(num_threads)
  Enter(omp_get_thread_num());
}

void TeamSpread::EndPart() {
  if (--parts_ == 0) End();
}

void TeamSpread::OthersWorked(int threads) {
  others_ = threads;
  others_until_ = Clock::now() + kBoundTime;
}

}  // namespace tvm::collage::pool

// Around a part of a model whose parallel regions this thread begins. Pairs may be nested; they end
// on the thread and at the depth of parallel regions on which they began.
extern "C" COLLAGE_POOL_EXPORT void CollagePoolBeginPart() {
  using namespace tvm::collage::pool;
  if (!WantsSpread() || omp_in_parallel()) return;
  TeamSpread::OfThisThread()->BeginPart(NumThreads());
}

extern "C" COLLAGE_POOL_EXPORT void CollagePoolEndPart() {
  using namespace tvm::collage::pool;
  if (!WantsSpread() || omp_in_parallel()) return;
  TeamSpread::OfThisThread()->EndPart();
}

// After another pool has worked for this thread on so many threads beside it, which may still turn
// for a while and wait for more: they need no CPUs of their own.
extern "C" COLLAGE_POOL_EXPORT void CollagePoolOthersWorked(int threads) {
  using namespace tvm::collage::pool;
  if (WantsSpread()) TeamSpread::OfThisThread()->OthersWorked(threads);
}

// Threads of this thread's team, woken now, that are on a CPU of another one of it. `collage
// doctor` asks after pauses whether this kernel leaves them so.
extern "C" COLLAGE_POOL_EXPORT int CollagePoolThreadsThatShare() {
  const int num_threads = tvm::collage::pool::NumThreads();
  std::vector<int> cpus(num_threads, -1);
#pragma omp parallel num_threads(num_threads)
  cpus[omp_get_thread_num()] = sched_getcpu();
  cpus.erase(std::remove(cpus.begin(), cpus.end(), -1), cpus.end());
  return static_cast<int>(cpus.size() - std::set<int>(cpus.begin(), cpus.end()).size());
}

// Parts and launches for which threads were bound, since the library was loaded.
extern "C" COLLAGE_POOL_EXPORT int64_t CollagePoolSpreadCount() {
  return tvm::collage::pool::spread_count.load(std::memory_order_relaxed);
}
