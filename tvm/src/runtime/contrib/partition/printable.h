// SPDX-License-Identifier: Apache-2.0
// What messages may say of text that was read from a file.
// Test: runtime/test_partition_checks.py, runtime/test_damaged_libraries.py.
#pragma once

#include <cctype>
#include <string>

namespace tvm::collage::partition {

// ASCII alone, in one line, with a '?' for each other byte: Python refuses bytes that are no UTF-8,
// such as the end of file that the reader of JSON tells of.
inline std::string Printable(std::string text) {
  for (char& each : text) {
    if (std::isspace(static_cast<unsigned char>(each))) {
      each = ' ';
    } else if (each < ' ' || each > '~') {
      each = '?';
    }
  }
  return text;
}

}  // namespace tvm::collage::partition
