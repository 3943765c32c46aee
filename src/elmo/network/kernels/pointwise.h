// Elementwise functions of vectors. NaN stays NaN.
#pragma once

#include "matrix.h"

static inline Vector clip(Vector x, float limit) {
  const Vector bound = splat(limit);
  x = x > bound ? bound : x;
  return x < -bound ? -bound : x;
}

// exp(x) as power * (1 + rest), for |x| <= 87.
struct Exponential {
  Vector power, rest;
};
static inline Exponential split_exponential(Vector x) {
  const Vector shift = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vector shifted = x * 1.44269504f + shift;
  const Vector whole = shifted - shift;
  const Vector rest = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;  // ln 2 in two parts
  // Minimax polynomial of (exp(r) - 1) / r over |r| <= ln(2)/2, error 3e-9.
  Vector p = splat(1.3814539416e-3f);
  p = p * rest + 8.3687454462e-3f;
  p = p * rest + 4.1668388993e-2f;
  p = p * rest + 1.6666521132e-1f;
  p = p * rest + 4.9999994040e-1f;
  p = p * rest + 1.0f;
  return {(Vector)(((Integers)shifted << 23) + 0x3f800000), p * rest};  // 2^whole
}

// exp(x) for |x| <= 87, relative error below 2e-7.
static inline Vector exponential(Vector x) {
  const Exponential e = split_exponential(x);
  return e.power * e.rest + e.power;
}

// exp(x) - 1 for |x| <= 87, relative error below 2e-7, near 0 too.
static inline Vector exp_minus_one(Vector x) {
  const Exponential e = split_exponential(x);
  return e.power * e.rest + (e.power - 1.0f);
}

static inline Vector sigmoid(Vector x) { return 1.0f / (2.0f + exp_minus_one(clip(-x, 87.0f))); }

static inline Vector tanh(Vector x) {
  const Vector e = exp_minus_one(clip(x + x, 40.0f));  // tanh(20) is 1 in float32
  return e / (e + 2.0f);
}
