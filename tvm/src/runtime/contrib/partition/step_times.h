// SPDX-License-Identifier: Apache-2.0
// What a profiled run of a part tells: the seconds of each step, by the call that it computes.
// Test: backends/test_profiles.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tvm::collage::partition {

// A name, in which calls are found by their CallName as a whole word, and seconds of one run; in
// the order of execution.
using StepTimes = std::vector<std::pair<std::string, double>>;

// As in "call_12"; the compiler writes it into names that a library carries along, too. "" for a
// step that is of no call.
std::string CallName(int call);

// The middle one of some samples, at least one; of an even number the upper.
double MedianOf(std::vector<double> samples);

// JSON as Python reads it: a list of [name, seconds].
std::string ToJson(const StepTimes& times);

}  // namespace tvm::collage::partition
