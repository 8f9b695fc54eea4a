// SPDX-License-Identifier: Apache-2.0
// The coefficients of Winograd's algorithm along one axis, for any window and stride.
//
// F(m, r): m results of a window of r taps come from m + r - 1 products, each at a point where the
// polynomials of inputs and weights are evaluated (Toom and Cook; Winograd, "Arithmetic Complexity
// of Computations", 1980). A stride of s divides taps and inputs into s phases with a stride of 1,
// whose products stand one after another. Along two axes both are nested. All of it is computed by
// the compiler; includes nothing, see kernel.h.
// Test: backends/dnnl/test_winograd_forms.py.
#pragma once

namespace tvm::collage::winograd {
namespace {

constexpr int kMostPoints = 13;  // and inputs

// `outputs` results from `inputs` numbers in a row, by `points` products.
struct Transforms {
  int taps, stride, outputs;
  int inputs = 0, points = 0;
  double input[kMostPoints][kMostPoints] = {};    // from inputs to points
  double weights[kMostPoints][kMostPoints] = {};  // from taps to points
  double output[kMostPoints][kMostPoints] = {};   // from points to outputs
  // Whether this point and the next are x and -x: `input` gives half their sum and difference, and
  // `output` takes their sum and difference.
  bool is_pair[kMostPoints] = {};
};

// Small numbers and their inverses lose the fewest digits.
constexpr double kPositivePoints[] = {1, 2, 0.5, 1.25};

// The i-th point of `count` finite ones: pairs, before them 0 where they are odd.
constexpr double PointAt(int i, int count) {
  if (count % 2 && i == 0) return 0;
  const int in_pairs = i - count % 2;
  return kPositivePoints[in_pairs / 2] * (in_pairs % 2 ? -1 : 1);
}

// Adds the phase of the taps phase, phase + stride, ...
constexpr void AddPhase(Transforms* t, int phase) {
  const int taps = (t->taps - phase + t->stride - 1) / t->stride;
  const int points = t->outputs + taps - 1, first = t->points;
  t->points += points;
  const auto input_at = [&](int i) { return phase + i * t->stride; };
  if (input_at(points - 1) >= t->inputs) t->inputs = input_at(points - 1) + 1;
  if (taps == 1) {  // a product for each result
    for (int i = 0; i < points; ++i) {
      t->input[first + i][input_at(i)] = t->weights[first + i][phase] = 1;
      t->output[i][first + i] = 1;
    }
    return;
  }
  const int finite = points - 1;  // the last point is infinity
  for (int i = 0; i < points; ++i) {
    // Of a finite point Lagrange's polynomial, of infinity the product of all (x - point).
    const bool is_finite = i < finite;
    const double own = is_finite ? PointAt(i, finite) : 0;
    double polynomial[kMostPoints] = {1}, scale = 1;
    for (int j = 0, degree = 0; j < finite; ++j) {
      if (j == i) continue;
      const double point = PointAt(j, finite);
      if (is_finite) scale *= own - point;
      for (int k = ++degree; k >= 0; --k) {
        polynomial[k] = (k ? polynomial[k - 1] : 0) - point * polynomial[k];
      }
    }
    for (int k = 0; k < points; ++k) t->input[first + i][input_at(k)] = polynomial[k];
    double power = 1;
    for (int k = 0; k < taps || k < t->outputs; ++k, power *= own) {
      const bool is_last_tap = k == taps - 1, is_last_output = k == t->outputs - 1;
      if (k < taps) {
        t->weights[first + i][phase + k * t->stride] = is_finite ? power / scale : is_last_tap;
      }
      if (k < t->outputs) t->output[k][first + i] = is_finite ? power : is_last_output;
    }
  }
  for (int i = first + finite % 2; i + 1 < first + finite; i += 2) {
    t->is_pair[i] = true;
    for (int k = 0; k < kMostPoints; ++k) {
      double &x = t->input[i][k], &y = t->input[i + 1][k];
      const double sum = (x + y) / 2, difference = (x - y) / 2;
      x = sum, y = difference;
      double &u = t->output[k][i], &v = t->output[k][i + 1];
      const bool is_even = u == v;  // else it is of an odd power
      v = is_even ? 0 : u, u = is_even ? u : 0;
    }
  }
}

constexpr Transforms MakeTransforms(int taps, int stride, int outputs) {
  Transforms t{taps, stride, outputs};
  for (int phase = 0; phase < stride && phase < taps; ++phase) AddPhase(&t, phase);
  return t;
}

}  // namespace
}  // namespace tvm::collage::winograd
