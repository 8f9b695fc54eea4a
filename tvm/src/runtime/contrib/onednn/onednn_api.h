// SPDX-License-Identifier: Apache-2.0
// oneDNN's C functions as a table that is filled from libdnnl.so.3 on first use.
//
// Nothing of oneDNN is linked: libtvm_collage_runtime.so loads (and other backends work) where
// oneDNN is absent, and a model that needs it gets one clear error naming what was tried.
// Precondition: oneDNN >= 3.2 headers at compile time.
// Test: backends/dnnl/test_errors.py.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <string>

// Every oneDNN function that we call, without its `dnnl_` prefix.
// A table, which the formatter would tear apart.
// clang-format off
#define COLLAGE_DNNL_FUNCTIONS(X) \
  X(version) X(engine_create) X(get_effective_cpu_isa) X(stream_create) X(stream_destroy) \
  X(memory_desc_create_with_strides) X(memory_desc_create_with_tag) \
  X(memory_desc_create_submemory) X(memory_desc_clone) X(memory_desc_destroy) \
  X(memory_desc_reshape) X(memory_desc_permute_axes) X(memory_desc_query) X(memory_desc_equal) \
  X(memory_desc_get_size) X(memory_create) X(memory_get_data_handle) X(memory_set_data_handle) X(memory_destroy) \
  X(primitive_attr_create) X(primitive_attr_destroy) X(primitive_attr_set_scratchpad_mode) \
  X(primitive_attr_set_post_ops) X(primitive_attr_set_zero_points_mask) \
  X(post_ops_create) X(post_ops_len) X(post_ops_destroy) X(post_ops_append_sum) \
  X(post_ops_append_eltwise) X(post_ops_append_binary) X(post_ops_append_prelu) X(primitive_desc_destroy) \
  X(primitive_desc_query) X(primitive_desc_query_md) X(primitive_desc_next_impl) X(primitive_create) X(primitive_destroy) \
  X(primitive_execute) X(convolution_forward_primitive_desc_create) \
  X(deconvolution_forward_primitive_desc_create) X(inner_product_forward_primitive_desc_create) \
  X(matmul_primitive_desc_create) X(pooling_forward_primitive_desc_create) X(resampling_forward_primitive_desc_create) \
  X(binary_primitive_desc_create) X(eltwise_forward_primitive_desc_create) X(prelu_forward_primitive_desc_create) \
  X(softmax_forward_primitive_desc_create) X(layer_normalization_forward_primitive_desc_create) \
  X(reduction_primitive_desc_create) X(concat_primitive_desc_create) \
  X(reorder_primitive_desc_create)
// clang-format on

namespace tvm::collage::onednn {

// Pointers to the functions above; names as in oneDNN without `dnnl_`.
struct Api {
#define COLLAGE_DNNL_MEMBER(name) decltype(&::dnnl_##name) name = nullptr;
  COLLAGE_DNNL_FUNCTIONS(COLLAGE_DNNL_MEMBER)
#undef COLLAGE_DNNL_MEMBER
  // How many threads oneDNN takes for a caller, of the OpenMP that it was linked with; null where
  // it was built with other threads.
  int (*omp_get_max_threads)() = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;
  // The one CPU engine of the process.
  dnnl_engine_t engine = nullptr;
};

// The table, loading oneDNN on the first call.
//
// Looked for: the file named by environment variable COLLAGE_ONEDNN_LIBRARY and nothing else when
// that is set; otherwise libdnnl.so.3 by the loader's own search, then in each directory above
// this library and above TVM's, and in their `lib`. The first of them that is 3.2 or a later 3.x,
// has all functions and offers a CPU engine is taken; throws with all reasons when none is.
const Api& GetApi();

// Why oneDNN can't be used in this process, or "" when it can. Never throws.
std::string WhyUnavailable();

// Whether oneDNN has kernels for bfloat16 on this CPU (AVX-512); needs GetApi().
bool RunsBfloat16();

// Why oneDNN's sums of products of bytes may be wrong on this CPU, or "". Never throws.
//
// Kernels without VNNI's dot product add pairs of products in 16 bits, and what does not fit is cut
// off: 255 * 127 + 255 * 127 becomes 32767.
std::string WhyBytesAreInexact();

// The same error for a primitive that multiplies bytes, by its implementation's name, as in
// "jit_int8:avx512_core": oneDNN may choose one for lesser CPUs.
void CheckBytesAreExact(const std::string& implementation, const std::string& what);

// Floats in the widest vectors that oneDNN uses on this CPU: 16, 8, or less; needs GetApi().
int VectorLanes();

// oneDNN's version, as in "3.2.0".
std::string Version();

// While it lives, oneDNN runs on one thread for this thread, and plans so.
class ScopedOneThread {
 public:
  explicit ScopedOneThread(bool is_wanted);
  ~ScopedOneThread();
  ScopedOneThread(const ScopedOneThread&) = delete;
  ScopedOneThread& operator=(const ScopedOneThread&) = delete;

 private:
  int before_ = 0;  // how many threads it had; 0 where nothing was changed
};

// Throws a readable error naming `what` unless status is dnnl_success.
void CheckStatus(dnnl_status_t status, const std::string& what);

}  // namespace tvm::collage::onednn
