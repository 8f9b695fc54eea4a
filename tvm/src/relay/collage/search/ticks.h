// SPDX-License-Identifier: Apache-2.0
// Costs as whole picoseconds: sums are exact and do not depend on their order, so equal
// costs compare equal. Test: tvm/tests/cpp/search_problem_test.cc.
#pragma once

#include <cmath>
#include <cstdint>

namespace tvm::collage {

using Ticks = int64_t;

constexpr double kTicksPerSecond = 1.0e12;
// "Cannot be used", and what sums saturate at; twice this still fits.
constexpr Ticks kInfiniteTicks = int64_t{4} * 1000 * 1000 * 1000 * 1000 * 1000 * 1000;

// Needs 0 <= seconds <= kMaxSeconds.
inline Ticks ToTicks(double seconds) {
  return static_cast<Ticks>(std::llround(seconds * kTicksPerSecond));
}

inline double ToSeconds(Ticks ticks) { return static_cast<double>(ticks) / kTicksPerSecond; }

// a + b for a, b in [0, kInfiniteTicks], saturating.
inline Ticks AddTicks(Ticks a, Ticks b) {
  const Ticks sum = a + b;
  return sum < kInfiniteTicks ? sum : kInfiniteTicks;
}

}  // namespace tvm::collage
