// Resizing along one axis: an element of the result is a sum of a few elements of the operand, its taps, with weights that depend on
// the place along the axis alone. Several axes are several launches.

#include "element.h"

// resampleAxis computes y[o, j, i], the sum over taps t of weights[j, t] * x[o, at[j, t], i]: a thread computes one element. Places have up to
// taps of them, the list of one with fewer ends with -1.
template <class From, class To> __device__ void resampleAxis(const From *__restrict__ x, const int *__restrict__ at, const float *__restrict__ weights, To *y, int from, int to, int inner, int taps, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int in = i % inner, j = i / inner % to, o = i / inner / to;
  float sum = 0.0f;
  for (int t = 0; t < taps; t++) {
    const int k = at[j * taps + t];
    if (k < 0) break;
    sum += weights[j * taps + t] * load(x + ((long long)o * from + k) * inner + in);
  }
  store(y + i, sum);
}

#define RESAMPLE(name, From, To) \
  ENTRY(name, 256)(const From *__restrict__ x, const int *__restrict__ at, const float *__restrict__ weights, To *y, int from, int to, int inner, int taps, int n) { resampleAxis(x, at, weights, y, from, to, inner, taps, n); }

RESAMPLE(resample, Element, Element)
#ifdef HALF // between two axes elements are float32
RESAMPLE(resample_first, Element, float)
RESAMPLE(resample_last, float, Element)
#endif
