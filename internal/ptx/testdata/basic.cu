// Kernels that the tests of the interpreter run against Go formulas.

extern "C" __global__ void saxpy(const float *x, const float *y, float *z, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}

// Lanes of one warp take different numbers of iterations, leave the loop at different places and meet again.
extern "C" __global__ void collatz(const int *x, int *steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i];
  int s = 0;
  while (v != 1) {
    if (v & 1) v = 3 * v + 1; else v >>= 1;
    if (++s == 1000) break;
  }
  steps[i] = s;
}

// A sum of each block's elements through shared memory.
extern "C" __global__ void blocksum(const float *x, float *y, int n) {
  __shared__ float part[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  part[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

// The same by shuffles.
extern "C" __global__ void warpsum(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : 0.0f;
  for (int s = 16; s > 0; s >>= 1) v += __shfl_xor_sync(0xffffffffu, v, s);
  __shared__ float part[32];
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < (blockDim.x + 31) / 32 ? part[threadIdx.x] : 0.0f;
    for (int s = 16; s > 0; s >>= 1) v += __shfl_down_sync(0xffffffffu, v, s);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
  }
}

// A product of matrices by tiles of 16x16 in shared memory, with edges.
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][17];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int p = 0; p < k; p += 16) {
    as[ty][tx] = row < m && p + tx < k ? a[row * k + p + tx] : 0.0f;
    bs[ty][tx] = col < n && p + ty < k ? b[(p + ty) * n + col] : 0.0f;
    __syncthreads();
    #pragma unroll
    for (int q = 0; q < 16; q++) sum += as[ty][q] * bs[q][tx];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

__device__ __noinline__ float horner(const float *c, int n, float x) {
  float y = 0;
  for (int i = 0; i < n; i++) y = y * x + c[i];
  return y;
}

// A call of a function that is not inlined, by lanes that diverge inside it; a table in constant memory.
__constant__ float coefficients[8] = {1, -0.5f, 0.25f, 3, -2, 0.125f, 7, 1};
extern "C" __global__ void poly(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = i & 1 ? horner(coefficients, 1 + i % 8, x[i]) : x[i];
}

// Arrays in local memory, indexed by what is known only while running.
extern "C" __global__ void sortrow(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v[8];
  for (int j = 0; j < 8; j++) v[j] = x[i * 8 + j];
  for (int j = 1; j < 8; j++)
    for (int k = j; k > 0 && v[k - 1] > v[k]; k--) {
      int t = v[k]; v[k] = v[k - 1]; v[k - 1] = t;
    }
  for (int j = 0; j < 8; j++) y[i * 8 + j] = v[(j + x[i * 8]) & 7];
}

extern "C" __global__ void histogram(const int *x, int *bins, int n) {
  __shared__ int local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&local[x[i] & 15], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void special(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i * 12 + 0] = expf(v);
  y[i * 12 + 1] = logf(fabsf(v) + 1);
  y[i * 12 + 2] = tanhf(v);
  y[i * 12 + 3] = erff(v);
  y[i * 12 + 4] = sqrtf(fabsf(v));
  y[i * 12 + 5] = 1 / (v + 100);
  y[i * 12 + 6] = sinf(v);
  y[i * 12 + 7] = cosf(v);
  y[i * 12 + 8] = powf(fabsf(v), 1.5f);
  y[i * 12 + 9] = floorf(v) + rintf(v) * ceilf(v);
  y[i * 12 + 10] = fmodf(v, 1.5f);
  y[i * 12 + 11] = rsqrtf(fabsf(v) + 1);
}

// Vectors of four, four dot products of bytes at once.
extern "C" __global__ void dot4(const int4 *a, const int4 *b, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int4 u = a[i], v = b[i];
  int s = 0;
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(s) : "r"(u.x), "r"(v.x));
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(s) : "r"(u.y), "r"(v.y));
  asm("{ .reg .b32 t; mov.b32 t, %1; dp4a.s32.s32 %0, t, %2, %0; }" : "+r"(s) : "r"(u.z), "r"(v.z));
  asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(s) : "r"(u.w), "r"(v.w));
  y[i] = s;
}

// Cases of a switch, dense enough for a table of branches.
extern "C" __global__ void cases(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i], r;
  switch (v) {
  case 0: r = v * 3; break;
  case 1: r = v - 1000; break;
  case 2: r = n / (v + 1); break;
  case 3: r = v << 7; break;
  case 4: r = -v; break;
  case 5: r = v * v * v; break;
  case 6: r = ~v; break;
  default: r = 42;
  }
  y[i] = r;
}

struct Shape { int rank; int dims[4]; int strides[4]; };

// A copy between strides, the shape passed by value and indexed in a loop.
extern "C" __global__ void strided(const short *x, short *y, Shape s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int rest = i, at = 0;
  #pragma unroll 1
  for (int d = s.rank - 1; d >= 0; d--) {
    at += rest % s.dims[d] * s.strides[d];
    rest /= s.dims[d];
  }
  y[i] = x[at];
}

extern "C" __global__ void doubles(const double *x, double *y, long long *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = sqrt(x[i]) / 3 + exp(-x[i]);
  z[i] = (long long)(x[i] * 1e6) % 1234567LL + __double2ll_rd(-x[i]);
}
