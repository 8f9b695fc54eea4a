// SPDX-License-Identifier: Apache-2.0
#include "step_times.h"

#include <dmlc/json.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <sstream>

namespace tvm::collage::partition {

std::string CallName(int call) { return call < 0 ? "" : "call_" + std::to_string(call); }

double MedianOf(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

std::string ToJson(const StepTimes& times) {
  std::ostringstream os;
  os.precision(std::numeric_limits<double>::digits10);
  dmlc::JSONWriter(&os).Write(times);
  return os.str();
}

}  // namespace tvm::collage::partition
