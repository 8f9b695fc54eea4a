// SPDX-License-Identifier: Apache-2.0
// PhaseClock: wall and CPU seconds by phase of the pass, for bench/search.py.
// Test: tvm/tests/python/collage/test_collage_partition.py.
#ifndef TVM_RELAY_COLLAGE_PLAN_PHASE_CLOCK_H_
#define TVM_RELAY_COLLAGE_PLAN_PHASE_CLOCK_H_

#include <chrono>
#include <ctime>
#include <map>
#include <string>

namespace tvm::collage {

struct PhaseSeconds {
  double wall = 0;
  double cpu = 0;  // of the process
};

class PhaseClock {
 public:
  /*! \brief Ends the phase at hand; a phase may be entered again. */
  void Enter(const std::string& phase) {
    Leave();
    phase_ = phase;
    began_ = Clock::now();
    began_cpu_ = std::clock();
  }
  void Leave() {
    if (phase_.empty()) return;
    PhaseSeconds& spent = seconds_[phase_];
    spent.wall += std::chrono::duration<double>(Clock::now() - began_).count();
    spent.cpu += static_cast<double>(std::clock() - began_cpu_) / CLOCKS_PER_SEC;
    phase_.clear();
  }
  const std::map<std::string, PhaseSeconds>& seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::map<std::string, PhaseSeconds> seconds_;
  std::string phase_;
  Clock::time_point began_;
  std::clock_t began_cpu_ = 0;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_PLAN_PHASE_CLOCK_H_
