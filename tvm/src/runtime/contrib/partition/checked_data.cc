// SPDX-License-Identifier: Apache-2.0
#include "checked_data.h"

#include <tvm/runtime/logging.h>

#include <sstream>

namespace tvm::collage::partition {
namespace {

std::string ShapeText(const int64_t* dims, int rank) {
  std::ostringstream os;
  os << "(";
  for (int i = 0; i < rank; ++i) os << (i ? ", " : "") << dims[i];
  os << ")";
  return os.str();
}

bool IsCompact(const DLTensor& tensor) {
  if (!tensor.strides) return true;
  int64_t expected = 1;
  for (int i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

}  // namespace

void* CheckedData(const DLTensor* tensor, const std::vector<int64_t>& shape,
                  runtime::DataType dtype, const std::string& symbol, const char* role,
                  size_t index) {
  ICHECK(tensor != nullptr) << symbol << ": " << role << " " << index << " is not a tensor";
  bool same = runtime::DataType(tensor->dtype) == dtype && IsCompact(*tensor);
  const bool is_scalar = tensor->ndim == 0 && shape == std::vector<int64_t>{1};
  same = same && (is_scalar || tensor->ndim == static_cast<int>(shape.size()));
  for (int i = 0; same && i < tensor->ndim; ++i) same = tensor->shape[i] == shape[i];
  if (!same) {
    // Before the message begins: it throws for a type that nobody knows.
    const std::string found = runtime::DLDataType2String(tensor->dtype);
    LOG(FATAL) << "ValueError: " << symbol << ": " << role << " " << index << " must be a compact "
               << dtype << " tensor of shape "
               << ShapeText(shape.data(), static_cast<int>(shape.size())) << ", got " << found
               << " of shape " << ShapeText(tensor->shape, tensor->ndim);
  }
  return static_cast<char*>(tensor->data) + tensor->byte_offset;
}

}  // namespace tvm::collage::partition
