// SPDX-License-Identifier: Apache-2.0
// Divisions of sizes that round up: sizes are not negative, divisors positive.
// Test: backends/dnnl/test_winograd.py.
#pragma once

#include <cstdint>

namespace tvm::collage::partition {

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The least multiple of `unit` that is no less than `size`.
constexpr int64_t RoundUp(int64_t size, int64_t unit) { return CeilDiv(size, unit) * unit; }

}  // namespace tvm::collage::partition
