// SPDX-License-Identifier: Apache-2.0
/*!
 * \file main.cc
 * \brief Runs a library that Collage compiled, without the compiler: TVM's runtime and ours only.
 *
 *   cpp_deploy net.so INPUT_NAME 1x3x224x224 input.bin
 *
 * input.bin holds float32 in row-major order. Prints each output's shape and numbers, then the
 * median time of a run on stderr. Tested by tvm/tests/python/collage/test_onednn_deploy.py.
 */
#include <dlpack/dlpack.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using tvm::runtime::Module;
using tvm::runtime::NDArray;
using tvm::runtime::PackedFunc;

constexpr int kTimedRuns = 20;

std::vector<int64_t> ParseShape(const std::string& text) {
  std::vector<int64_t> shape;
  std::istringstream is(text);
  for (std::string extent; std::getline(is, extent, 'x');) shape.push_back(std::stoll(extent));
  return shape;
}

NDArray ReadTensor(const std::string& path, const std::vector<int64_t>& shape, DLDevice device) {
  NDArray tensor = NDArray::Empty(shape, DLDataType{kDLFloat, 32, 1}, device);
  int64_t bytes = sizeof(float);
  for (int64_t extent : shape) bytes *= extent;
  std::ifstream file(path, std::ios::binary);
  if (!file.read(static_cast<char*>(tensor->data), bytes)) {
    throw std::runtime_error(path + " holds fewer than " + std::to_string(bytes) + " bytes");
  }
  return tensor;
}

void Print(const NDArray& tensor) {
  std::printf("output");
  int64_t count = 1;
  for (int64_t extent : tensor.Shape()) {
    std::printf(" %lld", static_cast<long long>(extent));
    count *= extent;
  }
  std::printf("\n");
  const float* data = static_cast<const float*>(tensor->data);
  for (int64_t i = 0; i < count; ++i) std::printf("%.9g\n", data[i]);
}

double MedianMilliseconds(const PackedFunc& run) {
  std::vector<double> times;
  for (int i = 0; i < kTimedRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    times.push_back(spent.count());
  }
  std::nth_element(times.begin(), times.begin() + kTimedRuns / 2, times.end());
  return times[kTimedRuns / 2];
}

void Run(const std::string& library, const std::string& input_name,
         const std::vector<int64_t>& shape, const std::string& input_path) {
  const DLDevice cpu{kDLCPU, 0};
  // The loader takes a name without a slash for one to search for.
  const bool is_name = library.find('/') == std::string::npos;
  Module factory = Module::LoadFromFile(is_name ? "./" + library : library);
  Module executor = factory.GetFunction("default")(cpu);
  // set_input ignores a name that the model lacks.
  const int64_t index = executor.GetFunction("get_input_index")(input_name);
  if (index < 0) throw std::runtime_error("the model has no input named " + input_name);
  executor.GetFunction("set_input")(input_name, ReadTensor(input_path, shape, cpu));
  const PackedFunc run = executor.GetFunction("run");
  run();
  const int outputs = executor.GetFunction("get_num_outputs")();
  for (int i = 0; i < outputs; ++i) Print(executor.GetFunction("get_output")(i));
  std::fprintf(stderr, "median of %d runs: %.3f ms\n", kTimedRuns, MedianMilliseconds(run));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s net.so INPUT_NAME 1x3x224x224 input.bin\n", argv[0]);
    return 2;
  }
  try {
    Run(argv[1], argv[2], ParseShape(argv[3]), argv[4]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
