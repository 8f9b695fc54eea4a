// SPDX-License-Identifier: Apache-2.0
// Convolutions by Winograd's algorithm, on all threads of the pool.
//
// With 3x3 windows it multiplies a quarter as often as a direct convolution, with others half to a
// sixth as often; what each window costs in memory and digits: docs/backends/dnnl.md. Why it is
// ours: docs/decisions.md.
// Test: backends/dnnl/test_winograd.py, backends/dnnl/test_winograd_forms.py.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel.h"

namespace tvm::collage::winograd {

// Raised when the kernel or the choice of its convolutions changes: what was measured before says
// nothing then.
constexpr int kVersion = 4;

// The kernel for such vectors, which the CPU must have; null when there is none.
const Kernel* FindKernel(int lanes);

// The window of a convolution.
struct Window {
  int64_t depths, rows, columns;
  int64_t row_stride, column_stride;
};

// A form and the shape adapted to it: depths that the form transforms are not added up.
struct Fit {
  const Form* form;
  Shape shape;
};

// The kernel's forms for such a window, in the order of the time that the model expects.
std::vector<Fit> FindForms(const Kernel& kernel, const Window& window, int num_threads,
                           const Shape& shape);

// Whether it takes clearly less time than a direct convolution, by a model of both.
bool IsFaster(const Kernel& kernel, const Fit& fit, int num_threads);

// `weights`: (out_channels, in_channels, kernel_depth, rows, columns), row-major.
std::shared_ptr<float> PackWeights(const Kernel& kernel, const Form& form, const Shape& shape,
                                   const float* weights);

// Whether inputs have so few channels that those of a window's depths together make a vector; they
// may then lie anyhow, one by one.
bool HasFewChannels(const Kernel& kernel, const Shape& shape);

// Ranges of tiles and of output channels; each pair is a piece of work for a thread.
struct Grid {
  int64_t tiles, channels;
};

// A convolution ready to run, by any number of callers at once with a scratch each, and each on as
// many threads as it has.
//
// Precondition: channels are multiples of kernel.lanes, and lie lanes together in memory; those of
// the inputs may be few (HasFewChannels) instead.
class Convolution {
 public:
  Convolution(const Kernel& kernel, const Form& form, const Shape& shape, const Strides& src,
              const Strides& dst, std::vector<PostOp> post_ops);
  int64_t scratch_bytes(int num_threads) const;
  // `scratch`: of scratch_bytes(num_threads).
  void Run(const Data& data, int num_threads, void* scratch) const;

 private:
  int64_t tile_stride() const;
  int64_t PieceFloats(const Grid& grid) const;
  Piece PieceAt(const Grid& grid, int64_t index) const;
  void GatherRow(const float* input, int64_t row, float* gathered) const;

  const Kernel& kernel_;
  const Form& form_;
  Shape given_;  // as the caller has it
  Shape shape_;  // as the kernel sees it: the same but where channels are few
  Strides given_src_, src_, dst_;
  int64_t gathered_floats_ = 0;  // of inputs with few channels
  std::vector<PostOp> post_ops_;
};

}  // namespace tvm::collage::winograd
