// What goes over rows: softmax, normalization, reductions. A block of 128 threads has a row; its threads go through it in steps of
// 128, and what they found is joined by shuffles in each warp and through shared memory between the four warps.

#include "element.h"

const int THREADS = 128, WARPS = THREADS / 32;

struct Max { template <class T> static __device__ T of(T a, T b) { return a > b || a != a ? a : b; } };
struct Min { template <class T> static __device__ T of(T a, T b) { return a < b || a != a ? a : b; } };
struct Sum { template <class T> static __device__ T of(T a, T b) { return a + b; } };
struct Product { template <class T> static __device__ T of(T a, T b) { return a * b; } };

// joined gives every thread of the block the result over all of them.
template <class Op, class T> __device__ T joined(T v) {
  __shared__ T part[WARPS];
  #pragma unroll
  for (int s = 16; s > 0; s >>= 1) v = Op::of(v, __shfl_xor_sync(0xffffffffu, v, s));
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = part[0];
  #pragma unroll
  for (int i = 1; i < WARPS; i++) v = Op::of(v, part[i]);
  __syncthreads(); // part may be used again
  return v;
}

// softmax of rows of n elements, inner elements apart; the largest is subtracted first. Row r begins at r/inner·n·inner + r%inner.
ENTRY(softmax, THREADS)(const Element *x, Element *y, int n, int inner, int isLog) {
  const long long start = (long long)(blockIdx.x / inner) * n * inner + blockIdx.x % inner;
  x += start;
  y += start;
  float most = -__int_as_float(0x7f800000), sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += THREADS) most = Max::of(most, load(x + (long long)i * inner));
  most = joined<Max>(most);
  for (int i = threadIdx.x; i < n; i += THREADS) sum += expf(load(x + (long long)i * inner) - most);
  sum = joined<Sum>(sum);
  const float shift = logf(sum);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float v = load(x + (long long)i * inner) - most;
    store(y + (long long)i * inner, isLog ? v - shift : expf(v) / sum);
  }
}

struct Norm {
  int n, groups, channels, span; // element i of row r has the scale of channel r%groups·channels + i/span
  int centers, hasScale, hasBias; // centers: the mean is subtracted
  float epsilon;
};

// normalize rows of n elements: (x-mean)/sqrt(variance+epsilon)·scale + bias; without a mean, the root mean square in its place. Mean and factor of
// each row are written where they are wanted.
ENTRY(normalize, THREADS)(const Element *x, const Element *__restrict__ scale, const Element *__restrict__ bias, Element *y, float *means, float *factors, Norm p) {
  x += (long long)blockIdx.x * p.n;
  y += (long long)blockIdx.x * p.n;
  float sum = 0.0f, squares = 0.0f;
  if (p.centers)
    for (int i = threadIdx.x; i < p.n; i += THREADS) sum += load(x + i);
  const float mean = joined<Sum>(sum) / p.n;
  for (int i = threadIdx.x; i < p.n; i += THREADS) squares += (load(x + i) - mean) * (load(x + i) - mean);
  const float factor = 1.0f / sqrtf(joined<Sum>(squares) / p.n + p.epsilon);
  if (threadIdx.x == 0 && means) means[blockIdx.x] = mean;
  if (threadIdx.x == 0 && factors) factors[blockIdx.x] = factor;
  const int first = blockIdx.x % p.groups * p.channels;
  for (int i = threadIdx.x; i < p.n; i += THREADS) {
    const int channel = first + i / p.span;
    float v = (load(x + i) - mean) * factor;
    if (p.hasScale) v *= load(scale + channel);
    store(y + i, p.hasBias ? v + load(bias + channel) : v);
  }
}

// A strided view of an operand, as in move.cu.
struct View {
  int rank, start;
  int dims[8], strides[8];
};

static __device__ __forceinline__ long long placeOf(const View &v, int i) {
  long long at = v.start;
  #pragma unroll
  for (int d = 7; d >= 0; d--) {
    if (d >= v.rank) continue;
    at += (long long)(i % v.dims[d]) * v.strides[d];
    i /= v.dims[d];
  }
  return at;
}

// Reductions: each row is a view of its own, whose first element is that of another view.
struct Reduction {
  View rows, row;
  int n;       // elements of a row
  float scale; // of the result: 1/n for a mean
};

struct Same { template <class T> static __device__ T of(T v) { return v; } };
struct Magnitude { template <class T> static __device__ T of(T v) { return fabs(v); } };
struct Square { template <class T> static __device__ T of(T v) { return v * v; } };
struct Root { template <class T> static __device__ T of(T v) { return sqrt(v); } };
struct Logarithm { template <class T> static __device__ T of(T v) { return log(v); } };

template <class Op, class Before, class After, class T, class E> __device__ void reduceRow(const E *x, E *y, const Reduction &p, T start) {
  x += placeOf(p.rows, blockIdx.x);
  T v = start;
  for (int i = threadIdx.x; i < p.n; i += THREADS) v = Op::of(v, Before::of(load(x + placeOf(p.row, i))));
  v = joined<Op>(v);
  if (threadIdx.x == 0) store(y + blockIdx.x, After::of(v * (T)p.scale));
}

#define REDUCE_FLOATS(name, op, before, after, start) \
  ENTRY(reduce_##name, THREADS)(const Element *__restrict__ x, Element *y, Reduction p) { reduceRow<op, before, after, float>(x, y, p, start); }
#ifdef HALF
#define REDUCE REDUCE_FLOATS
#else
#define REDUCE(name, op, before, after, start) \
  REDUCE_FLOATS(name, op, before, after, start) \
  ENTRY(reduce_##name##_f64, THREADS)(const double *__restrict__ x, double *y, Reduction p) { reduceRow<op, before, after, double>(x, y, p, start); }
#endif

REDUCE(sum, Sum, Same, Same, 0.0f)
REDUCE(product, Product, Same, Same, 1.0f)
REDUCE(max, Max, Same, Same, -__int_as_float(0x7f800000))
REDUCE(min, Min, Same, Same, __int_as_float(0x7f800000))
REDUCE(l1, Sum, Magnitude, Same, 0.0f)
REDUCE(l2, Sum, Square, Root, 0.0f)
REDUCE(squares, Sum, Square, Same, 0.0f)
REDUCE(log, Sum, Same, Logarithm, 0.0f)

// logSumExp is the logarithm of the sum of exponentials; the largest element is subtracted first.
template <class T, class E> __device__ void logSumExp(const E *x, E *y, const Reduction &p) {
  x += placeOf(p.rows, blockIdx.x);
  T most = -__int_as_float(0x7f800000), sum = 0;
  for (int i = threadIdx.x; i < p.n; i += THREADS) most = Max::of(most, load(x + placeOf(p.row, i)));
  most = joined<Max>(most);
  if (isinf(most)) most = 0;
  for (int i = threadIdx.x; i < p.n; i += THREADS) sum += exp(load(x + placeOf(p.row, i)) - most);
  sum = joined<Sum>(sum);
  if (threadIdx.x == 0) store(y + blockIdx.x, log(sum) + most);
}

ENTRY(reduce_logexp, THREADS)(const Element *__restrict__ x, Element *y, Reduction p) { logSumExp<float>(x, y, p); }
#ifndef HALF
ENTRY(reduce_logexp_f64, THREADS)(const double *__restrict__ x, double *y, Reduction p) { logSumExp<double>(x, y, p); }
#endif

// best is the place of the largest element of each row of n elements, inner elements apart, or of the smallest (sign -1): the first
// such or the last. One thread has a row. Not-a-number is larger and smaller than all others.
ENTRY(best, THREADS)(const Element *__restrict__ x, long long *y, int rows, int n, int inner, float sign, int isLast) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  x += (long long)(r / inner) * n * inner + r % inner;
  float most = load(x) * sign;
  int at = 0;
  for (int i = 1; i < n; i++) {
    const float v = load(x + (long long)i * inner) * sign;
    const bool isLarger = v > most || (v != v && most == most), isEqual = v == most || (v != v && most != most);
    if (isLarger || (isLast && isEqual)) most = v, at = i;
  }
  y[r] = at;
}

// cumulate writes running sums or products of rows of n elements, inner elements apart. One thread has a row.
template <class Op, class T, class E> __device__ void cumulateRow(const E *x, E *y, T start, int rows, int n, int inner, int isExclusive, int isReverse) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const long long first = (long long)(r / inner) * n * inner + r % inner;
  for (int k = 0; k < n; k++) {
    const long long i = first + (long long)(isReverse ? n - 1 - k : k) * inner;
    const T next = Op::of(start, load(x + i));
    store(y + i, isExclusive ? start : next);
    start = next;
  }
}

#define CUMULATE(sum, product, T, E) \
  ENTRY(sum, THREADS)(const E *x, E *y, int rows, int n, int inner, int isExclusive, int isReverse) { cumulateRow<Sum, T>(x, y, 0, rows, n, inner, isExclusive, isReverse); } \
  ENTRY(product, THREADS)(const E *x, E *y, int rows, int n, int inner, int isExclusive, int isReverse) { cumulateRow<Product, T>(x, y, 1, rows, n, inner, isExclusive, isReverse); }

CUMULATE(cumulate_sum, cumulate_product, float, Element)
#ifndef HALF
CUMULATE(cumulate_sum_f64, cumulate_product_f64, double, double) CUMULATE(cumulate_sum_i32, cumulate_product_i32, int, int)
CUMULATE(cumulate_sum_i64, cumulate_product_i64, long long, long long)
#endif
