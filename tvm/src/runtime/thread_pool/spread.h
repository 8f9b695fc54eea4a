// SPDX-License-Identifier: Apache-2.0
// Keeps the threads of a team on different CPUs, unless the user wants it not: where two were seen
// on one, the workers are bound to CPUs of their own, and the caller's first launch after 50 ms
// gives them back to the scheduler. The caller is bound while a launch runs, or a part of
// two threads, and free between them.
//
// Some kernels wake all threads of a team on the CPU of the thread that wakes them, after a pause
// or while another pool's threads turn, and leave them there for tens of milliseconds though others
// are idle: each loop then takes longer than on one thread. Nothing is bound before two threads of
// the team were seen on one CPU, nor while all runnable threads of the machine would not find a CPU
// each: then sharing may be right. Those of another pool that has just worked for the caller, and
// now turns in vain, are not counted.
// docs/thread_pool.md has figures.
//
// Assumptions: for so short a time any CPU that the caller may use and that none of its team is on
// is as good as any other; teams of several callers hardly ever share CPUs, so that each looks at
// its own threads alone; whoever set OMP_PROC_BIND knows better. Threads that are started from
// within a task or a part meanwhile inherit the one CPU of the thread that starts them.
// Test: tests/cpp/thread_pool/spread_cases.cc (runtime/test_thread_pool.py).
#pragma once

#include <sched.h>

#include <chrono>
#include <vector>

namespace tvm::collage::pool {

// Where the threads of one caller's team are, and are to be. Begin, End and Locate are the caller's
// to call, outside of parallel regions; between Begin and End the team may work.
class TeamSpread {
 public:
  static TeamSpread* OfThisThread();

  // Whether this time need not be looked at: one of several is enough as long as all is well, and
  // noting the CPUs of many threads takes microseconds. Then nothing else is called.
  bool CanSkip();
  // Decides from where the threads were last seen whether each gets a CPU of its own.
  void Begin(int num_threads);
  // On each thread of the team, by its number: before it works, and after.
  void Enter(int thread);
  void Leave(int thread) { seen_[thread].cpu = sched_getcpu(); }
  void End();

  // The same for a part of many parallel regions, which need not call anything: looks where the
  // threads are first. Pairs may be nested, and launches in between.
  void BeginPart(int num_threads);
  void EndPart();
  bool IsInPart() const { return parts_ > 0; }

  // So many threads of another pool, which has just worked for the caller, may still turn.
  void OthersWorked(int threads);

 private:
  enum class Step { kNothing, kBind, kFree };
  using Clock = std::chrono::steady_clock;
  // A cache line each: every thread writes its own.
  struct alignas(64) Seen {
    int cpu = -1;  // where OpenMP gave no such thread
  };

  void LookForTwins();
  bool IsDue(int num_threads);
  bool Plan();
  void BindOrFree(bool is_due, int num_threads);
  void HoldCaller();

  int parts_ = 0;
  int skipped_ = 0;
  Step step_ = Step::kNothing;
  bool are_workers_bound_ = false;
  bool is_caller_held_ = false;
  bool share_ = false;  // whether two threads were on one CPU when they were last seen
  int wary_ = 0;        // times that it is looked and bound after pauses
  bool is_bound_ = false;
  Clock::time_point decided_until_{};  // for which is_bound_ holds
  Clock::time_point ended_{};
  int others_ = 0;  // threads of another pool that may turn
  Clock::time_point others_until_{};
  cpu_set_t allowed_{};  // the caller's affinity, for workers that are freed
  cpu_set_t callers_{};  // the same, while it is held
  std::vector<Seen> seen_;
  std::vector<int> planned_;  // CPU by thread, while step_ is kBind
};

// Whether threads may be spread at all: COLLAGE_SPREAD_THREADS can say no.
bool WantsSpread();

}  // namespace tvm::collage::pool
