// SPDX-License-Identifier: Apache-2.0
// Shared: plain data as a shared, immutable TVM object, which Python can hold. The data's type
// names the object's by kTypeKey. Test: rules/test_pattern_entry.py, views/test_views.py.
#pragma once

#include <utility>

#include "../relay/fields.h"

namespace tvm::collage {

template <typename T>
class SharedNode : public Object, public T {
 public:
  explicit SharedNode(T data) : T(std::move(data)) {}

  static constexpr const char* _type_key = T::kTypeKey;
  TVM_DECLARE_FINAL_OBJECT_INFO(SharedNode, Object);
};

template <typename T>
class Shared : public ObjectRef {
 public:
  explicit Shared(T data) : ObjectRef(runtime::make_object<SharedNode<T>>(std::move(data))) {}
  TVM_DEFINE_OBJECT_REF_METHODS(Shared, ObjectRef, SharedNode<T>);
};

}  // namespace tvm::collage
