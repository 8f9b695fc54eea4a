// SPDX-License-Identifier: Apache-2.0
// The few functions of ONNX Runtime's C interface that we call.
//
// The library's wheel brings no headers. Its interface is a table of function pointers that only
// ever grows at its end, so a function is known by its place; OnnxRuntime documents the table as
// `OrtApi` of version 14 (ONNX Runtime 1.14) or later.
// Test: backends/onnx_model/test_backend.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tvm::collage::onnx_model::ort {

// Opaque objects of the library.
struct Allocator;
struct Env;
struct MemoryInfo;
struct RunOptions;
struct Session;
struct SessionOptions;
struct Status;
struct TensorInfo;
struct ThreadingOptions;
struct Value;

constexpr uint32_t kApiVersion = 14;
constexpr int kLogError = 3;
constexpr int kNoOptimizations = 0;
constexpr int kAllOptimizations = 99;
constexpr int kDeviceAllocator = 0;
constexpr int kDefaultMemory = 0;

// X(name, place in the table, result, parameters)
#define COLLAGE_ORT_FUNCTIONS(X)                                                      \
  X(GetErrorMessage, 2, const char*, (const Status*))                                 \
  X(CreateSessionFromArray, 8, Status*,                                               \
    (const Env*, const void*, size_t, const SessionOptions*, Session**))              \
  X(Run, 9, Status*,                                                                  \
    (Session*, const RunOptions*, const char* const*, const Value* const*, size_t,    \
     const char* const*, size_t, Value**))                                            \
  X(CreateSessionOptions, 10, Status*, (SessionOptions**))                            \
  X(EnableProfiling, 14, Status*, (SessionOptions*, const char*))                     \
  X(SetSessionGraphOptimizationLevel, 23, Status*, (SessionOptions*, int))            \
  X(SetIntraOpNumThreads, 24, Status*, (SessionOptions*, int))                        \
  X(CreateTensorWithDataAsOrtValue, 49, Status*,                                      \
    (const MemoryInfo*, void*, size_t, const int64_t*, size_t, int, Value**))         \
  X(GetTensorMutableData, 51, Status*, (Value*, void**))                              \
  X(GetDimensionsCount, 61, Status*, (const TensorInfo*, size_t*))                    \
  X(GetDimensions, 62, Status*, (const TensorInfo*, int64_t*, size_t))                \
  X(GetTensorTypeAndShape, 65, Status*, (const Value*, TensorInfo**))                 \
  X(CreateCpuMemoryInfo, 69, Status*, (int, int, MemoryInfo**))                       \
  X(AllocatorFree, 76, Status*, (Allocator*, void*))                                  \
  X(GetAllocatorWithDefaultOptions, 78, Status*, (Allocator**))                       \
  X(ReleaseStatus, 93, void, (Status*))                                               \
  X(ReleaseSession, 95, void, (Session*))                                             \
  X(ReleaseValue, 96, void, (Value*))                                                 \
  X(ReleaseTensorTypeAndShapeInfo, 99, void, (TensorInfo*))                           \
  X(ReleaseSessionOptions, 100, void, (SessionOptions*))                              \
  X(SessionEndProfiling, 110, Status*, (Session*, Allocator*, char**))                \
  X(CreateEnvWithGlobalThreadPools, 119, Status*,                                     \
    (int, const char*, const ThreadingOptions*, Env**))                               \
  X(DisablePerSessionThreads, 120, Status*, (SessionOptions*))                        \
  X(CreateThreadingOptions, 121, Status*, (ThreadingOptions**))                       \
  X(ReleaseThreadingOptions, 122, void, (ThreadingOptions*))                          \
  X(AddSessionConfigEntry, 130, Status*, (SessionOptions*, const char*, const char*)) \
  X(SetGlobalIntraOpNumThreads, 147, Status*, (ThreadingOptions*, int))               \
  X(SetGlobalInterOpNumThreads, 148, Status*, (ThreadingOptions*, int))               \
  X(SetGlobalSpinControl, 149, Status*, (ThreadingOptions*, int))

// Pointers to the functions above.
struct Api {
#define COLLAGE_ORT_MEMBER(name, place, result, parameters) result(*name) parameters = nullptr;
  COLLAGE_ORT_FUNCTIONS(COLLAGE_ORT_MEMBER)
#undef COLLAGE_ORT_MEMBER
};

// The functions, loading the library on the first call; throws when there is none.
const Api& GetApi();

// Why the library can't be used in this process, or "" when it can. Never throws.
std::string WhyUnavailable();

// Its version, as in "1.31.1"; "" when it can't be used.
std::string Version();

}  // namespace tvm::collage::onnx_model::ort
