// SPDX-License-Identifier: Apache-2.0
// IndexSet against std::set on random sets, and its text forms.
#include "src/relay/collage/graph/index_set.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>

namespace tvm::collage::testing {
namespace {

std::set<int> Members(const IndexSet& set) {
  std::set<int> members;
  set.ForEach([&](int index) { members.insert(index); });
  return members;
}

TEST_CASE("an index set acts as std::set does, at sizes around the word size") {
  std::mt19937 random(1);
  for (int size : {1, 5, 63, 64, 65, 127, 128, 129, 300}) {
    for (int round = 0; round < 50; ++round) {
      CAPTURE(size);
      std::set<int> a;
      std::set<int> b;
      IndexSet x(size);
      IndexSet y(size);
      for (int i = 0; i < size; ++i) {
        if (random() % 3 == 0) a.insert(i), x.Add(i);
        if (random() % 3 == 0) b.insert(i), y.Add(i);
      }
      std::set<int> both;
      std::set<int> either = a;
      std::set<int> only_a;
      either.insert(b.begin(), b.end());
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(),
                            std::inserter(both, both.end()));
      std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                          std::inserter(only_a, only_a.end()));
      CHECK(Members(x) == a);
      CHECK(Members(x | y) == either);
      CHECK(Members(x & y) == both);
      CHECK(Members(x - y) == only_a);
      CHECK(x.Count() == static_cast<int>(a.size()));
      CHECK(x.IsEmpty() == a.empty());
      CHECK(x.Intersects(y) == !both.empty());
      CHECK((x & y).IsSubsetOf(x));
      CHECK(x.IsSubsetOf(y) == only_a.empty());
      CHECK((x < y) == (a < b));
      CHECK((x == y) == (a == b));
      CHECK(x.First() == (a.empty() ? IndexSet::kNone : *a.begin()));
      CHECK(x.Last() == (a.empty() ? IndexSet::kNone : *a.rbegin()));
      std::vector<int> walked;
      for (int i = x.First(); i != IndexSet::kNone; i = x.Next(i)) walked.push_back(i);
      CHECK(walked == x.ToVector());
      const IndexSet copy(size, walked);
      CHECK(copy == x);
      CHECK(copy.Hash() == x.Hash());
      for (int i : a) x -= IndexSet(size, {i});
      CHECK(x.IsEmpty());
    }
  }
}

TEST_CASE("the full set has every index and nothing above it") {
  for (int size : {0, 1, 64, 70}) {
    const IndexSet all = IndexSet::All(size);
    CHECK(all.Count() == size);
    CHECK((all - IndexSet::All(size)).IsEmpty());
    CHECK(all - IndexSet::All(size) == IndexSet(size));
  }
}

TEST_CASE("sets of other sizes are other sets") {
  CHECK(IndexSet(3, {1}) != IndexSet(4, {1}));
  CHECK(IndexSet(3, {1}) < IndexSet(4, {0}));
}

TEST_CASE("text shortens runs, summaries shorten long text") {
  CHECK(IndexSet(5).ToString() == "{}");
  CHECK(IndexSet(20, {0, 3, 4, 5, 6, 7, 9, 12, 13}).ToString() == "{0,3..7,9,12,13}");
  CHECK(IndexSet(20, {1, 2}).Summary() == "{1,2}");
  IndexSet even(100);
  for (int i = 0; i < 100; i += 2) even.Add(i);
  CHECK(even.Summary() == "{0..98: 50 nodes}");
}

}  // namespace
}  // namespace tvm::collage::testing
