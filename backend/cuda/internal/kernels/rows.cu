// What goes over rows: softmax, normalization, reductions. A block of 128 threads has a row; its threads go through it in steps of
// 128, and what they found is joined by shuffles in each warp and through shared memory between the four warps.

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
extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float *x, float *y, int n, int inner, int isLog) {
  const long long start = (long long)(blockIdx.x / inner) * n * inner + blockIdx.x % inner;
  x += start;
  y += start;
  float most = -__int_as_float(0x7f800000), sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += THREADS) most = Max::of(most, x[(long long)i * inner]);
  most = joined<Max>(most);
  for (int i = threadIdx.x; i < n; i += THREADS) sum += expf(x[(long long)i * inner] - most);
  sum = joined<Sum>(sum);
  const float shift = logf(sum);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float v = x[(long long)i * inner] - most;
    y[(long long)i * inner] = isLog ? v - shift : expf(v) / sum;
  }
}

struct Norm {
  int n, groups, channels, span; // element i of row r has the scale of channel r%groups·channels + i/span
  int centers, hasScale, hasBias; // centers: the mean is subtracted
  float epsilon;
};

// normalize rows of n elements: (x-mean)/sqrt(variance+epsilon)·scale + bias; without a mean, the root mean square in its place. Mean and factor of
// each row are written where they are wanted.
extern "C" __global__ void __launch_bounds__(THREADS) normalize(const float *x, const float *__restrict__ scale, const float *__restrict__ bias, float *y, float *means, float *factors, Norm p) {
  x += (long long)blockIdx.x * p.n;
  y += (long long)blockIdx.x * p.n;
  float sum = 0.0f, squares = 0.0f;
  if (p.centers)
    for (int i = threadIdx.x; i < p.n; i += THREADS) sum += x[i];
  const float mean = joined<Sum>(sum) / p.n;
  for (int i = threadIdx.x; i < p.n; i += THREADS) squares += (x[i] - mean) * (x[i] - mean);
  const float factor = 1.0f / sqrtf(joined<Sum>(squares) / p.n + p.epsilon);
  if (threadIdx.x == 0 && means) means[blockIdx.x] = mean;
  if (threadIdx.x == 0 && factors) factors[blockIdx.x] = factor;
  const int first = blockIdx.x % p.groups * p.channels;
  for (int i = threadIdx.x; i < p.n; i += THREADS) {
    const int channel = first + i / p.span;
    float v = (x[i] - mean) * factor;
    if (p.hasScale) v *= scale[channel];
    y[i] = p.hasBias ? v + bias[channel] : v;
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

template <class Op, class Before, class After, class T> __device__ void reduceRow(const T *x, T *y, const Reduction &p, T start) {
  x += placeOf(p.rows, blockIdx.x);
  T v = start;
  for (int i = threadIdx.x; i < p.n; i += THREADS) v = Op::of(v, Before::of(x[placeOf(p.row, i)]));
  v = joined<Op>(v);
  if (threadIdx.x == 0) y[blockIdx.x] = After::of(v * (T)p.scale);
}

#define REDUCE(name, op, before, after, start) \
  extern "C" __global__ void __launch_bounds__(THREADS) reduce_##name(const float *__restrict__ x, float *y, Reduction p) { reduceRow<op, before, after, float>(x, y, p, start); } \
  extern "C" __global__ void __launch_bounds__(THREADS) reduce_##name##_f64(const double *__restrict__ x, double *y, Reduction p) { reduceRow<op, before, after, double>(x, y, p, start); }

REDUCE(sum, Sum, Same, Same, 0.0f)
REDUCE(product, Product, Same, Same, 1.0f)
REDUCE(max, Max, Same, Same, -__int_as_float(0x7f800000))
REDUCE(min, Min, Same, Same, __int_as_float(0x7f800000))
REDUCE(l1, Sum, Magnitude, Same, 0.0f)
REDUCE(l2, Sum, Square, Root, 0.0f)
REDUCE(squares, Sum, Square, Same, 0.0f)
REDUCE(log, Sum, Same, Logarithm, 0.0f)

// logSumExp is the logarithm of the sum of exponentials; the largest element is subtracted first.
template <class T> __device__ void logSumExp(const T *x, T *y, const Reduction &p) {
  x += placeOf(p.rows, blockIdx.x);
  T most = -__int_as_float(0x7f800000), sum = 0;
  for (int i = threadIdx.x; i < p.n; i += THREADS) most = Max::of(most, x[placeOf(p.row, i)]);
  most = joined<Max>(most);
  if (isinf(most)) most = 0;
  for (int i = threadIdx.x; i < p.n; i += THREADS) sum += exp(x[placeOf(p.row, i)] - most);
  sum = joined<Sum>(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = log(sum) + most;
}

extern "C" __global__ void __launch_bounds__(THREADS) reduce_logexp(const float *__restrict__ x, float *y, Reduction p) { logSumExp(x, y, p); }
extern "C" __global__ void __launch_bounds__(THREADS) reduce_logexp_f64(const double *__restrict__ x, double *y, Reduction p) { logSumExp(x, y, p); }

// best is the place of the largest element of each row of n elements, inner elements apart, or of the smallest (sign -1): the first
// such or the last. One thread has a row. Not-a-number is larger and smaller than all others.
extern "C" __global__ void __launch_bounds__(THREADS) best(const float *__restrict__ x, long long *y, int rows, int n, int inner, float sign, int isLast) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  x += (long long)(r / inner) * n * inner + r % inner;
  float most = x[0] * sign;
  int at = 0;
  for (int i = 1; i < n; i++) {
    const float v = x[(long long)i * inner] * sign;
    const bool isLarger = v > most || (v != v && most == most), isEqual = v == most || (v != v && most != most);
    if (isLarger || (isLast && isEqual)) most = v, at = i;
  }
  y[r] = at;
}

// cumulate writes running sums or products of rows of n elements, inner elements apart. One thread has a row.
template <class Op, class T> __device__ void cumulateRow(const T *x, T *y, T start, int rows, int n, int inner, int isExclusive, int isReverse) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const long long first = (long long)(r / inner) * n * inner + r % inner;
  for (int k = 0; k < n; k++) {
    const long long i = first + (long long)(isReverse ? n - 1 - k : k) * inner;
    const T next = Op::of(start, x[i]);
    y[i] = isExclusive ? start : next;
    start = next;
  }
}

#define CUMULATE(type, T) \
  extern "C" __global__ void __launch_bounds__(THREADS) cumulate_sum_##type(const T *x, T *y, int rows, int n, int inner, int isExclusive, int isReverse) { cumulateRow<Sum, T>(x, y, 0, rows, n, inner, isExclusive, isReverse); } \
  extern "C" __global__ void __launch_bounds__(THREADS) cumulate_product_##type(const T *x, T *y, int rows, int n, int inner, int isExclusive, int isReverse) { cumulateRow<Product, T>(x, y, 1, rows, n, inner, isExclusive, isReverse); }

CUMULATE(f32, float) CUMULATE(f64, double) CUMULATE(i32, int) CUMULATE(i64, long long)
