// What goes over rows: softmax, normalization, reductions. A block of 128 threads has a row; its threads go through it in steps of
// 128, and what they found is joined by shuffles in each warp and through shared memory between the four warps.

const int THREADS = 128, WARPS = THREADS / 32;

struct Max { static __device__ float of(float a, float b) { return a > b || a != a ? a : b; } };
struct Min { static __device__ float of(float a, float b) { return a < b || a != a ? a : b; } };
struct Sum { static __device__ float of(float a, float b) { return a + b; } };
struct Product { static __device__ float of(float a, float b) { return a * b; } };

// joined gives every thread of the block the result over all of them.
template <class Op> __device__ float joined(float v) {
  __shared__ float part[WARPS];
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

// softmax of rows of n elements; the largest is subtracted first.
extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float *x, float *y, int n, int isLog) {
  x += (long long)blockIdx.x * n;
  y += (long long)blockIdx.x * n;
  float most = -__int_as_float(0x7f800000), sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += THREADS) most = Max::of(most, x[i]);
  most = joined<Max>(most);
  for (int i = threadIdx.x; i < n; i += THREADS) sum += expf(x[i] - most);
  sum = joined<Sum>(sum);
  const float shift = logf(sum);
  for (int i = threadIdx.x; i < n; i += THREADS) y[i] = isLog ? x[i] - most - shift : expf(x[i] - most) / sum;
}

// layernorm of rows of n elements: (x-mean)/sqrt(variance+epsilon)·scale + bias.
extern "C" __global__ void __launch_bounds__(THREADS) layernorm(const float *x, const float *__restrict__ scale, const float *__restrict__ bias, float *y, int n, int hasBias, float epsilon) {
  x += (long long)blockIdx.x * n;
  y += (long long)blockIdx.x * n;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < n; i += THREADS) sum += x[i];
  const float mean = joined<Sum>(sum) / n;
  for (int i = threadIdx.x; i < n; i += THREADS) squares += (x[i] - mean) * (x[i] - mean);
  const float factor = 1.0f / sqrtf(joined<Sum>(squares) / n + epsilon);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float v = (x[i] - mean) * factor * scale[i];
    y[i] = hasBias ? v + bias[i] : v;
  }
}

template <class Op> __device__ void reduceRow(const float *x, float *y, int n, float start, float scale) {
  x += (long long)blockIdx.x * n;
  float v = start;
  for (int i = threadIdx.x; i < n; i += THREADS) v = Op::of(v, x[i]);
  v = joined<Op>(v);
  if (threadIdx.x == 0) y[blockIdx.x] = v * scale;
}

// Reductions of rows of n elements; scale is 1/n for a mean.
extern "C" __global__ void __launch_bounds__(THREADS) reduce_sum(const float *__restrict__ x, float *y, int n, float scale) { reduceRow<Sum>(x, y, n, 0.0f, scale); }
extern "C" __global__ void __launch_bounds__(THREADS) reduce_product(const float *__restrict__ x, float *y, int n, float scale) { reduceRow<Product>(x, y, n, 1.0f, scale); }
extern "C" __global__ void __launch_bounds__(THREADS) reduce_max(const float *__restrict__ x, float *y, int n, float scale) { reduceRow<Max>(x, y, n, -__int_as_float(0x7f800000), scale); }
extern "C" __global__ void __launch_bounds__(THREADS) reduce_min(const float *__restrict__ x, float *y, int n, float scale) { reduceRow<Min>(x, y, n, __int_as_float(0x7f800000), scale); }
