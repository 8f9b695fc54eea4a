// SPDX-License-Identifier: Apache-2.0
/*!
 * \file round_up.h
 * \brief Divisions of sizes that round up: sizes are not negative, divisors positive.
 *
 * Tested by backends/dnnl/test_winograd.py.
 */
#pragma once

#include <cstdint>

namespace tvm {
namespace collage {
namespace partition {

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/*! \brief The least multiple of `unit` that is no less than `size`. */
constexpr int64_t RoundUp(int64_t size, int64_t unit) { return CeilDiv(size, unit) * unit; }

}  // namespace partition
}  // namespace collage
}  // namespace tvm
