// SPDX-License-Identifier: Apache-2.0
// The memory of a tensor that a caller passed, once it is known to be what was compiled for.
// Test: backends/test_contract.py.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/runtime/data_type.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tvm::collage::partition {

// The data, after a check that the tensor is compact and of that type and shape.
//
// A tensor of rank 0 passes for shape (1). Throws a ValueError that names symbol, role and index.
void* CheckedData(const DLTensor* tensor, const std::vector<int64_t>& shape,
                  runtime::DataType dtype, const std::string& symbol, const char* role,
                  size_t index);

}  // namespace tvm::collage::partition
