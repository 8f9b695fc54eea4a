// SPDX-License-Identifier: Apache-2.0
// Hash: of words, texts and bytes that are added one after the other, the same in every process;
// not against an adversary. search/, which includes nothing of ours, has its own. Test:
// tvm/tests/cpp/hash_test.cc.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace tvm::collage {

class Hash {
 public:
  Hash& Add(uint64_t word) {
    state_ ^= word + 0x9e3779b97f4a7c15u + (state_ << 6) + (state_ >> 2);
    state_ *= 0xff51afd7ed558ccdu;
    state_ ^= state_ >> 32;
    return *this;
  }
  Hash& Add(const std::string& text) { return Add(text.data(), text.size()); }
  // Their number first: what is added next cannot be mistaken for a part of them.
  Hash& Add(const void* bytes, size_t size) {
    Add(static_cast<uint64_t>(size));
    const char* at = static_cast<const char*>(bytes);
    for (size_t left = size; left > 0;) {
      const size_t taken = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
      uint64_t word = 0;
      std::memcpy(&word, at, taken);
      Add(word);
      at += taken;
      left -= taken;
    }
    return *this;
  }
  uint64_t Get() const { return state_; }

 private:
  uint64_t state_ = 0x243f6a8885a308d3u;
};

// 16 hexadecimal digits.
inline std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace tvm::collage
