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

namespace tvm {
namespace collage {
namespace winograd {
namespace {

constexpr int kWindow = 3;
// A piece's tiles, which share one reading of the weights; their inputs should stay in cache.
constexpr int64_t kTilesOfPiece = 28;
// Below so many tiles the registers stand idle, so that output channels are split first.
constexpr int64_t kFewestTiles = 7;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t CountTiles(const Shape& s) {
  return s.batch * s.out_depth * CeilDiv(s.out_height, kOut) * CeilDiv(s.out_width, kOut);
}

int64_t Channels(const Shape& s) { return s.kernel_depth * s.in_channels; }

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

bool IsFaster(const Shape& s) {
  // What a core does in a nanosecond (Zen 4, AVX-512): 100 operations of products, transforms that
  // make 3 numbers, and the reading of 20 bytes of weights, of which those of all layers together
  // fit no cache. A narrower or slower core does less of each, which leaves the ratio.
  constexpr double kOperations = 100, kTransforms = 3, kBytes = 20;
  constexpr double kGain = 1.25;  // less is not worth the memory and the digits that it costs
  const double pairs = static_cast<double>(Channels(s)) * s.out_channels;
  const double outputs = static_cast<double>(s.batch) * s.out_depth * s.out_height * s.out_width;
  const double tiles = static_cast<double>(CountTiles(s));
  const double direct = 2 * kWindow * kWindow * pairs * outputs / kOperations;
  const double transforms = kPoints * tiles * (Channels(s) + s.out_channels) / kTransforms;
  const double products = 2 * kPoints * pairs * tiles / kOperations;
  const double weights = static_cast<double>(PackedBytes(s)) / kBytes;
  return (transforms + products + weights) * kGain < direct;
}

const Kernel* FindKernel(int lanes) {
#if defined(__x86_64__)
  for (const Kernel* kernel : {&kAvx512, &kAvx2}) {
    if (kernel->lanes == lanes) return kernel;
  }
#endif
  return nullptr;
}

int64_t PackedBytes(const Shape& s) {
  return static_cast<int64_t>(sizeof(float)) * kPoints * Channels(s) * s.out_channels;
}

std::shared_ptr<void> PackWeights(const Shape& s, const Kernel& kernel, const float* weights) {
  std::shared_ptr<void> memory = partition::AllocateAligned(PackedBytes(s));
  const int64_t group = kVectors * kernel.lanes;
  for (int64_t k = 0; k < s.out_channels; ++k) {
    // The last group may be narrower; groups before it are whole.
    const int64_t first = k / group * group;
    const int64_t wide = std::min(group, s.out_channels - first);
    float* const packed = static_cast<float*>(memory.get()) + first * kPoints * Channels(s);
    for (int64_t c = 0; c < s.in_channels; ++c) {
      for (int64_t d = 0; d < s.kernel_depth; ++d) {
        const float* w = weights + ((k * s.in_channels + c) * s.kernel_depth + d) * 9;
        double plain[kWindow * kWindow], half[kIn * kWindow], points[kPoints];
        std::copy(w, w + kWindow * kWindow, plain);
        for (int j = 0; j < kWindow; ++j) TransformWeights(plain + j, kWindow, half + j, kWindow);
        for (int i = 0; i < kIn; ++i) TransformWeights(half + i * kWindow, 1, points + i * kIn, 1);
        for (int i = 0; i < kPoints; ++i) {
          const int64_t channel = d * s.in_channels + c;
          packed[(i * Channels(s) + channel) * wide + k - first] = static_cast<float>(points[i]);
        }
      }
    }
  }
  return memory;
}

Convolution::Convolution(const Kernel& kernel, const Shape& shape, const Strides& src,
                         const Strides& dst, std::vector<PostOp> post_ops, int num_threads)
    : kernel_(kernel),
      shape_(shape),
      src_(src),
      dst_(dst),
      post_ops_(std::move(post_ops)),
      num_threads_(num_threads) {
  ICHECK(shape.in_channels % kernel.lanes == 0 && shape.out_channels % kernel.lanes == 0);
  const int64_t tiles = num_tiles();
  const int64_t groups = CeilDiv(shape.out_channels, kVectors * kernel.lanes);
  tile_ranges_ = CeilDiv(tiles, kTilesOfPiece);
  while (tile_ranges_ * groups < num_threads && tiles / tile_ranges_ > kFewestTiles) {
    tile_ranges_ *= 2;
  }
  channel_ranges_ = 1;
  if (tile_ranges_ >= num_threads) {  // equally many for each thread
    tile_ranges_ = std::min(tiles, CeilDiv(tile_ranges_, num_threads) * num_threads);
  } else {
    channel_ranges_ = std::min(groups, CeilDiv(num_threads, tile_ranges_));
  }
}

int64_t Convolution::num_tiles() const { return CountTiles(shape_); }

int64_t Convolution::piece_floats() const {
  const int64_t tiles = CeilDiv(num_tiles(), tile_ranges_);
  // An odd number of vectors, so that a point's tiles do not all fall into a few sets of the cache.
  const int64_t tile_stride = (Channels(shape_) / kernel_.lanes | 1) * kernel_.lanes;
  return kPoints * tiles * (tile_stride + kVectors * kernel_.lanes);
}

int64_t Convolution::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(float)) * num_threads_ * piece_floats();
}

Piece Convolution::PieceAt(int64_t index) const {
  const int64_t i = index / channel_ranges_, j = index % channel_ranges_;
  const int64_t tiles = num_tiles();
  const int64_t groups = CeilDiv(shape_.out_channels, kVectors * kernel_.lanes);
  const int64_t first = tiles * i / tile_ranges_;
  return {first, tiles * (i + 1) / tile_ranges_ - first, groups * j / channel_ranges_,
          groups * (j + 1) / channel_ranges_};
}

void Convolution::Run(const Data& data, void* scratch) const {
  struct Call {
    const Convolution* self;
    Problem problem;
    Data data;
    float* scratch;
    std::atomic<int64_t> next{0};
  };
  const int64_t tile_stride = (Channels(shape_) / kernel_.lanes | 1) * kernel_.lanes;
  Call call{this,
            {shape_, src_, dst_, tile_stride, post_ops_.data(), static_cast<int>(post_ops_.size())},
            data,
            static_cast<float*>(scratch)};
  const auto run = [](int task, TVMParallelGroupEnv*, void* raw) {
    Call& call = *static_cast<Call*>(raw);
    const Convolution& self = *call.self;
    const int64_t pieces = self.tile_ranges_ * self.channel_ranges_;
    // A thread that other work slows down takes fewer.
    for (int64_t i = call.next++; i < pieces; i = call.next++) {
      self.kernel_.run(call.problem, call.data, self.PieceAt(i),
                       call.scratch + task * self.piece_floats());
    }
    return 0;
  };
  ICHECK_EQ(TVMBackendParallelLaunch(run, &call, num_threads_), 0) << TVMGetLastError();
}

}  // namespace winograd
}  // namespace collage
}  // namespace tvm
