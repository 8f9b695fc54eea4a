// SPDX-License-Identifier: Apache-2.0
// Binder: tries one pattern at one node, keeping what each sub-pattern bound; a failed attempt
// takes its bindings back. Choices goes through every other way to bind it. Whether a part could
// match a node at all, bindings aside, is found once for each pair: parts are shared (an optional
// piece holds all before it, twice), so to find it anew at each choice takes exponential time.
// Used through matcher.h only. Test: tvm/tests/cpp/match_test.cc.
#pragma once

#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "pattern.h"

namespace tvm::collage {

// The ways to bind a pattern, one a try, by what is chosen at each point where there are several
// (an alternative, the order of arguments): an odometer whose last wheel turns first.
class Choices {
 public:
  // To be called before each try; false when there is no other way.
  bool Next();
  // Which of `num_options` the current try takes.
  int Choose(int num_options);

 private:
  struct Choice {
    int taken;
    int num_options;
  };
  std::vector<Choice> choices_;
  size_t depth_ = 0;
  bool is_started_ = false;
};

class Binder {
 public:
  using Bindings = std::vector<std::pair<const Pattern*, NodeIndex>>;

  // Each pattern that it tries must outlive it.
  explicit Binder(const DataflowGraph& graph) : graph_(graph) {}
  // As TVM does: of several options the first that succeeds by itself, never another after that.
  // With `choices` only the options chosen there.
  bool Try(const DataflowPattern& pattern, NodeIndex root, Choices* choices = nullptr);
  // Of the last Try that succeeded, in order of binding.
  Bindings TakeBindings();
  // Pairs of part and node that were looked at, by all tries.
  int64_t num_steps() const { return num_steps_; }

 private:
  using Args = std::vector<NodeIndex>;

  template <typename Test, typename Option>
  bool BindAny(Test&& fits, Option&& option);
  // False only if no bindings of other parts could make the pattern match there.
  bool Fits(const DataflowPattern& pattern, NodeIndex index);
  bool FindFits(const DataflowPattern& pattern, NodeIndex index);
  bool FitAll(const std::vector<DataflowPattern>& patterns, size_t first, const Args& nodes,
              bool is_reversed = false);
  bool FitsCall(const Pattern& pattern, NodeIndex index);
  bool Bind(const DataflowPattern& pattern, NodeIndex index);
  bool Visit(const DataflowPattern& pattern, NodeIndex index);
  bool HasAttrs(const Pattern& pattern, NodeIndex index) const;
  bool BindAll(const std::vector<DataflowPattern>& patterns, size_t first, const Args& nodes,
               bool is_reversed = false);
  bool BindCall(const Pattern& pattern, NodeIndex index);
  bool IsReassociated(const Pattern& pattern, NodeIndex index) const;
  bool BindReassociated(const Pattern& pattern, NodeIndex index);
  const DataflowPattern& Reassociated(const Pattern& pattern, int way);
  bool BindBack(const Pattern& pattern, NodeIndex index);
  bool BindDominator(const Pattern& pattern, NodeIndex index);
  bool BindPath(const Pattern& pattern, NodeIndex index, std::unordered_set<NodeIndex>* passed);
  bool DominatesParent(const DataflowPattern& parent, NodeIndex index);
  bool BindParts(const Pattern& pattern, NodeIndex index);
  const NodeIndex* FindBound(const Pattern* pattern) const;
  void Forget(size_t watermark);

  const DataflowGraph& graph_;
  Choices* choices_ = nullptr;
  Bindings bindings_;
  // Where in `bindings_` each pattern is bound first: no more of these than the pattern has parts,
  // however long a dominator's path is.
  std::vector<size_t> firsts_;
  // Off while a dominator's path is walked: its pattern binds many nodes.
  bool is_shared_bound_once_ = true;
  // The other forms of products of quotients, and what these were made with.
  std::map<std::pair<const Pattern*, int>, DataflowPattern> reassociated_;
  std::unordered_set<const Pattern*> temporaries_;
  struct PairHash {
    size_t operator()(const std::pair<const Pattern*, NodeIndex>& pair) const {
      return Hash()
          .Add(reinterpret_cast<uintptr_t>(pair.first))
          .Add(static_cast<uint64_t>(pair.second))
          .Get();
    }
  };
  // By part and node; parts live as long as the binder, or the tried pattern.
  std::unordered_map<std::pair<const Pattern*, NodeIndex>, bool, PairHash> fits_;
  int64_t num_steps_ = 0;
  // Redirected wildcards being followed.
  Bindings steps_back_;
};

}  // namespace tvm::collage
