// SPDX-License-Identifier: Apache-2.0
// Runs a library that Collage compiled, without the compiler: TVM's runtime and ours only.
//
//   cpp_deploy net.so INPUT_NAME 1x3x224x224 input.bin [serve]
//
// input.bin holds float32 in row-major order. Prints each output's shape and numbers, then the
// median time of a run on stderr; or with "serve", for each number on stdin, the seconds of so many
// runs. Tested by backends/dnnl/test_deploy.py.
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
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "thread_variables.h"

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

double Seconds(const PackedFunc& run, int64_t runs) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < runs; ++i) run();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return spent.count();
}

void PrintMedian(const PackedFunc& run) {
  std::vector<double> times;
  for (int i = 0; i < kTimedRuns; ++i) times.push_back(Seconds(run, 1));
  std::nth_element(times.begin(), times.begin() + kTimedRuns / 2, times.end());
  std::fprintf(stderr, "median of %d runs: %.3f ms\n", kTimedRuns, 1e3 * times[kTimedRuns / 2]);
}

void Serve(const PackedFunc& run) {
  for (int64_t runs; std::cin >> runs;) {
    std::printf("seconds %.9f\n", Seconds(run, runs));
    std::fflush(stdout);
  }
}

void Run(const std::string& library, const std::string& input_name,
         const std::vector<int64_t>& shape, const std::string& input_path, bool serve) {
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
  serve ? Serve(run) : PrintMedian(run);
}

}  // namespace

int main(int argc, char** argv) {
  SetThreadVariables(argv);
  const bool serve = argc == 6 && std::string(argv[5]) == "serve";
  if (argc != 5 && !serve) {
    std::fprintf(stderr, "usage: %s net.so INPUT_NAME 1x3x224x224 input.bin [serve]\n", argv[0]);
    return 2;
  }
  try {
    Run(argv[1], argv[2], ParseShape(argv[3]), argv[4], serve);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
