// SPDX-License-Identifier: Apache-2.0
#include "step_times.h"

#include <dmlc/json.h>

#include <limits>
#include <sstream>

namespace tvm::collage::partition {

std::string CallName(int call) { return call < 0 ? "" : "call_" + std::to_string(call); }

std::string ToJson(const StepTimes& times) {
  std::ostringstream os;
  os.precision(std::numeric_limits<double>::digits10);
  dmlc::JSONWriter(&os).Write(times);
  return os.str();
}

}  // namespace tvm::collage::partition
