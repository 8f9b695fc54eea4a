// SPDX-License-Identifier: Apache-2.0
// Hash: what different inputs give, and that it is the same in every process.
#include "src/relay/collage/graph/hash.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace tvm::collage::testing {

TEST_CASE("hash: order, borders of texts and every byte count") {
  auto of = [](const std::string& a, const std::string& b) { return Hash().Add(a).Add(b).Get(); };
  CHECK(of("ab", "c") == of("ab", "c"));
  CHECK_FALSE(of("ab", "c") == of("a", "bc"));
  CHECK_FALSE(of("ab", "c") == of("c", "ab"));
  CHECK_FALSE(of("", "") == Hash().Add(std::string()).Get());
  CHECK_FALSE(of("a", std::string("\0", 1)) == of("a", ""));
  std::set<uint64_t> seen;
  for (size_t size = 0; size < 40; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::string text(size, 'x');
      text[at] = 'y';
      seen.insert(Hash().Add(text).Get());
    }
  }
  CHECK(seen.size() == 39 * 40 / 2);
}

TEST_CASE("hash: the same in every process") {
  CHECK(Hex(Hash().Get()) == "243f6a8885a308d3");
  CHECK(Hex(Hash().Add(std::string("collage")).Get()) == "57f70804aa03868d");
  CHECK(Hex(1) == "0000000000000001");
}

}  // namespace tvm::collage::testing
