// SPDX-License-Identifier: Apache-2.0
// The problem's transition costs, asked once and split in two: what a reader pays whoever
// made the value (part of the reader's own cost, so that bounds see it), and what it pays on top
// for the value's maker. Needs a valid problem. Test: tvm/tests/cpp/search_states_test.cc.
#pragma once

#include <algorithm>
#include <vector>

#include "cover_problem.h"
#include "ticks.h"

namespace tvm::collage {

class TransitionTable {
 public:
  // `outside[id]` are the nodes that candidate id reads but does not hold.
  TransitionTable(const CoverProblem& problem, const std::vector<std::vector<int>>& outside);

  // Dense number of a candidate's layout class.
  int LayoutClassOf(int candidate) const { return layout_class_of_[candidate]; }
  // What the candidate pays for crossings in every cover that uses it.
  Ticks Fixed(int candidate) const { return fixed_[candidate]; }

  // Whether DependsOnMaker holds for any node.
  bool IsAnyDependent() const { return is_any_dependent_; }
  // Whether it matters to any reader what class of part made the node's value.
  bool DependsOnMaker(int node) const { return values_[node].classes > 1; }
  int NumMakerClasses(int node) const { return values_[node].classes; }
  int NumLayoutClasses() const { return static_cast<int>(num_layout_classes_); }
  // Makers of one class charge every reader of the node the same.
  int MakerClassOf(int node, int layout_class) const {
    return values_[node].class_of[layout_class];
  }
  // What a reader of layout class `to` pays beyond Fixed for a maker of that maker class.
  Ticks Extra(int node, int maker_class, int to) const {
    return values_[node]
        .extra[static_cast<size_t>(maker_class) * num_layout_classes_ + static_cast<size_t>(to)];
  }
  // The most that any reader of the node pays beyond Fixed.
  Ticks MostExtra(int node) const {
    const std::vector<Ticks>& extra = values_[node].extra;
    return extra.empty() ? 0 : *std::max_element(extra.begin(), extra.end());
  }

 private:
  struct Value {
    int classes = 0;            // 0: nothing reads it across a border
    std::vector<int> class_of;  // by layout class
    std::vector<Ticks> least;   // by reading layout class
    std::vector<Ticks> extra;   // by class and reading layout class
  };
  void FillValue(const CoverProblem& problem, const std::vector<int>& layout_classes, int node,
                 const std::vector<char>& makers, const std::vector<char>& readers);

  size_t num_layout_classes_ = 0;
  bool is_any_dependent_ = false;
  std::vector<int> layout_class_of_;
  std::vector<Ticks> fixed_;
  std::vector<Value> values_;
};

}  // namespace tvm::collage
