// Dynamic quantization: scale and zero point follow from the range of the elements, 0 among them. A NaN has no part in the range, and becomes
// 0. The zero point is 255 where the range goes down to -infinity.

#include "element.h"
#include "cells.h"

typedef unsigned char byte;
typedef unsigned int word;

struct Range { float low, high; };
struct Grid { float scale; int zero; }; // of numbers of uint8

static __device__ __forceinline__ Range wider(Range a, float low, float high) { return {low < a.low ? low : a.low, high > a.high ? high : a.high}; }

// joined is the range over all threads of the block.
static __device__ __forceinline__ Range joined(Range r) {
  __shared__ Range part[WARPS];
  #pragma unroll
  for (int s = 16; s > 0; s >>= 1) r = wider(r, __shfl_xor_sync(0xffffffffu, r.low, s), __shfl_xor_sync(0xffffffffu, r.high, s));
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = r;
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < WARPS; i++) r = wider(r, part[i].low, part[i].high);
  __syncthreads(); // part may be used again
  return r;
}

static __device__ __forceinline__ Grid gridOf(Range r) {
  if (r.low == r.high) return {1.0f, 0};
  const float scale = __fdiv_rn(__fsub_rn(r.high, r.low), 255.0f);
  return {scale, (int)fmaxf(fminf(rintf(__fdiv_rn(-r.low, scale)), 255.0f), 0.0f)};
}

static __device__ __forceinline__ int quantized(float v, Grid g) {
  v = rintf(__fdiv_rn(v, g.scale));
  return min(max((int)fminf(fmaxf(v, -65536.0f), 65536.0f) + g.zero, 0), 255);
}

// ranges writes the range of what each of at most 256 blocks goes through.
extern "C" __global__ void __launch_bounds__(THREADS) ranges(const float *__restrict__ x, Range *parts, int n) {
  Range r = {0.0f, 0.0f};
  for (long long i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) r = wider(r, x[i], x[i]);
  r = joined(r);
  if (threadIdx.x == 0) parts[blockIdx.x] = r;
}

// dynamic quantizes by the range of all parts, which every block joins for itself.
extern "C" __global__ void __launch_bounds__(THREADS) dynamic(const float *__restrict__ x, const Range *__restrict__ parts, byte *y, float *scale, byte *zero, int count, int n) {
  const Range none = {0.0f, 0.0f};
  const Grid g = gridOf(joined(threadIdx.x < count ? parts[threadIdx.x] : none));
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *scale = g.scale;
    *zero = (byte)g.zero;
  }
  for (long long i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) y[i] = (byte)quantized(x[i], g);
}

// An LSTM with quantized weights: the products of the quantized operand with W are there for all steps, as integers. A block has all
// sequences of one direction, since the range of their states is one:
//
//   states ── range, quantized ──▶ bytes ── · R, dp4a ──▶ sums ── scaled, + gates of the step ── cells ──▶ states, Y
//
// R is [k, 4·units]. A thread has the products of a sequence with four neighbouring columns: it loads four rows of them, a word each, turns
// them so that a word has four elements of a column, and multiplies.

const int STATES = 1024; // at most: units of all sequences

struct Quantized {
  int perColumnW, perColumnR; // scales and zero points are those of columns, else of a direction
  int flip;                   // 0x80 for weights of uint8: they are taken as int8
};

static __device__ __forceinline__ int dot4(word a, word b, int sum) {
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}

// fours are the products of a row of bytes with four columns, and the sums of the bytes and of the columns.
struct Fours { int product[4], column[4], row; };

static __device__ __forceinline__ Fours multiplied(const word *bytes, const word *__restrict__ r, int n, word flip) {
  Fours s = {};
  for (int k = 0; k < n; k += 4) {
    word rows[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) rows[i] = k + i < n ? r[(long long)(k + i) * n] ^ flip : 0;
    const word a = __byte_perm(rows[0], rows[1], 0x5140), b = __byte_perm(rows[2], rows[3], 0x5140);
    const word c = __byte_perm(rows[0], rows[1], 0x7362), d = __byte_perm(rows[2], rows[3], 0x7362);
    const word columns[4] = {__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632), __byte_perm(c, d, 0x5410), __byte_perm(c, d, 0x7632)};
    const word x = bytes[k / 4];
    s.row = dot4(x, 0x01010101, s.row);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      s.product[i] = dot4(x, columns[i], s.product[i]);
      s.column[i] = dot4(0x01010101, columns[i], s.column[i]);
    }
  }
  return s;
}

extern "C" __global__ void __launch_bounds__(THREADS) quantized_lstm(const int *__restrict__ gates, const float *__restrict__ xScale, const float *__restrict__ wScale, const word *__restrict__ r, const float *__restrict__ rScale, const byte *__restrict__ rZero, const float *__restrict__ bias, const int *__restrict__ lengths, const float *__restrict__ initialH, const float *__restrict__ initialC, const float *__restrict__ peepholes, float *y, float *lastH, float *lastC, Recurrent p, Quantized q) {
  __shared__ float states[STATES], cells[STATES];
  __shared__ int sums[4 * STATES];
  __shared__ word bytes[STATES]; // each sequence begins with a word
  const int d = blockIdx.x, n = p.hidden, all = p.batch * n, words = (n + 3) / 4, width = 4 * n;
  const Activation f[3] = {p.activations[d ? 3 : 0], p.activations[d ? 4 : 1], p.activations[d ? 5 : 2]};
  gates += (long long)d * p.steps * p.batch * width;
  r += (long long)d * n * n;
  rZero += q.perColumnR ? d * width : d;
  rScale += q.perColumnR ? d * width : d;
  wScale += q.perColumnW ? d * width : d;
  if (bias) bias += (long long)d * 2 * width;
  if (peepholes) peepholes += (long long)d * 3 * n;
  const long long state = (long long)d * all;
  for (int i = threadIdx.x; i < all; i += THREADS) {
    states[i] = initialH ? initialH[state + i] : 0.0f;
    cells[i] = initialC ? initialC[state + i] : 0.0f;
  }
  for (int s = 0; s < p.steps; s++) {
    Range range = {0.0f, 0.0f};
    for (int i = threadIdx.x; i < all; i += THREADS) range = wider(range, states[i], states[i]);
    const Grid g = gridOf(joined(range)); // behind barriers
    for (int i = threadIdx.x; i < p.batch * words; i += THREADS) {
      const int first = i / words * n, k = i % words * 4;
      word four = 0;
      #pragma unroll
      for (int e = 0; e < 4; e++)
        if (k + e < n) four |= (word)(quantized(states[first + k + e], g) ^ 0x80) << 8 * e;
      bytes[i] = four;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < all; i += THREADS) {
      const Fours m = multiplied(bytes + i / n * words, r + i % n, n, q.flip * 0x01010101u);
      #pragma unroll
      for (int c = 0; c < 4; c++) {
        const int za = g.zero - 128, zb = (signed char)(rZero[q.perColumnR ? i % n * 4 + c : 0] ^ q.flip);
        sums[4 * i + c] = m.product[c] - za * m.column[c] - zb * m.row + n * za * zb;
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < all; i += THREADS) {
      const int b = i / n, j = i % n, length = lengths ? lengths[b] : p.steps;
      const int t = s < length && (p.reversed >> d & 1) ? length - 1 - s : s;
      float h = 0.0f;
      if (s < length) {
        const int *const x = gates + ((long long)t * p.batch + b) * width, *const sum = sums + b * width;
        const auto pre = [&](int k) {
          const int at = k * n + j;
          const float w = wScale[q.perColumnW ? at : 0], u = rScale[q.perColumnR ? at : 0];
          return (bias ? bias[at] + bias[width + at] : 0.0f) + (float)x[at] * (*xScale * w) + (float)sum[at] * (g.scale * u);
        };
        h = states[i] = lstm(p, f, pre, cells + i, peepholes ? peepholes + j : 0, n);
      }
      if (y) y[(((long long)t * p.dirs + d) * p.batch + b) * n + j] = h; // 0 behind the end of a sequence
    }
  }
  for (int i = threadIdx.x; i < all; i += THREADS) {
    const bool isEmpty = lengths && lengths[i / n] == 0;
    if (lastH) lastH[state + i] = isEmpty ? 0.0f : states[i];
    if (lastC) lastC[state + i] = isEmpty ? 0.0f : cells[i];
  }
}
