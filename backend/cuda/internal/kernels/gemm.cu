// Products of float32 matrices: c = alpha·a·b + bias, for a batch of matrices with any strides, so that transposed and broadcast
// operands need no copy.
//
// A block of 256 threads computes a tile of 64×64. It goes through k in steps of 16: both operands' parts are loaded into shared memory,
// then each thread adds 16 products for each of its 4×4 elements. Loads follow the axis along which an operand is contiguous.
//
//            k0..k0+16                n0..n0+64
//        m0 ┌─────────┐          k0 ┌──────────┐
//        .. │   as    │     ×    .. │    bs    │   →  64×64, 4×4 a thread
//     m0+64 └─────────┘             └──────────┘
//
// Products with one row have a kernel of their own, gemv.

struct Gemm {
  int m, n, k;
  int biasRow, biasColumn; // strides of the bias; both 0 for a single number
  int hasBias;
  long long aRow, aColumn, aBatch; // strides in elements
  long long bRow, bColumn, bBatch;
  long long cBatch; // rows of c are contiguous
  float alpha, beta; // beta scales the bias
};

const int TILE = 64, DEPTH = 16, PAD = 4;

// EPILOGUE marks where code for an element of the result and its number is put in, see package emit.
#define EPILOGUE(value, element) asm volatile("// epilogue %0 %1" : "+f"(value) : "r"(element))

extern "C" __global__ void __launch_bounds__(256) gemm(const float *__restrict__ a, const float *__restrict__ b, const float *bias, float *c, Gemm g) {
  __shared__ __align__(16) float as[DEPTH][TILE + PAD], bs[DEPTH][TILE + PAD];
  const int t = threadIdx.x, tx = t & 15, ty = t >> 4;
  const int m0 = (g.m > g.n ? blockIdx.x : blockIdx.y) * TILE, n0 = (g.m > g.n ? blockIdx.y : blockIdx.x) * TILE; // a grid has most room along x
  a += blockIdx.z * g.aBatch;
  b += blockIdx.z * g.bBatch;
  c += blockIdx.z * g.cBatch;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < g.k; k0 += DEPTH) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      const int e = t + 256 * i;
      const int ka = g.aColumn == 1 ? e & 15 : e >> 6, ma = g.aColumn == 1 ? e >> 4 : e & 63;
      as[ka][ma] = m0 + ma < g.m && k0 + ka < g.k ? a[(m0 + ma) * g.aRow + (k0 + ka) * g.aColumn] : 0.0f;
      const int kb = g.bRow == 1 ? e & 15 : e >> 6, nb = g.bRow == 1 ? e >> 4 : e & 63;
      bs[kb][nb] = n0 + nb < g.n && k0 + kb < g.k ? b[(k0 + kb) * g.bRow + (n0 + nb) * g.bColumn] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < DEPTH; k++) {
      const float4 u = *(const float4 *)&as[k][ty * 4], v = *(const float4 *)&bs[k][tx * 4];
      const float x[4] = {u.x, u.y, u.z, u.w}, y[4] = {v.x, v.y, v.z, v.w};
      #pragma unroll
      for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 4; i++) {
    const int m = m0 + ty * 4 + i;
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      const int n = n0 + tx * 4 + j;
      if (m >= g.m || n >= g.n) continue;
      float v = g.alpha * sum[i][j];
      if (g.hasBias) v += g.beta * bias[(long long)m * g.biasRow + (long long)n * g.biasColumn];
      EPILOGUE(v, blockIdx.z * (int)g.cBatch + m * g.n + n);
      c[(long long)m * g.n + n] = v;
    }
  }
}

// A product with one row, c = alpha·a·b + bias: every element of b is used once, so neighbouring lanes read neighbours of b. Where the
// columns of b are contiguous, a block has eight of them, a warp each, whose lanes divide k; else a block has 32 columns, one a lane, whose
// warps divide k.
extern "C" __global__ void __launch_bounds__(256) gemv(const float *__restrict__ a, const float *__restrict__ b, const float *bias, float *c, Gemm g) {
  __shared__ float part[8][32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const bool isAcross = g.bRow == 1;
  const int n = isAcross ? blockIdx.x * 8 + warp : blockIdx.x * 32 + lane, step = isAcross ? 32 : 8;
  a += blockIdx.z * g.aBatch;
  b += blockIdx.z * g.bBatch + n * g.bColumn;
  c += blockIdx.z * g.cBatch;
  float sum = 0.0f;
  if (n < g.n)
    #pragma unroll 4
    for (int k = isAcross ? lane : warp; k < g.k; k += step) sum += a[k * g.aColumn] * b[k * g.bRow];
  if (isAcross) {
    #pragma unroll
    for (int s = 16; s > 0; s >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  } else {
    part[warp][lane] = sum;
    __syncthreads();
    sum = part[0][lane];
    #pragma unroll
    for (int i = 1; i < 8; i++) sum += part[i][lane];
  }
  if (n >= g.n || (isAcross ? lane : warp) != 0) return;
  float v = g.alpha * sum;
  if (g.hasBias) v += g.beta * bias[(long long)n * g.biasColumn];
  EPILOGUE(v, blockIdx.z * (int)g.cBatch + n);
  c[n] = v;
}
