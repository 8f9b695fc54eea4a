// SPDX-License-Identifier: Apache-2.0
// Binder: tries one pattern at one node, keeping what each sub-pattern bound; a failed attempt
// takes its bindings back. Used through matcher.h only. Test: tvm/tests/cpp/match_test.cc.
#ifndef TVM_RELAY_COLLAGE_MATCH_BINDER_H_
#define TVM_RELAY_COLLAGE_MATCH_BINDER_H_

#include <utility>
#include <vector>

#include "pattern.h"

namespace tvm::collage {

class Binder {
 public:
  using Bindings = std::vector<std::pair<const Pattern*, NodeIndex>>;

  explicit Binder(const DataflowGraph& graph) : graph_(graph) {}
  bool Try(const DataflowPattern& pattern, NodeIndex root);
  /*! \brief Of the last Try that succeeded, in order of binding. */
  Bindings TakeBindings();

 private:
  using Args = std::vector<NodeIndex>;

  bool Bind(const DataflowPattern& pattern, NodeIndex index);
  bool Visit(const DataflowPattern& pattern, NodeIndex index);
  bool BindAll(const std::vector<DataflowPattern>& patterns, size_t first, const Args& nodes,
               bool is_reversed = false);
  bool BindCall(const Pattern& pattern, NodeIndex index);
  bool BindReassociated(const Pattern& pattern, NodeIndex index);
  bool BindDominator(const Pattern& pattern, NodeIndex index);
  bool BindPath(const Pattern& pattern, NodeIndex index);
  bool DominatesParent(const DataflowPattern& parent, NodeIndex index);
  bool BindParts(const Pattern& pattern, NodeIndex index);
  const NodeIndex* FindBound(const Pattern* pattern) const;
  void Forget(size_t watermark) { bindings_.resize(watermark); }

  const DataflowGraph& graph_;
  Bindings bindings_;
  /*! \brief Off while a dominator's path is walked: its pattern binds many nodes. */
  bool is_shared_bound_once_ = true;
  std::vector<DataflowPattern> temporaries_;
};

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_MATCH_BINDER_H_
