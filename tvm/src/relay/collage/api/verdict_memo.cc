// SPDX-License-Identifier: Apache-2.0
#include "verdict_memo.h"

#include <set>

namespace tvm::collage {
namespace {

std::set<std::string>& LocalBackends() {
  static auto& names = *new std::set<std::string>();
  return names;
}

}  // namespace

bool HasLocalPredicates(const std::string& backend) { return LocalBackends().count(backend) > 0; }

Signature VerdictMemo::KeyOf(bool is_local, NodeIndex root, const IndexSet& inside) {
  Signature key;
  uint64_t place_of_root = 0;
  inside.ForEach([&](NodeIndex i) {
    if (!is_local) key.push_back(static_cast<uint64_t>(i));
    place_of_root += i < root;
  });
  if (is_local) {
    if (!signatures_) {
      signatures_ = std::make_unique<const Signatures>(SignaturesOf(imported_));
    }
    CandidatePartition candidate;
    candidate.sub_graph = SubGraph::Make(imported_.graph, inside);
    key = signatures_->Of(candidate);
  }
  key.push_back(place_of_root);
  return key;
}

const Verdict& VerdictMemo::Of(const PackedFunc& predicate, bool is_local, NodeIndex root,
                               const IndexSet& inside, const std::function<Verdict()>& ask) {
  predicates_.emplace(predicate.get(), predicate);
  Signature key = KeyOf(is_local, root, inside);
  key.push_back(reinterpret_cast<uintptr_t>(predicate.get()));
  auto found = verdicts_.find(key);
  if (found == verdicts_.end()) found = verdicts_.emplace(std::move(key), ask()).first;
  return found->second;
}

TVM_REGISTER_GLOBAL("collage.SetLocalPredicates").set_body_typed([](String backend, bool is_local) {
  if (is_local) {
    LocalBackends().insert(backend);
  } else {
    LocalBackends().erase(backend);
  }
});

}  // namespace tvm::collage
