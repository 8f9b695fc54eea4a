// SPDX-License-Identifier: Apache-2.0
// The functions of XNNPACK's subgraph interface, and of its thread pool, that we call.
//
// The wheel that carries the library brings no headers: these are written from the documentation of
// its public interface (include/xnnpack.h, pthreadpool.h). Only functions with a name of their own
// are used for operators: the numbers of its enumerations differ between its versions.
// Test: backends/xnnpack/test_backend.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tvm::collage::xnnpack {

// Opaque objects of the library.
struct Subgraph;
struct Runtime;
struct Pool;

constexpr uint32_t kNoValue = UINT32_MAX;
constexpr int kFloat32 = 1;
constexpr uint32_t kExternalInput = 1, kExternalOutput = 2;  // flags of a tensor
constexpr uint32_t kTransposeB = 1;                          // of a product
constexpr uint32_t kKeepDims = 0x40;                         // of a reduction
constexpr uint32_t kProfiling = 8;                           // of a runtime
constexpr int kNumOperators = 0, kOperatorNames = 1,
              kOperatorMicroseconds = 2;  // what a profile tells
constexpr size_t kMostDims = 6;
// What it may read behind a tensor, in bytes.
constexpr size_t kReadsBehind = 16;

struct ExternalValue {
  uint32_t id;
  void* data;
};

// Who runs the tasks of a thread pool that has no threads of its own.
struct Executor {
  int (*num_threads)(void* self);
  void (*schedule)(void* self, void* context, void (*task)(void* context));
};

using Unary = int(Subgraph*, uint32_t input, uint32_t output, uint32_t flags);
using Binary = int(Subgraph*, uint32_t first, uint32_t second, uint32_t output, uint32_t flags);
using BoundedBinary = int(Subgraph*, float low, float high, uint32_t first, uint32_t second,
                          uint32_t output, uint32_t flags);

// A table, which the formatter would tear apart.
// clang-format off
// X(name behind xnn_, type)
#define COLLAGE_XNN_FUNCTIONS(X)                                                                  \
  X(initialize, int(const void* allocator))                                                       \
  X(create_subgraph, int(uint32_t external_values, uint32_t flags, Subgraph**))                   \
  X(delete_subgraph, int(Subgraph*))                                                              \
  X(create_runtime_v2, int(Subgraph*, Pool*, uint32_t flags, Runtime**))                          \
  X(delete_runtime, int(Runtime*))                                                                \
  X(reshape_runtime, int(Runtime*))                                                               \
  X(setup_runtime_v2, int(Runtime*, size_t, const ExternalValue*))                                \
  X(invoke_runtime, int(Runtime*))                                                                \
  X(get_external_value_shape, int(Runtime*, uint32_t id, size_t* rank, size_t* dims))             \
  X(get_runtime_profiling_info, int(Runtime*, int what, size_t room, void*, size_t* needed))      \
  X(define_tensor_value, int(Subgraph*, int type, size_t rank, const size_t* dims,                \
                             const void* data, uint32_t external_id, uint32_t flags,              \
                             uint32_t* id))                                                       \
  X(define_convolution_2d, int(Subgraph*, uint32_t top, uint32_t right, uint32_t bottom,          \
                               uint32_t left, uint32_t kernel_height, uint32_t kernel_width,      \
                               uint32_t stride_height, uint32_t stride_width,                     \
                               uint32_t dilation_height, uint32_t dilation_width,                 \
                               uint32_t groups, size_t group_inputs, size_t group_outputs,        \
                               float low, float high, uint32_t input, uint32_t filter,            \
                               uint32_t bias, uint32_t output, uint32_t flags))                   \
  X(define_depthwise_convolution_2d, int(Subgraph*, uint32_t top, uint32_t right,                 \
                                         uint32_t bottom, uint32_t left, uint32_t kernel_height,  \
                                         uint32_t kernel_width, uint32_t stride_height,           \
                                         uint32_t stride_width, uint32_t dilation_height,         \
                                         uint32_t dilation_width, uint32_t multiplier,            \
                                         size_t channels, float low, float high, uint32_t input,  \
                                         uint32_t filter, uint32_t bias, uint32_t output,         \
                                         uint32_t flags))                                         \
  X(define_deconvolution_2d, int(Subgraph*, uint32_t top, uint32_t right, uint32_t bottom,        \
                                 uint32_t left, uint32_t more_height, uint32_t more_width,        \
                                 uint32_t kernel_height, uint32_t kernel_width,                   \
                                 uint32_t stride_height, uint32_t stride_width,                   \
                                 uint32_t dilation_height, uint32_t dilation_width,               \
                                 uint32_t groups, size_t group_inputs, size_t group_outputs,      \
                                 float low, float high, uint32_t input, uint32_t filter,          \
                                 uint32_t bias, uint32_t output, uint32_t flags))                 \
  X(define_fully_connected, int(Subgraph*, float low, float high, uint32_t input,                 \
                                uint32_t filter, uint32_t bias, uint32_t output,                  \
                                uint32_t flags))                                                  \
  X(define_batch_matrix_multiply, Binary)                                                         \
  X(define_max_pooling_2d, int(Subgraph*, uint32_t top, uint32_t right, uint32_t bottom,          \
                               uint32_t left, uint32_t height, uint32_t width,                    \
                               uint32_t stride_height, uint32_t stride_width,                     \
                               uint32_t dilation_height, uint32_t dilation_width, float low,      \
                               float high, uint32_t input, uint32_t output, uint32_t flags))      \
  X(define_average_pooling_2d, int(Subgraph*, uint32_t top, uint32_t right, uint32_t bottom,      \
                                   uint32_t left, uint32_t height, uint32_t width,                \
                                   uint32_t stride_height, uint32_t stride_width, float low,      \
                                   float high, uint32_t input, uint32_t output, uint32_t flags))  \
  X(define_static_mean, int(Subgraph*, size_t, const size_t* axes, uint32_t input,                \
                            uint32_t output, uint32_t flags))                                     \
  X(define_static_transpose, int(Subgraph*, size_t rank, const size_t* order, uint32_t input,     \
                                 uint32_t output, uint32_t flags))                                \
  X(define_static_reshape, int(Subgraph*, size_t rank, const size_t* dims, uint32_t input,        \
                               uint32_t output, uint32_t flags))                                  \
  X(define_static_slice, int(Subgraph*, size_t rank, const size_t* begin, const size_t* extents,  \
                             uint32_t input, uint32_t output, uint32_t flags))                    \
  X(define_static_constant_pad, int(Subgraph*, const size_t* before, const size_t* behind,        \
                                    float value, uint32_t input, uint32_t output,                 \
                                    uint32_t flags))                                              \
  X(define_concatenate, int(Subgraph*, int32_t axis, size_t, const uint32_t* inputs,              \
                            uint32_t output, uint32_t flags))                                     \
  X(define_clamp, int(Subgraph*, float low, float high, uint32_t input, uint32_t output,          \
                      uint32_t flags))                                                            \
  X(define_elu, int(Subgraph*, float alpha, uint32_t input, uint32_t output, uint32_t flags))     \
  X(define_leaky_relu, int(Subgraph*, float slope, uint32_t input, uint32_t output,               \
                           uint32_t flags))                                                       \
  X(define_copy, Unary)                                                                           \
  X(define_softmax, Unary)                                                                        \
  X(define_ceiling, Unary)                                                                        \
  X(define_floor, Unary)                                                                          \
  X(define_gelu, Unary)                                                                           \
  X(define_hardswish, Unary)                                                                      \
  X(define_sigmoid, Unary)                                                                        \
  X(define_square, Unary)                                                                         \
  X(define_tanh, Unary)                                                                           \
  X(define_prelu, Binary)                                                                         \
  X(define_maximum2, Binary)                                                                      \
  X(define_minimum2, Binary)                                                                      \
  X(define_add2, BoundedBinary)                                                                   \
  X(define_subtract, BoundedBinary)                                                               \
  X(define_multiply2, BoundedBinary)                                                              \
  X(define_divide, BoundedBinary)

// X(name behind pthreadpool_, type)
#define COLLAGE_PTHREADPOOL_FUNCTIONS(X)                                                          \
  X(create_v2, Pool*(const Executor*, void* self, size_t most_threads))                           \
  X(destroy, void(Pool*))                                                                         \
  X(release_executor_threads, void(Pool*))
// clang-format on

struct Api {
#define COLLAGE_MEMBER(name, ...)  \
  using name##_type = __VA_ARGS__; \
  name##_type* name = nullptr;
  COLLAGE_XNN_FUNCTIONS(COLLAGE_MEMBER)
  struct {
    COLLAGE_PTHREADPOOL_FUNCTIONS(COLLAGE_MEMBER)
  } pool;
#undef COLLAGE_MEMBER
};

// The functions; the first call opens the library and throws with all reasons where none will do.
const Api& GetApi();

// Throws a ValueError that names `what` unless a status is that of success.
void CheckStatus(int status, const std::string& what);

}  // namespace tvm::collage::xnnpack
