// Attention: softmax(cap(scale·q·kᵀ) + mask)·v. A block of 128 threads has one query of one head; its scores lie in workspace, whose row
// is as long as there are keys. Heads of keys and values serve as many heads of queries each.

#include "element.h"

const int THREADS = 128, WARPS = THREADS / 32;

struct Strides { int batch, head, row; }; // of elements; those of a row are contiguous

struct Attention {
  int heads, kvHeads, queries, keys, size, valueSize;
  Strides q, k, v, y;
  int maskBatch, maskHead, maskRow, maskColumn; // strides; 0 where the mask is broadcast
  int hasMask, isBool;
  int past, isCausal, left, right; // windows of keys around a query; -1: none
  int stage;                       // of the scores that are kept: 0 scaled, 1 capped, 2 masked, 3 normalized; -1: none
  float scale, cap;
};

template <bool isMax> __device__ float joined(float v) {
  __shared__ float part[WARPS];
  #pragma unroll
  for (int s = 16; s > 0; s >>= 1) {
    const float o = __shfl_xor_sync(0xffffffffu, v, s);
    v = isMax ? (v > o || v != v ? v : o) : v + o;
  }
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = part[0];
  #pragma unroll
  for (int i = 1; i < WARPS; i++) v = isMax ? (v > part[i] || v != v ? v : part[i]) : v + part[i];
  __syncthreads(); // part may be used again
  return v;
}

ENTRY(attention, THREADS)(const Element *__restrict__ q, const Element *__restrict__ k, const Element *__restrict__ v, const void *__restrict__ mask, const long long *__restrict__ valid, Element *y, Element *kept, float *scores, Attention p) {
  const int i = blockIdx.x, h = blockIdx.y, b = blockIdx.z, g = h / (p.heads / p.kvHeads);
  const long long row = ((long long)(b * p.heads + h) * p.queries + i) * p.keys;
  q += (long long)b * p.q.batch + (long long)h * p.q.head + (long long)i * p.q.row;
  k += (long long)b * p.k.batch + (long long)g * p.k.head;
  v += (long long)b * p.v.batch + (long long)g * p.v.head;
  y += (long long)b * p.y.batch + (long long)h * p.y.head + (long long)i * p.y.row;
  scores += row;
  int offset = p.past, last = p.keys - 1, first = 0;
  if (valid) {
    offset = (int)valid[b] - p.queries;
    last = min(last, (int)valid[b] - 1);
  }
  if (p.isCausal) last = min(last, i + offset);
  if (p.left >= 0) first = i + offset - p.left;
  if (p.right >= 0) last = min(last, i + offset + p.right);
  const float none = -__int_as_float(0x7f800000);
  float most = none;
  for (int j = threadIdx.x; j < p.keys; j += THREADS) {
    float s = 0.0f;
    for (int d = 0; d < p.size; d++) s += load(q + d) * load(k + (long long)j * p.k.row + d);
    s *= p.scale;
    if (p.stage == 0) store(kept + row + j, s);
    if (p.cap != 0.0f) s = p.cap * tanhf(s / p.cap);
    if (p.stage == 1) store(kept + row + j, s);
    bool isHidden = j < first || j > last;
    if (p.hasMask) {
      const long long at = (long long)b * p.maskBatch + (long long)h * p.maskHead + (long long)i * p.maskRow + (long long)j * p.maskColumn;
      if (p.isBool) isHidden |= !((const unsigned char *)mask)[at];
      else s += load((const Element *)mask + at);
    }
    if (isHidden) s = none;
    if (p.stage == 2) store(kept + row + j, s);
    scores[j] = s;
    most = s > most || s != s ? s : most;
  }
  most = joined<true>(most);
  float sum = 0.0f;
  for (int j = threadIdx.x; j < p.keys; j += THREADS) {
    const float e = most == none ? 0.0f : expf(scores[j] - most);
    scores[j] = e;
    sum += e;
  }
  sum = joined<false>(sum); // a barrier, behind which all scores are there
  const float factor = most == none ? 0.0f : 1.0f / sum;
  if (p.stage == 3)
    for (int j = threadIdx.x; j < p.keys; j += THREADS) store(kept + row + j, scores[j] * factor);
  for (int d = threadIdx.x; d < p.valueSize; d += THREADS) {
    float out = 0.0f;
    #pragma unroll 1 // two and more spill registers on sm_80
    for (int j = 0; j < p.keys; j++)
      if (scores[j] != 0.0f) out += scores[j] * load(v + (long long)j * p.v.row + d); // one of weight 0 may be infinite
    store(y + d, out * factor);
  }
}

#ifndef HALF

// Attention over operands wherever they lie, with the softmax as the keys stream by: no score goes to memory. A block has four queries,
// a warp each, and goes through the keys in tiles of 32, a lane each:
//
//	scores = q·kᵀ, scaled and masked          a tile of keys, 32 of their elements at a time in shared memory
//	most, sum, out = of the scores so far     rescaled by e^(most before - most now) where a tile has a larger score
//	out += e^(scores - most)·v                a tile of values, 32 columns at a time
//
// It computes what the formula says for all numbers: scores that are all -Inf give NaN, unless those weights become 0.

const int QUERIES = 4, COLUMNS = 256; // at most, of keys and values

struct Lies { int at, batch[4], row, column; };
struct MaskStep { int kind; float number; Lies lies; }; // kinds: 0 added, 1 number where false, 2 number where true
struct Attend {
  int batch[4], queries, keys, size, valueSize;
  float scale;
  int nanToZero, masks;
  Lies q, k, v, y;
  MaskStep steps[4];
};

__device__ int placed(const Lies &l, const int *sizes, int batch) {
  int at = l.at;
  #pragma unroll
  for (int i = 3; i >= 0; i--) {
    at += batch % sizes[i] * l.batch[i];
    batch /= sizes[i];
  }
  return at;
}

// loaded brings 32 rows and columns of a matrix into shared memory, zeros beyond its ends, with lanes along its contiguous axis.
__device__ void loaded(float (*tile)[33], const float *x, const Lies &l, int at, int row, int rows, int column, int columns) {
  const int lane = threadIdx.x & 31;
  const bool isTurned = l.row == 1 && l.column != 1;
  __syncthreads(); // all have read the last tile
  for (int i = threadIdx.x >> 5; i < 32; i += QUERIES) {
    const int r = isTurned ? lane : i, c = isTurned ? i : lane;
    tile[r][c] = row + r < rows && column + c < columns ? x[at + (row + r) * l.row + (column + c) * l.column] : 0.0f;
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) attend(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v, const void *__restrict__ m0, const void *__restrict__ m1, const void *__restrict__ m2, const void *__restrict__ m3, float *y, Attend p) {
  __shared__ float query[QUERIES][COLUMNS], out[QUERIES][COLUMNS], weight[QUERIES][32], tile[32][33];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int blocks = (p.queries + QUERIES - 1) / QUERIES, b = blockIdx.x / blocks, i = blockIdx.x % blocks * QUERIES + warp;
  const int kAt = placed(p.k, p.batch, b), vAt = placed(p.v, p.batch, b), qAt = placed(p.q, p.batch, b);
  const bool isQuery = i < p.queries;
  for (int d = lane; d < COLUMNS; d += 32) {
    query[warp][d] = isQuery && d < p.size ? q[qAt + i * p.q.row + d * p.q.column] : 0.0f;
    out[warp][d] = 0.0f;
  }
  const float none = -__int_as_float(0x7f800000);
  float most = none, sum = 0.0f;
  for (int first = 0; first < p.keys; first += 32) {
    const int j = first + lane;
    float score = 0.0f;
    for (int d = 0; d < p.size; d += 32) {
      loaded(tile, k, p.k, kAt, first, p.keys, d, p.size);
      #pragma unroll
      for (int c = 0; c < 32; c++) score += query[warp][d + c] * tile[lane][c];
    }
    score *= p.scale;
    if (isQuery && j < p.keys)
      for (int s = 0; s < p.masks; s++) {
        const MaskStep &step = p.steps[s];
        const void *mask = s == 0 ? m0 : s == 1 ? m1 : s == 2 ? m2 : m3;
        const int at = placed(step.lies, p.batch, b) + i * step.lies.row + j * step.lies.column;
        if (step.kind == 0) score += ((const float *)mask)[at];
        else if ((((const unsigned char *)mask)[at] != 0) == (step.kind == 2)) score = step.number;
      }
    if (j >= p.keys) score = none;
    float next = score;
    #pragma unroll
    for (int s = 16; s > 0; s >>= 1) next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, s));
    next = fmaxf(next, most);
    const float keep = next == none ? 1.0f : expf(most - next), w = score == none ? 0.0f : expf(score - next);
    float more = w;
    #pragma unroll
    for (int s = 16; s > 0; s >>= 1) more += __shfl_xor_sync(0xffffffffu, more, s);
    sum = sum * keep + more;
    most = next;
    weight[warp][lane] = w; // read behind the barriers of loaded
    for (int e = 0; e < p.valueSize; e += 32) {
      loaded(tile, v, p.v, vAt, first, p.keys, e, p.valueSize);
      float add = 0.0f;
      #pragma unroll
      for (int c = 0; c < 32; c++) add += weight[warp][c] * tile[c][lane];
      out[warp][e + lane] = out[warp][e + lane] * keep + add;
    }
  }
  if (!isQuery) return;
  const int yAt = placed(p.y, p.batch, b) + i * p.y.row;
  const bool isZero = p.nanToZero && !(sum > 0.0f);
  for (int c = lane; c < p.valueSize; c += 32) {
    float result = out[warp][c] / sum;
    if (isZero) {
      result = 0.0f;
      for (int j = 0; j < p.keys; j++) result += 0.0f * v[vAt + j * p.v.row + c * p.v.column]; // NaN where a value is infinite
    }
    y[yAt + c * p.y.column] = result;
  }
}

#endif
