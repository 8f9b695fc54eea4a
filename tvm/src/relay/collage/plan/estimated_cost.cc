// SPDX-License-Identifier: Apache-2.0
#include "estimated_cost.h"

#include <cstdio>
#include <utility>

namespace tvm::collage {
namespace {

/*! \brief Three significant digits with a unit: 1.23 ms. */
std::string SecondsText(double seconds) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  for (const auto& [unit, scale] : kUnits) {
    if (seconds < scale && scale > 1e-9) continue;
    char text[32];
    std::snprintf(text, sizeof(text), "%.3g %s", seconds / scale, unit);
    return text;
  }
  return "";
}

}  // namespace

std::string EstimatedCost::Summary() const {
  if (!IsUsable()) return message.empty() ? status : status + ": " + message;
  return status + " " + SecondsText(seconds) + (message.empty() ? "" : " (" + message + ")");
}

}  // namespace tvm::collage
