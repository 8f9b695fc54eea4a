// SPDX-License-Identifier: Apache-2.0
// Owning handles for oneDNN objects and a memory descriptor with value semantics.
//
// Precondition: GetApi() works.
// Test: backends/dnnl/test_lower.py.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../partition/graph_desc.h"
#include "onednn_api.h"

namespace tvm::collage::onednn {

using partition::Dims;
using partition::GraphDesc;
using partition::NodeDesc;
using partition::PostOpDesc;
using partition::Summary;

// A handle that the given destroy function of the Api frees.
template <typename T, auto kDestroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T raw) : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (raw_) (GetApi().*kDestroy)(raw_);
  }
  T get() const { return raw_; }
  T* out() { return &raw_; }

 private:
  T raw_ = nullptr;
};

using PrimitiveDesc = Handle<dnnl_primitive_desc_t, &Api::primitive_desc_destroy>;
using Primitive = Handle<dnnl_primitive_t, &Api::primitive_destroy>;
using Memory = Handle<dnnl_memory_t, &Api::memory_destroy>;
using Stream = Handle<dnnl_stream_t, &Api::stream_destroy>;
using PrimitiveAttr = Handle<dnnl_primitive_attr_t, &Api::primitive_attr_destroy>;
using PostOps = Handle<dnnl_post_ops_t, &Api::post_ops_destroy>;

// oneDNN's name of the code that a primitive runs, as "jit:avx2" or "ref:any".
std::string Implementation(const PrimitiveDesc& pd);

// oneDNN's name of an element type; an error for one that no partition has.
dnnl_data_type_t ElementType(runtime::DataType type);

// Shape, element type and physical layout of a tensor; immutable, cheap to copy.
class MemDesc {
 public:
  MemDesc() = default;

  // Row-major layout.
  static MemDesc Plain(const Dims& dims, dnnl_data_type_t type);
  // The layout of oneDNN's that a tag names.
  static MemDesc Tagged(const Dims& dims, dnnl_data_type_t type, dnnl_format_tag_t tag);
  // Layout left to the primitive's choice.
  static MemDesc Any(const Dims& dims, dnnl_data_type_t type);
  // The descriptor that the primitive chose for `what` (src, weights, dst, ...).
  static MemDesc Query(const PrimitiveDesc& pd, dnnl_query_t what, int index = 0);

  // The same memory with its axes renamed: axis i of this is axis to[i] of the result.
  MemDesc Permute(const std::vector<int>& to) const;
  // The same memory seen in another shape; nothing when the layout does not allow it.
  std::optional<MemDesc> Reshape(const Dims& dims) const;
  // A box of the same memory; nothing when it begins or ends inside a block.
  std::optional<MemDesc> Box(const Dims& begin, const Dims& dims) const;

  // Strides in elements where vectors of so many channels (axis 1) lie together, which 1 always
  // does in a plain layout; that of axis 1 leads from one vector to the next. Nothing for another
  // layout.
  std::optional<Dims> StridesOfVectors(int64_t channels) const;

  // The axes from the outermost to the innermost, without those of extent 1; nothing where they lie
  // in blocks or with gaps.
  std::optional<std::vector<int>> OrderInMemory() const;

  // The same numbers in memory that begins with the first, and how many elements of this one's are
  // before that; nothing where they lie in blocks.
  std::optional<std::pair<MemDesc, int64_t>> FromItsFirst() const;

  // Whether the numbers begin where their memory does and leave no gaps; those of a part of a
  // larger tensor do not.
  bool IsWhole() const;
  // Whether pieces along an axis lie one after the other, with no gaps, and this is one.
  bool IsPieceOf(const MemDesc& whole, size_t axis) const;
  // How many numbers lie together at most: those of the axis and of what is inside it.
  int64_t NumbersOfPiece(size_t axis) const;

  Dims dims() const;
  dnnl_data_type_t type() const;
  int64_t Bytes() const;
  bool operator==(const MemDesc& other) const;
  bool operator!=(const MemDesc& other) const { return !(*this == other); }
  const_dnnl_memory_desc_t get() const { return raw_.get(); }

 private:
  // How numbers lie: the widths of the innermost blocks and their axes, then for each axis how many
  // blocks it has and the elements from one to the next.
  struct Blocking {
    std::vector<std::pair<int64_t, int64_t>> inner;  // (axis, width)
    Dims counts, strides;
  };
  std::optional<Blocking> Blocks() const;
  int64_t ElementsBefore() const;

  explicit MemDesc(dnnl_memory_desc_t owned);
  std::shared_ptr<dnnl_memory_desc> raw_;
};

}  // namespace tvm::collage::onednn
