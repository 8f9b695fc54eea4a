// SPDX-License-Identifier: Apache-2.0
// The few functions of OpenVINO's C interface that we call.
//
// Declared here rather than taken from its headers, so that a build does not need OpenVINO.
// Test: backends/onnx_model/test_backend.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tvm::collage::onnx_model::ov {

// Opaque objects of the library.
struct CompiledModel;
struct Core;
struct InferRequest;
struct Model;
struct Tensor;
struct ConstPort;

struct Shape {
  int64_t rank;
  int64_t* dims;
};

struct LibraryVersion {
  const char* build_number;
  const char* description;
};

// What it says of a layer of a model that was compiled to be profiled.
struct LayerTime {
  int status;
  int64_t microseconds;
  int64_t cpu_microseconds;
  const char* name;
  const char* execution;
  const char* kind;
};

struct LayerTimes {
  LayerTime* layers;
  size_t size;
};

constexpr int kOk = 0;
constexpr int kExecuted = 2;

// X(name without ov_, result, parameters)
#define COLLAGE_OV_FUNCTIONS(X)                                                            \
  X(get_openvino_version, int, (LibraryVersion*))                                          \
  X(version_free, void, (LibraryVersion*))                                                 \
  X(get_last_err_msg, const char*, ())                                                     \
  X(free, void, (const char*))                                                             \
  X(core_create, int, (Core**))                                                            \
  X(core_get_property, int, (const Core*, const char*, const char*, char**))               \
  X(core_read_model_from_memory_buffer, int,                                               \
    (const Core*, const char*, size_t, const Tensor*, Model**))                            \
  X(core_compile_model, int,                                                               \
    (const Core*, const Model*, const char*, size_t, CompiledModel**, ...))                \
  X(model_free, void, (Model*))                                                            \
  X(compiled_model_create_infer_request, int, (const CompiledModel*, InferRequest**))      \
  X(compiled_model_input_by_name, int, (const CompiledModel*, const char*, ConstPort**))   \
  X(compiled_model_output_by_name, int, (const CompiledModel*, const char*, ConstPort**))  \
  X(port_get_element_type, int, (const ConstPort*, int*))                                  \
  X(output_const_port_free, void, (ConstPort*))                                            \
  X(compiled_model_free, void, (CompiledModel*))                                           \
  X(infer_request_set_input_tensor_by_index, int, (InferRequest*, size_t, const Tensor*))  \
  X(infer_request_set_output_tensor_by_index, int, (InferRequest*, size_t, const Tensor*)) \
  X(infer_request_infer, int, (InferRequest*))                                             \
  X(infer_request_free, void, (InferRequest*))                                             \
  X(infer_request_get_profiling_info, int, (const InferRequest*, LayerTimes*))             \
  X(profiling_info_list_free, void, (LayerTimes*))                                         \
  X(tensor_create_from_host_ptr, int, (int, Shape, void*, Tensor**))                       \
  X(tensor_get_byte_size, int, (const Tensor*, size_t*))                                   \
  X(tensor_free, void, (Tensor*))

// Pointers to the functions above.
struct Api {
#define COLLAGE_OV_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  COLLAGE_OV_FUNCTIONS(COLLAGE_OV_MEMBER)
#undef COLLAGE_OV_MEMBER
};

// The functions, loading the library on the first call; throws when there is none.
const Api& GetApi();

// Why the library can't be used in this process, or "" when it can. Never throws.
std::string WhyUnavailable();

// Its version, as in "2026.4.1"; "" when it can't be used.
std::string Version();

}  // namespace tvm::collage::onnx_model::ov
