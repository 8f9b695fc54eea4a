// SPDX-License-Identifier: Apache-2.0
// The kernel for AVX2, compiled with it (CMakeLists.txt); run only where the CPU has it.
//
// 6 tiles by 2 vectors of sums leave registers for two vectors of weights and one input.
// Test: backends/dnnl/test_winograd.py.
#if defined(__x86_64__)
#include "kernel_impl.h"

namespace tvm::collage::winograd {

const Kernel kAvx2 = {"avx2", 8, 6, Forms<8, 6>::kAll, Forms<8, 6>::kCount};

}  // namespace tvm::collage::winograd
#endif
