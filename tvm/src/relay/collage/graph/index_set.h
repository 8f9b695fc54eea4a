// SPDX-License-Identifier: Apache-2.0
// IndexSet: a dense set of the node indexes 0 .. size-1 of one graph, as 64-bit words.
// Preconditions, checked by assert only: indexes lie in [0, size), two sets are of the same size.
// Test: tvm/tests/cpp/index_set_test.cc.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hash.h"

// What plugins may link against: the library hides all other symbols. docs/rules.md says how.
#define COLLAGE_API __attribute__((visibility("default")))

namespace tvm::collage {

class COLLAGE_API IndexSet {
 public:
  // What First, Last and Next answer when there is no such member.
  static constexpr int kNone = -1;

  IndexSet() = default;
  // The empty set over the indexes 0 .. size-1.
  explicit IndexSet(int size) : size_(size), words_((static_cast<size_t>(size) + 63) / 64, 0) {}
  IndexSet(int size, const std::vector<int>& members);
  // The full set {0, .., size-1}.
  static IndexSet All(int size);

  // Number of possible members, not of members (see Count).
  int size() const { return size_; }

  IndexSet& Add(int index) {
    words_[WordOf(index)] |= BitOf(index);
    return *this;
  }
  bool Contains(int index) const { return (words_[WordOf(index)] & BitOf(index)) != 0; }

  IndexSet& operator|=(const IndexSet& other);
  IndexSet& operator&=(const IndexSet& other);
  // Removes the members of other.
  IndexSet& operator-=(const IndexSet& other);
  friend IndexSet operator|(IndexSet a, const IndexSet& b) { return a |= b; }
  friend IndexSet operator&(IndexSet a, const IndexSet& b) { return a &= b; }
  friend IndexSet operator-(IndexSet a, const IndexSet& b) { return a -= b; }

  bool IsEmpty() const;
  bool IsSubsetOf(const IndexSet& other) const;
  bool Intersects(const IndexSet& other) const;
  int Count() const;

  // Least member, or kNone.
  int First() const { return NextFrom(0); }
  // Greatest member, or kNone.
  int Last() const;
  // Least member greater than index (index may be -1), or kNone.
  int Next(int index) const { return NextFrom(index + 1); }

  // Calls f(index) for each member, ascending. The set must not change meanwhile.
  template <typename F>
  void ForEach(F f) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t rest = words_[w]; rest != 0; rest &= rest - 1) {
        f(static_cast<int>(w * 64) + __builtin_ctzll(rest));
      }
    }
  }
  // The members in ascending order.
  std::vector<int> ToVector() const;

  size_t Hash() const;
  bool operator==(const IndexSet& other) const {
    return size_ == other.size_ && words_ == other.words_;
  }
  bool operator!=(const IndexSet& other) const { return !(*this == other); }
  // A total order: by size, then as sorted member lists compare ({0,5} < {0,6} < {1}),
  // where a list comes before its own extensions.
  bool operator<(const IndexSet& other) const;

  // All members, runs shortened: "{0,3..7,9}".
  std::string ToString() const;
  // Short form for logs: ToString, or its count and ends when that would be long.
  std::string Summary() const;

 private:
  size_t WordOf(int index) const {
    assert(index >= 0 && index < size_);
    return static_cast<size_t>(index) / 64;
  }
  static uint64_t BitOf(int index) { return uint64_t{1} << (static_cast<unsigned>(index) % 64); }
  int NextFrom(int index) const;

  int size_ = 0;
  // Bits at and above size_ are always zero, so words compare and hash as they are.
  std::vector<uint64_t> words_;
};

}  // namespace tvm::collage
