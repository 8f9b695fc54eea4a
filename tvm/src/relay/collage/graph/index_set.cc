// SPDX-License-Identifier: Apache-2.0
#include "index_set.h"

namespace tvm::collage {
namespace {

constexpr size_t kSummaryLength = 60;

void AppendRun(int first, int last, std::string* out) {
  if (out->size() > 1) *out += ',';
  *out += std::to_string(first);
  if (last > first) *out += (last == first + 1 ? "," : "..") + std::to_string(last);
}

}  // namespace

IndexSet::IndexSet(int size, const std::vector<int>& members) : IndexSet(size) {
  for (int index : members) Add(index);
}

IndexSet IndexSet::All(int size) {
  IndexSet all(size);
  for (uint64_t& word : all.words_) word = ~uint64_t{0};
  if (size % 64 != 0) all.words_.back() = (uint64_t{1} << (size % 64)) - 1;
  return all;
}

IndexSet& IndexSet::operator|=(const IndexSet& other) {
  assert(size_ == other.size_);
  for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  return *this;
}

IndexSet& IndexSet::operator&=(const IndexSet& other) {
  assert(size_ == other.size_);
  for (size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  return *this;
}

IndexSet& IndexSet::operator-=(const IndexSet& other) {
  assert(size_ == other.size_);
  for (size_t w = 0; w < words_.size(); ++w) words_[w] &= ~other.words_[w];
  return *this;
}

bool IndexSet::IsEmpty() const {
  for (uint64_t word : words_) {
    if (word != 0) return false;
  }
  return true;
}

bool IndexSet::IsSubsetOf(const IndexSet& other) const {
  assert(size_ == other.size_);
  for (size_t w = 0; w < words_.size(); ++w) {
    if ((words_[w] & ~other.words_[w]) != 0) return false;
  }
  return true;
}

bool IndexSet::Intersects(const IndexSet& other) const {
  assert(size_ == other.size_);
  for (size_t w = 0; w < words_.size(); ++w) {
    if ((words_[w] & other.words_[w]) != 0) return true;
  }
  return false;
}

int IndexSet::Count() const {
  int count = 0;
  for (uint64_t word : words_) count += __builtin_popcountll(word);
  return count;
}

int IndexSet::Last() const {
  for (size_t w = words_.size(); w-- > 0;) {
    if (words_[w] != 0) return static_cast<int>(w * 64) + 63 - __builtin_clzll(words_[w]);
  }
  return kNone;
}

int IndexSet::NextFrom(int index) const {
  if (index >= size_) return kNone;
  size_t w = static_cast<size_t>(index) / 64;
  uint64_t rest = words_[w] & (~uint64_t{0} << (static_cast<unsigned>(index) % 64));
  while (rest == 0) {
    if (++w == words_.size()) return kNone;
    rest = words_[w];
  }
  return static_cast<int>(w * 64) + __builtin_ctzll(rest);
}

std::vector<int> IndexSet::ToVector() const {
  std::vector<int> members;
  members.reserve(static_cast<size_t>(Count()));
  ForEach([&](int index) { members.push_back(index); });
  return members;
}

size_t IndexSet::Hash() const {
  collage::Hash hash;
  hash.Add(static_cast<uint64_t>(size_));
  for (uint64_t word : words_) hash.Add(word);
  return hash.Get();
}

bool IndexSet::operator<(const IndexSet& other) const {
  if (size_ != other.size_) return size_ < other.size_;
  for (size_t w = 0; w < words_.size(); ++w) {
    const uint64_t differing = words_[w] ^ other.words_[w];
    if (differing == 0) continue;
    // The least index in only one of the two decides, unless the other one has nothing after it:
    // then the other one is a beginning of it.
    const int index = static_cast<int>(w * 64) + __builtin_ctzll(differing);
    return Contains(index) ? other.Next(index) != kNone : Next(index) == kNone;
  }
  return false;
}

std::string IndexSet::ToString() const {
  std::string out = "{";
  int first = kNone;
  int last = kNone;
  ForEach([&](int index) {
    if (first != kNone && index == last + 1) {
      last = index;
      return;
    }
    if (first != kNone) AppendRun(first, last, &out);
    first = last = index;
  });
  if (first != kNone) AppendRun(first, last, &out);
  return out + "}";
}

std::string IndexSet::Summary() const {
  std::string all = ToString();
  if (all.size() <= kSummaryLength) return all;
  return "{" + std::to_string(First()) + ".." + std::to_string(Last()) + ": " +
         std::to_string(Count()) + " nodes}";
}

}  // namespace tvm::collage
