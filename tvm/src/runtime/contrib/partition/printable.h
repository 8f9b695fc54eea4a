// SPDX-License-Identifier: Apache-2.0
/*!
 * \file printable.h
 * \brief What messages may say of text that was read from a file.
 *
 * Tested by runtime/test_partition_checks.py and runtime/test_damaged_libraries.py.
 */
#pragma once

#include <algorithm>
#include <functional>
#include <string>

namespace tvm {
namespace collage {
namespace partition {

/*! \brief ASCII alone, as Python refuses bytes that are no UTF-8; the reader's end of file is one.
 */
inline std::string Printable(std::string text) {
  const auto is_printable = [](char each) { return each >= ' ' && each <= '~'; };
  text.erase(std::remove_if(text.begin(), text.end(), std::not_fn(is_printable)), text.end());
  return text;
}

}  // namespace partition
}  // namespace collage
}  // namespace tvm
