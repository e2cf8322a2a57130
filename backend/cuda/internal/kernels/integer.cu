// Products and convolutions of 8-bit integers, exact in 32 bits, with dp4a: four products and their sum in one instruction.
//
//   (a - za)·(b - zb) = a·b - za·Σb - zb·Σa + k·za·zb         sums over k
//
// so zero points cost two sums, which dp4a computes as well. Elements of uint8 are taken as those of int8 less 128, and so are their zero
// points: one instruction serves all pairs of types. A block of 256 threads computes 64×64 elements as gemm.cu does, in steps of 32 along
// k; shared memory holds four neighbours along k in a word. What lies outside an operand is 0 and adds nothing to any sum.
//
// Results are the sums, or they are quantized again: round(sum · scale) + zero point, saturated, the least one for NaN.

struct Result {
  int quantized;             // 0: int32
  int low, high;             // limits of the quantized type
  int scaleRow, scaleColumn; // strides of the scales of rows and columns
};

struct IntGemm {
  Result y;
  int m, n, k;
  int flipA, flipB;        // 0x80 for uint8
  int zeroRow, zeroColumn; // strides of the zero points
  long long aBatch, bBatch, cBatch;
};

struct IntConv {
  Result y;
  int groups, channels, outputs; // channels and outputs of one group
  int height, width, outHeight, outWidth;
  int filterHeight, filterWidth, strideY, strideX, padY, padX, dilationY, dilationX;
  int flipX, flipW;
  int zeroRow; // stride of the filters' zero points
  int batch;
};

typedef unsigned char byte;
typedef unsigned int word;

const int TILE = 64, DEPTH = 8, PAD = 4; // DEPTH in words of four elements

struct Sums {
  int ab[4][4], a[4], b[4];
};

// dot4 adds four products of int8 to a sum.
static __device__ __forceinline__ int dot4(int a, int b, int sum) {
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}

// step adds the products of what lies in shared memory.
static __device__ __forceinline__ void step(Sums &s, const int (*as)[TILE + PAD], const int (*bs)[TILE + PAD], int tx, int ty) {
  #pragma unroll
  for (int k = 0; k < DEPTH; k++) {
    const int4 u = *(const int4 *)&as[k][ty * 4], v = *(const int4 *)&bs[k][tx * 4];
    const int x[4] = {u.x, u.y, u.z, u.w}, y[4] = {v.x, v.y, v.z, v.w};
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      s.a[i] = dot4(x[i], 0x01010101, s.a[i]);
      s.b[i] = dot4(y[i], 0x01010101, s.b[i]);
      #pragma unroll
      for (int j = 0; j < 4; j++) s.ab[i][j] = dot4(x[i], y[j], s.ab[i][j]);
    }
  }
}

// zeroPoint reads one as that of the operand taken as int8.
static __device__ __forceinline__ int zeroPoint(const byte *list, int at, int flip) {
  return (int)(signed char)((list ? list[at] : 0) ^ flip);
}

// centered is the sum of products less zero points.
static __device__ __forceinline__ int centered(const Sums &s, int i, int j, int za, int zb, int k) {
  return s.ab[i][j] - za * s.b[j] - zb * s.a[i] + k * za * zb;
}

// zeroOf is the zero point of the result.
static __device__ __forceinline__ int zeroOf(const byte *zero, const Result &r) { return r.low < 0 ? (int)(signed char)*zero : (int)*zero; }

// quantized is a sum as an element of the result. It is a function, not code at each of its calls.
static __device__ __noinline__ int quantized(int sum, float factor, int zero, int low, int high) {
  const float v = __fmul_rn(__int2float_rn(sum), factor);
  return min(max((int)fminf(fmaxf(rintf(v), -65536.0f), 65536.0f) + zero, low), high); // fmaxf gives the number beside NaN
}

extern "C" __global__ void __launch_bounds__(256) igemm(const byte *__restrict__ a, const byte *__restrict__ b, const byte *aZero, const byte *bZero, const float *aScale, const float *bScale, const float *yScale, const byte *yZero, void *y, IntGemm g) {
  __shared__ __align__(16) int as[DEPTH][TILE + PAD], bs[DEPTH][TILE + PAD];
  const int t = threadIdx.x, tx = t & 15, ty = t >> 4;
  const int m0 = (g.m > g.n ? blockIdx.x : blockIdx.y) * TILE, n0 = (g.m > g.n ? blockIdx.y : blockIdx.x) * TILE; // as in gemm.cu
  a += blockIdx.z * g.aBatch;
  b += blockIdx.z * g.bBatch;
  const int resultZero = g.y.quantized ? zeroOf(yZero, g.y) : 0;
  Sums s = {};
  for (int k0 = 0; k0 < g.k; k0 += 4 * DEPTH) {
    #pragma unroll 1
    for (int i = 0; i < 2; i++) {
      const int e = t + 256 * i, ka = e & 7, m = e >> 3, kb = e >> 6, n = e & 63;
      word u = 0, v = 0;
      #pragma unroll
      for (int j = 0; j < 4; j++) {
        const int at = k0 + 4 * ka + j, from = k0 + 4 * kb + j;
        if (m0 + m < g.m && at < g.k) u |= (word)(a[(long long)(m0 + m) * g.k + at] ^ g.flipA) << 8 * j;
        if (n0 + n < g.n && from < g.k) v |= (word)(b[(long long)from * g.n + n0 + n] ^ g.flipB) << 8 * j;
      }
      as[ka][m] = u;
      bs[kb][n] = v;
    }
    __syncthreads();
    step(s, as, bs, tx, ty);
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 4; i++) {
    const int m = m0 + ty * 4 + i;
    if (m >= g.m) continue;
    const int za = zeroPoint(aZero, m * g.zeroRow, g.flipA);
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      const int n = n0 + tx * 4 + j;
      if (n >= g.n) continue;
      const int sum = centered(s, i, j, za, zeroPoint(bZero, n * g.zeroColumn, g.flipB), g.k);
      const long long at = blockIdx.z * g.cBatch + (long long)m * g.n + n;
      if (g.y.quantized) {
        const float factor = __fdiv_rn(__fmul_rn(aScale[m * g.y.scaleRow], bScale[n * g.y.scaleColumn]), *yScale);
        ((byte *)y)[at] = (byte)quantized(sum, factor, resultZero, g.y.low, g.y.high);
      } else ((int *)y)[at] = sum;
    }
  }
}

// iconv takes padding for the zero point of x.
extern "C" __global__ void __launch_bounds__(256) iconv(const byte *__restrict__ x, const byte *__restrict__ w, const byte *xZero, const byte *wZero, const float *xScale, const float *wScale, const float *yScale, const byte *yZero, const int *bias, void *y, IntConv p) {
  __shared__ __align__(16) int ws[DEPTH][TILE + PAD], xs[DEPTH][TILE + PAD];
  const int t = threadIdx.x, tx = t & 15, ty = t >> 4;
  const int c0 = blockIdx.y * TILE, q0 = blockIdx.x * TILE;
  const int group = blockIdx.z % p.groups, filter = p.filterHeight * p.filterWidth;
  const int k = p.channels * filter, pixels = p.outHeight * p.outWidth;
  x += (long long)blockIdx.z * p.channels * p.height * p.width;
  w += (long long)group * p.outputs * k;
  const int q = q0 + (t & 63); // the pixel whose patches this thread loads
  const int top = q / p.outWidth * p.strideY - p.padY, left = q % p.outWidth * p.strideX - p.padX;
  const int zx = zeroPoint(xZero, 0, p.flipX);
  Sums s = {};
  for (int k0 = 0; k0 < k; k0 += 4 * DEPTH) {
    #pragma unroll 1
    for (int i = 0; i < 2; i++) {
      const int e = t + 256 * i, kw = e & 7, c = e >> 3, kx = e >> 6;
      word u = 0, v = 0;
      #pragma unroll
      for (int j = 0; j < 4; j++) {
        const int at = k0 + 4 * kw + j;
        if (c0 + c < p.outputs && at < k) u |= (word)(w[(c0 + c) * k + at] ^ p.flipW) << 8 * j;
      }
      ws[kw][c] = u;
      #pragma unroll 2 // four are more registers, for addresses, than there are on sm_70
      for (int j = 0; j < 4; j++) {
        const int at = k0 + 4 * kx + j, channel = at / filter, r = at % filter;
        if (q >= pixels || at >= k) continue;
        const int row = top + r / p.filterWidth * p.dilationY, column = left + r % p.filterWidth * p.dilationX;
        const bool inside = row >= 0 && row < p.height && column >= 0 && column < p.width;
        const int element = inside ? x[(channel * p.height + row) * p.width + column] ^ p.flipX : zx & 0xff;
        v |= (word)element << 8 * j;
      }
      xs[kx][t & 63] = v;
    }
    __syncthreads();
    step(s, ws, xs, tx, ty);
    __syncthreads();
  }
  const int resultZero = p.y.quantized ? zeroOf(yZero, p.y) : 0;
  #pragma unroll
  for (int i = 0; i < 4; i++) {
    const int c = c0 + ty * 4 + i, all = group * p.outputs + c;
    if (c >= p.outputs) continue;
    const int zw = zeroPoint(wZero, all * p.zeroRow, p.flipW);
    const int first = bias ? bias[all] : 0;
    const float factor = p.y.quantized ? __fdiv_rn(__fmul_rn(*xScale, wScale[all * p.y.scaleColumn]), *yScale) : 0.0f;
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      const int pixel = q0 + tx * 4 + j;
      if (pixel >= pixels) continue;
      const int sum = centered(s, i, j, zw, zx, k) + first;
      const long long at = ((long long)blockIdx.z * p.outputs + c) * pixels + pixel;
      if (p.y.quantized) ((byte *)y)[at] = (byte)quantized(sum, factor, resultZero, p.y.low, p.y.high);
      else ((int *)y)[at] = sum;
    }
  }
}

// idepthwise: each group has one channel; a thread computes one element.
extern "C" __global__ void __launch_bounds__(256, 8) idepthwise(const byte *__restrict__ x, const byte *__restrict__ w, const byte *xZero, const byte *wZero, const float *xScale, const float *wScale, const float *yScale, const byte *yZero, const int *bias, void *y, IntConv p) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  const int pixels = p.outHeight * p.outWidth, plane = i / pixels, pixel = i % pixels, group = plane % p.groups;
  if (plane >= p.batch * p.groups) return;
  x += plane * p.height * p.width;
  const int top = pixel / p.outWidth * p.strideY - p.padY, left = pixel % p.outWidth * p.strideX - p.padX;
  const int zx = zeroPoint(xZero, 0, p.flipX);
  for (int o = 0; o < p.outputs; o++) {
    const int c = group * p.outputs + o, zw = zeroPoint(wZero, c * p.zeroRow, p.flipW);
    int sum = bias ? bias[c] : 0;
    for (int r = 0; r < p.filterHeight; r++) {
      const int row = top + r * p.dilationY;
      if (row < 0 || row >= p.height) continue;
      const byte *taps = w + (c * p.filterHeight + r) * p.filterWidth, *line = x + row * p.width;
      #pragma unroll 2 // four are more registers than there are on sm_70
      for (int s = 0; s < p.filterWidth; s++) {
        const int column = left + s * p.dilationX;
        if (column < 0 || column >= p.width) continue;
        sum += ((int)(signed char)(taps[s] ^ p.flipW) - zw) * ((int)(signed char)(line[column] ^ p.flipX) - zx);
      }
    }
    const int at = (plane * p.outputs + o) * pixels + pixel;
    if (p.y.quantized) {
      const float factor = __fdiv_rn(__fmul_rn(*xScale, wScale[c * p.y.scaleColumn]), *yScale);
      ((byte *)y)[at] = (byte)quantized(sum, factor, zeroOf(yZero, p.y), p.y.low, p.y.high);
    } else ((int *)y)[at] = sum;
  }
}
