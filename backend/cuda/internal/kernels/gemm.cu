// Products of matrices of floats: c = alpha·a·b + bias, for a batch of matrices with any strides, so that transposed and broadcast
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
// Products with one row, and those with few, have kernels of their own: gemv and few.

#include "element.h"

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

ENTRY(gemm, 256)(const Element *__restrict__ a, const Element *__restrict__ b, const Element *bias, Element *c, Gemm g) {
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
      as[ka][ma] = m0 + ma < g.m && k0 + ka < g.k ? load(a + (m0 + ma) * g.aRow + (k0 + ka) * g.aColumn) : 0.0f;
      const int kb = g.bRow == 1 ? e & 15 : e >> 6, nb = g.bRow == 1 ? e >> 4 : e & 63;
      bs[kb][nb] = n0 + nb < g.n && k0 + kb < g.k ? load(b + (k0 + kb) * g.bRow + (n0 + nb) * g.bColumn) : 0.0f;
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
      if (g.hasBias) v += g.beta * load(bias + (long long)m * g.biasRow + (long long)n * g.biasColumn);
      EPILOGUE(v, blockIdx.z * (int)g.cBatch + m * g.n + n);
      store(c + (long long)m * g.n + n, v);
    }
  }
}

// A product with one row, c = alpha·a·b + bias: every element of b is used once, so neighbouring lanes read neighbours of b. Where the
// columns of b are contiguous, a block has eight of them, a warp each, whose lanes divide k; else a block has 32 columns, one a lane, whose
// warps divide k.
ENTRY(gemv, 256)(const Element *__restrict__ a, const Element *__restrict__ b, const Element *bias, Element *c, Gemm g) {
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
    for (int k = isAcross ? lane : warp; k < g.k; k += step) sum += load(a + k * g.aColumn) * load(b + k * g.bRow);
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
  if (g.hasBias) v += g.beta * load(bias + (long long)n * g.biasColumn);
  EPILOGUE(v, blockIdx.z * (int)g.cBatch + n);
  store(c + n, v);
}

// Products with few rows: 2 to 32 of them, twice a power of two in a block, whose 256 threads have 32 columns. Threads divide k as well, so that
// a block of any number of rows has work for all of them: each has two rows, eight columns and every so manieth k; the sums of those that
// have the same elements are added in the end. Elements of c are cRow and cColumn apart, so that few columns are few rows of the
// transposed product.
//
//              32 columns                    4 threads
//          ┌───────────────┐             ┌───────────────┐
//     rows │ threads 0-31  │   32 rows   │ threads 0-63  │ 2 rows: 64 parts of k
//          │ threads 32-63 │   4 parts   ├───────────────┤
//          └───────────────┘   of k      │ ...           │
ENTRY(few, 256, 4)(const Element *__restrict__ a, const Element *__restrict__ b, const Element *bias, Element *c, Gemm g, int pairs, int cRow, int cColumn) {
  const int COLUMNS = 32, DEPTH = 64, ROWS = 32 + 2;
  __shared__ __align__(16) float shared[DEPTH * (ROWS + COLUMNS + PAD)];
  float *as = shared, *bs = shared + DEPTH * ROWS;
  const int t = threadIdx.x, tx = t & 3, rows = 2 << pairs, pair = t >> 2 & ((1 << pairs) - 1), part = t >> (2 + pairs), parts = 64 >> pairs;
  const int n0 = blockIdx.x * COLUMNS;
  a += blockIdx.z * g.aBatch;
  b += blockIdx.z * g.bBatch;
  c += blockIdx.z * g.cBatch;
  float sum[2][8] = {};
  for (int k0 = 0; k0 < g.k; k0 += DEPTH) {
    #pragma unroll 2
    for (int e = t; e < DEPTH * rows; e += 256) {
      const int k = g.aColumn == 1 ? e & 63 : e >> (1 + pairs), m = g.aColumn == 1 ? e >> 6 : e & (rows - 1);
      as[k * ROWS + m] = m < g.m && k0 + k < g.k ? load(a + m * g.aRow + (k0 + k) * g.aColumn) : 0.0f;
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      const int e = t + 256 * i, k = g.bRow == 1 ? e & 63 : e >> 5, n = g.bRow == 1 ? e >> 6 : e & 31;
      bs[k * (COLUMNS + PAD) + n] = n0 + n < g.n && k0 + k < g.k ? load(b + (k0 + k) * g.bRow + (n0 + n) * g.bColumn) : 0.0f;
    }
    __syncthreads();
    if (n0 + tx * 4 < g.n)
      #pragma unroll 2
      for (int k = part; k < min(DEPTH, g.k - k0); k += parts) {
        const float2 u = *(const float2 *)&as[k * ROWS + pair * 2];
        const float4 v = *(const float4 *)&bs[k * (COLUMNS + PAD) + tx * 4], w = *(const float4 *)&bs[k * (COLUMNS + PAD) + 16 + tx * 4];
        const float y[8] = {v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w};
        #pragma unroll
        for (int j = 0; j < 8; j++) sum[0][j] += u.x * y[j], sum[1][j] += u.y * y[j];
      }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 2; i++)
    #pragma unroll
    for (int j = 0; j < 8; j++) shared[(part * rows + pair * 2 + i) * COLUMNS + j / 4 * 16 + tx * 4 + j % 4] = sum[i][j];
  __syncthreads();
  #pragma unroll 1
  for (int e = t; e < rows * COLUMNS; e += 256) {
    const int m = cRow == 1 ? e & (rows - 1) : e >> 5, column = cRow == 1 ? e >> (1 + pairs) : e & 31, n = n0 + column;
    if (m >= g.m || n >= g.n) continue;
    float v = shared[m * COLUMNS + column];
    for (int i = 1; i < min(parts, g.k); i++) v += shared[(i * rows + m) * COLUMNS + column];
    v *= g.alpha;
    if (g.hasBias) v += g.beta * load(bias + ((long long)m * g.biasRow + (long long)n * g.biasColumn));
    const int at = m * cRow + n * cColumn;
    EPILOGUE(v, blockIdx.z * (int)g.cBatch + at);
    store(c + at, v);
  }
}
