// SPDX-License-Identifier: Apache-2.0
/*!
 * \file winograd.cc
 * \brief Weights, pieces of work for threads, and whether it is worth it.
 */
#include "winograd.h"

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "../partition/memory.h"
#include "../partition/round_up.h"

namespace tvm {
namespace collage {
namespace winograd {
namespace {

using partition::CeilDiv;

constexpr int kWindow = 3;
// A piece's tiles, which share one reading of the weights; their inputs should stay in cache.
constexpr int64_t kTilesOfPiece = 28;
// Below so many tiles the registers stand idle, so that output channels are split first.
constexpr int64_t kFewestTiles = 7;

int64_t CountTiles(const Shape& s) {
  return s.batch * s.out_depth * CeilDiv(s.out_height, kOut) * CeilDiv(s.out_width, kOut);
}

int64_t Channels(const Shape& s) { return s.kernel_depth * s.in_channels; }

int64_t CountGroups(const Kernel& kernel, const Shape& s) {
  return CeilDiv(s.out_channels, kVectors * kernel.lanes);
}

int64_t PackedBytes(const Shape& s) {
  return static_cast<int64_t>(sizeof(float)) * kPoints * Channels(s) * s.out_channels;
}

Grid Divide(const Kernel& kernel, const Shape& s, int num_threads) {
  const int64_t tiles = CountTiles(s), groups = CountGroups(kernel, s);
  int64_t ranges = CeilDiv(tiles, kTilesOfPiece);
  while (ranges * groups < num_threads && tiles / ranges > kFewestTiles) ranges *= 2;
  if (ranges < num_threads) return {ranges, std::min(groups, CeilDiv(num_threads, ranges))};
  return {std::min(tiles, CeilDiv(ranges, num_threads) * num_threads), 1};  // as many for each
}

/*! \brief Three weights in a row at the six points; the inverse of the kernel's transforms. */
void TransformWeights(const double* w, int stride, double* out, int out_stride) {
  const double ends = w[0] + w[2 * stride], middle = w[stride];
  const double far_ends = w[0] + 4 * w[2 * stride], far_middle = 2 * middle;
  out[0] = w[0] / 4;
  out[out_stride] = -(ends + middle) / 6;
  out[2 * out_stride] = -(ends - middle) / 6;
  out[3 * out_stride] = (far_ends + far_middle) / 24;
  out[4 * out_stride] = (far_ends - far_middle) / 24;
  out[5 * out_stride] = w[2 * stride];
}

}  // namespace

const Kernel* FindKernel(int lanes) {
#if defined(__x86_64__)
  for (const Kernel* kernel : {&kAvx512, &kAvx2}) {
    if (kernel->lanes == lanes) return kernel;
  }
#endif
  return nullptr;
}

bool IsFaster(const Kernel& kernel, const Shape& s, int num_threads) {
  // What a core does in a nanosecond (Zen 4, AVX-512): 100 operations of products, transforms that
  // make 3 numbers, and the first reading of 20 bytes of weights, of which those of all layers
  // together fit no cache. A narrower or slower core does less of each, which leaves the ratio.
  constexpr double kOperations = 100, kTransforms = 3, kBytes = 20;
  constexpr double kGain = 1.25;  // less is not worth the memory and the digits that it costs
  const double pairs = static_cast<double>(Channels(s)) * s.out_channels;
  const double outputs = static_cast<double>(s.batch) * s.out_depth * s.out_height * s.out_width;
  const double direct = 2 * kWindow * kWindow * pairs * outputs / kOperations / num_threads;
  // A thread's pieces, of which all have the same channels and weights.
  const Grid grid = Divide(kernel, s, num_threads);
  const int64_t pieces = CeilDiv(grid.tiles * grid.channels, num_threads);
  const double tiles = static_cast<double>(pieces) * CeilDiv(CountTiles(s), grid.tiles);
  const double share = 1.0 / grid.channels;
  const double transforms = kPoints * tiles * (Channels(s) + share * s.out_channels) / kTransforms;
  const double products = 2 * kPoints * share * pairs * tiles / kOperations;
  const double weights = share * static_cast<double>(PackedBytes(s)) / kBytes;
  return (transforms + products + weights) * kGain < direct;
}

std::shared_ptr<float> PackWeights(const Kernel& kernel, const Shape& s, const float* weights) {
  const auto memory = std::static_pointer_cast<float>(partition::AllocateAligned(PackedBytes(s)));
  float* packed = memory.get();
  const int64_t group = kVectors * kernel.lanes;
  const int64_t channels = Channels(s);
  for (int64_t first = 0; first < s.out_channels; first += group) {
    const int64_t wide = std::min(group, s.out_channels - first);  // the last group's may be less
    for (int64_t channel = 0; channel < channels; ++channel) {
      const int64_t c = channel % s.in_channels, d = channel / s.in_channels;
      for (int64_t k = 0; k < wide; ++k) {
        const int64_t window = ((first + k) * s.in_channels + c) * s.kernel_depth + d;
        double plain[kWindow * kWindow], half[kIn * kWindow], points[kPoints];
        std::copy_n(weights + window * kWindow * kWindow, kWindow * kWindow, plain);
        for (int j = 0; j < kWindow; ++j) TransformWeights(plain + j, kWindow, half + j, kWindow);
        for (int i = 0; i < kIn; ++i) TransformWeights(half + i * kWindow, 1, points + i * kIn, 1);
        for (int i = 0; i < kPoints; ++i) {
          packed[(i * channels + channel) * wide + k] = static_cast<float>(points[i]);
        }
      }
    }
    packed += wide * kPoints * channels;
  }
  return memory;
}

Convolution::Convolution(const Kernel& kernel, const Shape& shape, const Strides& src,
                         const Strides& dst, std::vector<PostOp> post_ops)
    : kernel_(kernel), shape_(shape), src_(src), dst_(dst), post_ops_(std::move(post_ops)) {
  ICHECK(shape.in_channels % kernel.lanes == 0 && shape.out_channels % kernel.lanes == 0);
}

int64_t Convolution::tile_stride() const {
  // An odd number of vectors, so that a point's tiles do not all fall into a few sets of the cache.
  return (Channels(shape_) / kernel_.lanes | 1) * kernel_.lanes;
}

int64_t Convolution::PieceFloats(const Grid& grid) const {
  const int64_t tiles = CeilDiv(CountTiles(shape_), grid.tiles);
  return kPoints * tiles * (tile_stride() + kVectors * kernel_.lanes);
}

int64_t Convolution::scratch_bytes(int num_threads) const {
  const Grid grid = Divide(kernel_, shape_, num_threads);
  return static_cast<int64_t>(sizeof(float)) * num_threads * PieceFloats(grid);
}

Piece Convolution::PieceAt(const Grid& grid, int64_t index) const {
  const int64_t i = index / grid.channels, j = index % grid.channels;
  const int64_t tiles = CountTiles(shape_), groups = CountGroups(kernel_, shape_);
  const int64_t first = tiles * i / grid.tiles;
  return {first, tiles * (i + 1) / grid.tiles - first, groups * j / grid.channels,
          groups * (j + 1) / grid.channels};
}

void Convolution::Run(const Data& data, int num_threads, void* scratch) const {
  struct Call {
    const Convolution* self;
    Grid grid;
    Problem problem;
    Data data;
    float* scratch;
    std::atomic<int64_t> next{0};
  };
  const int num_post_ops = static_cast<int>(post_ops_.size());
  Call call{this,
            Divide(kernel_, shape_, num_threads),
            {shape_, src_, dst_, tile_stride(), post_ops_.data(), num_post_ops},
            data,
            static_cast<float*>(scratch)};
  const auto run = [](int task, TVMParallelGroupEnv*, void* raw) {
    Call& call = *static_cast<Call*>(raw);
    const Convolution& self = *call.self;
    const int64_t pieces = call.grid.tiles * call.grid.channels;
    // A thread that other work slows down takes fewer.
    for (int64_t i = call.next++; i < pieces; i = call.next++) {
      self.kernel_.run(call.problem, call.data, self.PieceAt(call.grid, i),
                       call.scratch + task * self.PieceFloats(call.grid));
    }
    return 0;
  };
  ICHECK_EQ(TVMBackendParallelLaunch(run, &call, num_threads), 0) << TVMGetLastError();
}

}  // namespace winograd
}  // namespace collage
}  // namespace tvm
