// SPDX-License-Identifier: Apache-2.0
#include "handles.h"

#include <tvm/runtime/logging.h>

#include <algorithm>

namespace tvm::collage::onednn {

std::string Implementation(const PrimitiveDesc& pd) {
  const char* name = "";
  GetApi().primitive_desc_query(pd.get(), dnnl_query_impl_info_str, 0, &name);
  return name;
}

dnnl_data_type_t ElementType(runtime::DataType type) {
  if (type == runtime::DataType::Float(32)) return dnnl_f32;
  if (type == runtime::DataType::BFloat(16)) return dnnl_bf16;
  if (type == runtime::DataType::Int(32)) return dnnl_s32;
  if (type == runtime::DataType::Int(8)) return dnnl_s8;
  if (type == runtime::DataType::UInt(8)) return dnnl_u8;
  LOG(FATAL) << "ValueError: oneDNN partition: no tensor can be of type " << type;
  throw;  // LOG(FATAL) has thrown
}

MemDesc::MemDesc(dnnl_memory_desc_t owned)
    : raw_(owned, [](dnnl_memory_desc_t desc) { GetApi().memory_desc_destroy(desc); }) {}

MemDesc MemDesc::Plain(const Dims& dims, dnnl_data_type_t type) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  dnnl_memory_desc_t raw = nullptr;
  CheckStatus(GetApi().memory_desc_create_with_strides(&raw, static_cast<int>(dims.size()),
                                                       dims.data(), type, strides.data()),
              "memory descriptor");
  return MemDesc(raw);
}

MemDesc MemDesc::Tagged(const Dims& dims, dnnl_data_type_t type, dnnl_format_tag_t tag) {
  dnnl_memory_desc_t raw = nullptr;
  CheckStatus(GetApi().memory_desc_create_with_tag(&raw, static_cast<int>(dims.size()), dims.data(),
                                                   type, tag),
              "memory descriptor");
  return MemDesc(raw);
}

MemDesc MemDesc::Any(const Dims& dims, dnnl_data_type_t type) {
  return Tagged(dims, type, dnnl_format_tag_any);
}

MemDesc MemDesc::Query(const PrimitiveDesc& pd, dnnl_query_t what, int index) {
  const_dnnl_memory_desc_t found = GetApi().primitive_desc_query_md(pd.get(), what, index);
  dnnl_memory_desc_t raw = nullptr;
  CheckStatus(GetApi().memory_desc_clone(&raw, found), "memory descriptor of a primitive");
  return MemDesc(raw);
}

MemDesc MemDesc::Permute(const std::vector<int>& to) const {
  dnnl_memory_desc_t raw = nullptr;
  CheckStatus(GetApi().memory_desc_permute_axes(&raw, raw_.get(), to.data()), "axes permutation");
  return MemDesc(raw);
}

std::optional<MemDesc> MemDesc::Reshape(const Dims& dims) const {
  dnnl_memory_desc_t raw = nullptr;
  const dnnl_status_t status =
      GetApi().memory_desc_reshape(&raw, raw_.get(), static_cast<int>(dims.size()), dims.data());
  if (status != dnnl_success) return std::nullopt;
  return MemDesc(raw);
}

std::optional<MemDesc> MemDesc::Box(const Dims& begin, const Dims& dims) const {
  dnnl_memory_desc_t raw = nullptr;
  const dnnl_status_t status =
      GetApi().memory_desc_create_submemory(&raw, raw_.get(), dims.data(), begin.data());
  if (status != dnnl_success) return std::nullopt;
  return MemDesc(raw);
}

std::optional<MemDesc::Blocking> MemDesc::Blocks() const {
  const Api& api = GetApi();
  int num_blocks = 0;
  const dnnl_dims_t *widths = nullptr, *axes = nullptr, *strides = nullptr;
  api.memory_desc_query(raw_.get(), dnnl_query_inner_nblks_s32, &num_blocks);
  api.memory_desc_query(raw_.get(), dnnl_query_inner_blks, &widths);
  api.memory_desc_query(raw_.get(), dnnl_query_inner_idxs, &axes);
  if (api.memory_desc_query(raw_.get(), dnnl_query_strides, &strides) != dnnl_success) return {};
  Blocking found;
  found.counts = dims();
  found.strides.assign(*strides, *strides + found.counts.size());
  for (int i = 0; i < num_blocks; ++i) {
    found.inner.emplace_back((*axes)[i], (*widths)[i]);
    int64_t& count = found.counts[(*axes)[i]];
    count = (count + (*widths)[i] - 1) / (*widths)[i];
  }
  return found;
}

int64_t MemDesc::ElementsBefore() const {
  int64_t offset = 0;
  GetApi().memory_desc_query(raw_.get(), dnnl_query_submemory_offset_s64, &offset);
  return offset;
}

std::optional<std::pair<MemDesc, int64_t>> MemDesc::FromItsFirst() const {
  const std::optional<Blocking> blocks = Blocks();
  if (!blocks || !blocks->inner.empty()) return {};
  dnnl_memory_desc_t raw = nullptr;
  CheckStatus(GetApi().memory_desc_create_with_strides(
                  &raw, static_cast<int>(blocks->counts.size()), blocks->counts.data(), type(),
                  blocks->strides.data()),
              "memory descriptor");
  return std::pair(MemDesc(raw), ElementsBefore());
}

bool MemDesc::IsWhole() const {
  const std::optional<Blocking> blocks = Blocks();
  if (!blocks || ElementsBefore() != 0) return false;
  int64_t numbers = 1;
  for (const auto& [axis, width] : blocks->inner) numbers *= width;
  int64_t last = numbers - 1;  // the number that lies furthest from the first
  for (size_t i = 0; i < blocks->counts.size(); ++i) {
    numbers *= blocks->counts[i];
    last += (blocks->counts[i] - 1) * blocks->strides[i];
  }
  return last == numbers - 1;
}

bool MemDesc::IsPieceOf(const MemDesc& whole, size_t axis) const {
  const std::optional<Blocking> mine = Blocks(), its = whole.Blocks();
  if (!mine || !its || mine->inner != its->inner || type() != whole.type()) return false;
  for (const auto& [blocked, width] : mine->inner) {
    if (blocked == static_cast<int64_t>(axis) && dims()[axis] % width != 0) return false;
  }
  int64_t dense = 1, dense_whole = 1;  // elements of a row of blocks: strides that leave no gap
  for (const auto& [blocked, width] : mine->inner) dense *= width;
  dense_whole = dense;
  for (size_t i = 0; i < mine->counts.size(); ++i) {
    dense *= mine->counts[i];
    dense_whole *= its->counts[i];
    if (i == axis || mine->counts[i] == 1) continue;
    if (mine->strides[i] != its->strides[i] || its->strides[i] >= its->strides[axis]) return false;
  }
  // The axis is the outermost one that there is: its stride is all the rest.
  const bool is_outermost = its->strides[axis] * its->counts[axis] == dense_whole;
  const bool is_mine = mine->counts[axis] == 1 || mine->strides[axis] == its->strides[axis];
  return is_outermost && is_mine && its->strides[axis] * mine->counts[axis] == dense;
}

int64_t MemDesc::NumbersOfPiece(size_t axis) const {
  const std::optional<Blocking> blocks = Blocks();
  if (!blocks) return 0;
  int64_t numbers = 1;
  for (const auto& [blocked, width] : blocks->inner) numbers *= width;
  for (size_t i = 0; i < blocks->counts.size(); ++i) {
    if (blocks->strides[i] <= blocks->strides[axis]) numbers *= blocks->counts[i];
  }
  return numbers;
}

std::optional<Dims> MemDesc::StridesOfVectors(int64_t channels) const {
  const std::optional<Blocking> blocks = Blocks();
  const Dims extents = dims();
  if (!blocks || extents.size() < 2 || extents[1] % channels != 0) return {};
  Dims found = blocks->strides;
  if (blocks->inner.empty() && (found[1] == 1 || channels == 1)) {
    found[1] *= channels;
    return found;
  }
  const bool is_blocked =
      blocks->inner == std::vector{std::pair<int64_t, int64_t>(int64_t{1}, channels)};
  return is_blocked ? std::optional(found) : std::nullopt;
}

std::optional<std::vector<int>> MemDesc::OrderInMemory() const {
  const std::optional<Blocking> blocks = Blocks();
  if (!blocks) return {};
  const Dims& strides = blocks->strides;
  const Dims extents = dims();
  std::vector<int> order;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] != 1) order.push_back(static_cast<int>(axis));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  int64_t dense = 1;
  for (size_t i = order.size(); i-- > 0; dense *= extents[order[i]]) {
    if (strides[order[i]] != dense) return {};
  }
  return blocks->inner.empty() ? std::optional(order) : std::nullopt;
}

Dims MemDesc::dims() const {
  int rank = 0;
  const dnnl_dims_t* dims = nullptr;
  GetApi().memory_desc_query(raw_.get(), dnnl_query_ndims_s32, &rank);
  GetApi().memory_desc_query(raw_.get(), dnnl_query_dims, &dims);
  return Dims(*dims, *dims + rank);
}

dnnl_data_type_t MemDesc::type() const {
  dnnl_data_type_t type = dnnl_data_type_undef;
  GetApi().memory_desc_query(raw_.get(), dnnl_query_data_type, &type);
  return type;
}

int64_t MemDesc::Bytes() const {
  return static_cast<int64_t>(GetApi().memory_desc_get_size(raw_.get()));
}

bool MemDesc::operator==(const MemDesc& other) const {
  return GetApi().memory_desc_equal(raw_.get(), other.raw_.get());
}

}  // namespace tvm::collage::onednn
