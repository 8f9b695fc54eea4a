// SPDX-License-Identifier: Apache-2.0
// The kernel for AVX-512, compiled with it (CMakeLists.txt); run only where the CPU has it.
//
// 14 tiles by 2 vectors of sums leave registers for two vectors of weights and one input.
// Test: backends/dnnl/test_winograd.py.
#if defined(__x86_64__)
#include "kernel_impl.h"

namespace tvm::collage::winograd {

const Kernel kAvx512 = {"avx512", 16, 14, Forms<16, 14>::kAll, Forms<16, 14>::kCount};

}  // namespace tvm::collage::winograd
#endif
