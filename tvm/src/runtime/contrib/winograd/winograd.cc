// SPDX-License-Identifier: Apache-2.0
#include "winograd.h"

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "../partition/memory.h"
#include "../partition/round_up.h"
#include "transforms.h"

namespace tvm::collage::winograd {
namespace {

using partition::CeilDiv;

// A piece's tiles at all points: they share one reading of the weights, and their inputs should
// stay in cache. Fewer or more do not help where points are many or few.
constexpr int64_t kProductsOfPiece = 1008, kLeastTiles = 28, kMostTiles = 98;
// Below so many tiles the registers stand idle, so that output channels are split first.
constexpr int64_t kFewestTiles = 7;

int64_t TilesOfPiece(const Form& form) {
  return std::clamp(kProductsOfPiece / form.points(), kLeastTiles, kMostTiles);
}

int64_t CountTiles(const Form& form, const Shape& s) {
  return s.batch * CeilDiv(s.out_depth, form.depths.outputs) *
         CeilDiv(s.out_height, form.rows.outputs) * CeilDiv(s.out_width, form.columns.outputs);
}

int64_t Channels(const Shape& s) { return s.kernel_depth * s.in_channels; }

int64_t CountGroups(const Kernel& kernel, const Shape& s) {
  return CeilDiv(s.out_channels, kVectors * kernel.lanes);
}

int64_t PackedBytes(const Form& form, const Shape& s) {
  return static_cast<int64_t>(sizeof(float)) * form.points() * Channels(s) * s.out_channels;
}

Grid Divide(const Kernel& kernel, const Form& form, const Shape& s, int num_threads) {
  const int64_t tiles = CountTiles(form, s), groups = CountGroups(kernel, s);
  int64_t ranges = CeilDiv(tiles, TilesOfPiece(form));
  while (ranges * groups < num_threads && tiles / ranges > kFewestTiles) ranges *= 2;
  if (ranges < num_threads) return {ranges, std::min(groups, CeilDiv(num_threads, ranges))};
  return {std::min(tiles, CeilDiv(ranges, num_threads) * num_threads), 1};  // as many for each
}

// What a core does in a nanosecond (Zen 4, AVX-512): 100 operations of products, transforms that
// make 3 numbers, and the first reading of 20 bytes of weights, of which those of all layers
// together fit no cache. A narrower or slower core does less of each, which leaves the ratio.
constexpr double kOperations = 100, kTransforms = 3, kBytes = 20;

// The time that a form is expected to take.
double Nanoseconds(const Kernel& kernel, const Form& form, const Shape& s, int num_threads) {
  // A thread's pieces, of which all have the same channels and weights.
  const Grid grid = Divide(kernel, form, s, num_threads);
  const int64_t pieces = CeilDiv(grid.tiles * grid.channels, num_threads);
  const double tiles = static_cast<double>(pieces) * CeilDiv(CountTiles(form, s), grid.tiles);
  const double points = form.points(), out_channels = 1.0 / grid.channels * s.out_channels;
  const double channels = static_cast<double>(partition::RoundUp(Channels(s), kernel.lanes));
  const double transforms = points * tiles * (channels + out_channels) / kTransforms;
  const double products = 2 * points * tiles * Channels(s) * out_channels / kOperations;
  const double weights = static_cast<double>(PackedBytes(form, s)) / grid.channels / kBytes;
  return transforms + products + weights;
}

// Weights at an axis's points, the inverse of the kernel's transforms: the axis has `inner` numbers
// within and `outer` times without.
void TransformWeights(const Transforms& t, int inner, int outer, const std::vector<double>& from,
                      std::vector<double>* to) {
  for (int o = 0; o < outer; ++o) {
    for (int i = 0; i < t.points; ++i) {
      for (int j = 0; j < inner; ++j) {
        double sum = 0;
        for (int k = 0; k < t.taps; ++k) {
          sum += t.weights[i][k] * from[(o * t.taps + k) * inner + j];
        }
        (*to)[(o * t.points + i) * inner + j] = sum;
      }
    }
  }
}

// The shape with the channels of all depths of a window as one depth's.
Shape WithDepthsAsChannels(Shape s) {
  const int64_t depths = (s.out_depth - 1) * s.stride_depth + s.kernel_depth;
  s.depth = std::max(depths, s.depth + s.pad_front);
  s.in_channels *= s.kernel_depth;
  s.kernel_depth = 1;
  s.pad_front = 0;
  return s;
}

}  // namespace

std::vector<Fit> FindForms(const Kernel& kernel, const Window& window, int num_threads,
                           const Shape& shape) {
  const bool is_plain = shape.stride_depth == 1 && shape.dilation_depth == 1;
  // A single result in depth would waste what its neighbours share.
  const bool may_be_deep = is_plain && shape.out_depth > 1 && !HasFewChannels(kernel, shape);
  std::vector<Fit> found;
  for (const Form* form = kernel.forms; form != kernel.forms + kernel.num_forms; ++form) {
    const Axis &down = form->rows, &across = form->columns;
    const bool is_flat = form->depths.taps == 1;
    if (down.taps != window.rows || across.taps != window.columns ||
        down.stride != window.row_stride || across.stride != window.column_stride ||
        !(is_flat || (may_be_deep && form->depths.taps == window.depths))) {
      continue;
    }
    found.push_back({form, shape});
    found.back().shape.kernel_depth = is_flat ? window.depths : 1;  // of depths to add up
  }
  const auto time = [&](const Fit& fit) {
    return Nanoseconds(kernel, *fit.form, fit.shape, num_threads);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Fit& a, const Fit& b) { return time(a) < time(b); });
  return found;
}

bool HasFewChannels(const Kernel& kernel, const Shape& s) {
  return s.in_channels < kernel.lanes / 2 && s.dilation_depth == 1;
}

TVM_REGISTER_GLOBAL("collage.winograd.version").set_body_typed([]() { return kVersion; });

const Kernel* FindKernel(int lanes) {
#if defined(__x86_64__)
  for (const Kernel* kernel : {&kAvx512, &kAvx2}) {
    if (kernel->lanes == lanes) return kernel;
  }
#endif
  return nullptr;
}

bool IsFaster(const Kernel& kernel, const Fit& fit, int num_threads) {
  constexpr double kGain = 1.25;  // less is not worth the memory and the digits that it costs
  const Shape& s = fit.shape;
  const double outputs = static_cast<double>(s.batch) * s.out_depth * s.out_height * s.out_width;
  const double products = fit.form->taps() * outputs * Channels(s) * s.out_channels;
  const double direct = 2 * products / kOperations / num_threads;
  return Nanoseconds(kernel, *fit.form, s, num_threads) * kGain < direct;
}

std::shared_ptr<float> PackWeights(const Kernel& kernel, const Form& form, const Shape& s,
                                   const float* weights) {
  const auto of = [](const Axis& axis) {
    return MakeTransforms(axis.taps, axis.stride, axis.outputs);
  };
  const Transforms deep = of(form.depths), down = of(form.rows), across = of(form.columns);
  const int taps = form.taps(), num_points = form.points();
  std::vector<double> plain(taps), by_columns(taps / across.taps * across.points),
      by_rows(deep.taps * down.points * across.points), points(num_points);
  const auto memory =
      std::static_pointer_cast<float>(partition::AllocateAligned(PackedBytes(form, s)));
  float* packed = memory.get();
  const int64_t group = kVectors * kernel.lanes;
  const int64_t channels = Channels(s);
  for (int64_t first = 0; first < s.out_channels; first += group) {
    const int64_t wide = std::min(group, s.out_channels - first);  // the last group's may be less
    for (int64_t channel = 0; channel < channels; ++channel) {
      const int64_t c = channel % s.in_channels, d = channel / s.in_channels;
      for (int64_t k = 0; k < wide; ++k) {
        const int64_t window = ((first + k) * s.in_channels + c) * s.kernel_depth + d;
        std::copy_n(weights + window * taps, taps, plain.begin());
        TransformWeights(across, 1, deep.taps * down.taps, plain, &by_columns);
        TransformWeights(down, across.points, deep.taps, by_columns, &by_rows);
        TransformWeights(deep, down.points * across.points, 1, by_rows, &points);
        for (int i = 0; i < num_points; ++i) {
          packed[(i * channels + channel) * wide + k] = static_cast<float>(points[i]);
        }
      }
    }
    packed += wide * num_points * channels;
  }
  return memory;
}

Convolution::Convolution(const Kernel& kernel, const Form& form, const Shape& shape,
                         const Strides& src, const Strides& dst, std::vector<PostOp> post_ops)
    : kernel_(kernel),
      form_(form),
      given_(shape),
      shape_(shape),
      given_src_(src),
      src_(src),
      dst_(dst),
      post_ops_(std::move(post_ops)) {
  ICHECK(shape.out_channels % kernel.lanes == 0);
  if (!HasFewChannels(kernel, shape)) {
    ICHECK(shape.in_channels % kernel.lanes == 0);
    return;
  }
  shape_ = WithDepthsAsChannels(shape);
  const int64_t point = shape_.depth * given_.in_channels, row = shape_.width * point;
  src_ = {shape_.height * row, kernel.lanes, given_.in_channels, row, point};
  // The last vector reaches beyond the last number.
  gathered_floats_ = partition::RoundUp(shape_.batch * src_.batch + kernel.lanes, kernel.lanes);
}

int64_t Convolution::tile_stride() const {
  // An odd number of vectors, so that a point's tiles do not all fall into a few sets of the cache.
  const int64_t vectors = CeilDiv(Channels(shape_), kernel_.lanes);
  return (vectors > 2 ? vectors | 1 : vectors) * kernel_.lanes;
}

int64_t Convolution::PieceFloats(const Grid& grid) const {
  const int64_t tiles = CeilDiv(CountTiles(form_, shape_), grid.tiles);
  return form_.points() * tiles * (tile_stride() + kVectors * kernel_.lanes);
}

int64_t Convolution::scratch_bytes(int num_threads) const {
  const Grid grid = Divide(kernel_, form_, shape_, num_threads);
  const int64_t floats = gathered_floats_ + num_threads * PieceFloats(grid);
  return static_cast<int64_t>(sizeof(float)) * floats;
}

Piece Convolution::PieceAt(const Grid& grid, int64_t index) const {
  const int64_t i = index / grid.channels, j = index % grid.channels;
  const int64_t tiles = CountTiles(form_, shape_), groups = CountGroups(kernel_, shape_);
  const int64_t first = tiles * i / grid.tiles;
  return {first, tiles * (i + 1) / grid.tiles - first, groups * j / grid.channels,
          groups * (j + 1) / grid.channels};
}

// A row of the inputs with the numbers of a point one after another: channels of the first depth,
// of the next ..., zeros before and behind them.
void Convolution::GatherRow(const float* input, int64_t row, float* gathered) const {
  const int64_t image = row / shape_.height, channels = given_.in_channels;
  const float* from = input + image * given_src_.batch + row % shape_.height * given_src_.row;
  float* to = gathered + row * src_.row;
  std::fill_n(to, src_.row, 0.f);
  const int64_t depths = std::min(given_.depth, shape_.depth - given_.pad_front);
  for (int64_t depth = std::max<int64_t>(0, -given_.pad_front); depth < depths; ++depth) {
    for (int64_t c = 0; c < channels; ++c) {
      const float* line = from + depth * given_src_.depth + c * given_src_.block;
      float* line_to = to + (depth + given_.pad_front) * channels + c;
      for (int64_t x = 0; x < shape_.width; ++x) {
        line_to[x * src_.column] = line[x * given_src_.column];
      }
    }
  }
}

void Convolution::Run(const Data& data, int num_threads, void* scratch) const {
  struct Call {
    const Convolution* self;
    Grid grid;
    Problem problem;
    Data data;
    float* scratch;
    float* gathered;
    const float* input;
    std::atomic<int64_t> next{0}, next_row{0};
  };
  const int num_post_ops = static_cast<int>(post_ops_.size());
  Call call{this,
            Divide(kernel_, form_, shape_, num_threads),
            {shape_, src_, dst_, tile_stride(), post_ops_.data(), num_post_ops},
            data,
            static_cast<float*>(scratch) + gathered_floats_,
            static_cast<float*>(scratch),
            data.input};
  if (gathered_floats_ > 0) call.data.input = call.gathered;
  const auto gather = [](int, TVMParallelGroupEnv*, void* raw) {
    Call& call = *static_cast<Call*>(raw);
    const int64_t rows = call.problem.shape.batch * call.problem.shape.height;
    for (int64_t i = call.next_row++; i < rows; i = call.next_row++) {
      call.self->GatherRow(call.input, i, call.gathered);
    }
    return 0;
  };
  const auto run = [](int task, TVMParallelGroupEnv*, void* raw) {
    Call& call = *static_cast<Call*>(raw);
    const Convolution& self = *call.self;
    const int64_t pieces = call.grid.tiles * call.grid.channels;
    // A thread that other work slows down takes fewer.
    for (int64_t i = call.next++; i < pieces; i = call.next++) {
      self.form_.run(call.problem, call.data, self.PieceAt(call.grid, i),
                     call.scratch + task * self.PieceFloats(call.grid));
    }
    return 0;
  };
  if (gathered_floats_ > 0) {
    ICHECK_EQ(TVMBackendParallelLaunch(gather, &call, num_threads), 0) << TVMGetLastError();
  }
  ICHECK_EQ(TVMBackendParallelLaunch(run, &call, num_threads), 0) << TVMGetLastError();
}

}  // namespace tvm::collage::winograd
