// Recurrent layers: LSTM, GRU, RNN. The products of the operand with W are there for all steps. A block of 256 threads has one sequence
// of one direction and goes through all of its steps: the state lies in shared memory, so a layer is one launch, and no state is copied.
// A warp has a unit: its lanes share the scalar products of the state with the unit's rows of R, and the first computes the cell.
//
//   step:  state ── · rows of R ──▶ + gates of the step ── cell ──▶ the other state, Y       two states take turns

#include "element.h"
#include "cells.h"

const int UNITS = 2048; // at most: of states of 4·UNITS floats

// dot is a scalar product over the lanes of a warp.
static __device__ float dot(const Element *__restrict__ row, const float *v, int n) {
  float sum = 0.0f;
  for (int i = threadIdx.x & 31; i < n; i += 32) sum += load(row + i) * v[i];
  #pragma unroll
  for (int s = 16; s > 0; s >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  return sum;
}

ENTRY(recurrent, THREADS, 3)(const float *__restrict__ gates, const Element *__restrict__ r, const Element *__restrict__ bias, const int *__restrict__ lengths, const Element *__restrict__ initialH, const Element *__restrict__ initialC, const Element *__restrict__ peepholes, Element *y, Element *lastH, Element *lastC, Recurrent p) {
  __shared__ float states[2][UNITS], cells[UNITS], reset[UNITS]; // GRU: cells is the update gate
  const int b = blockIdx.x, d = blockIdx.y, n = p.hidden, warp = threadIdx.x >> 5;
  const bool isFirst = (threadIdx.x & 31) == 0;
  const int count = p.cell == LSTM ? 4 : p.cell == GRU ? 3 : 1, width = count * n;
  const int length = lengths ? lengths[b] : p.steps;
  const Activation f[3] = {p.activations[d ? 3 : 0], p.activations[d ? 4 : 1], p.activations[d ? 5 : 2]};
  const long long state = (long long)(p.batchFirst ? b * p.dirs + d : d * p.batch + b) * n;
  gates += (long long)d * p.steps * p.batch * width;
  r += (long long)d * width * n;
  if (bias) bias += (long long)d * 2 * width;
  if (peepholes) peepholes += (long long)d * 3 * n;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    states[0][i] = initialH ? load(initialH + state + i) : 0.0f;
    cells[i] = initialC ? load(initialC + state + i) : 0.0f;
  }
  __syncthreads();
  int now = 0;
  for (int s = 0; s < p.steps; s++) {
    const int t = s < length && (p.reversed >> d & 1) ? length - 1 - s : s;
    Element *const out = y ? y + (p.batchFirst ? ((long long)b * p.steps + t) * p.dirs + d : ((long long)t * p.dirs + d) * p.batch + b) * n : 0;
    if (s >= length) { // nothing lies behind the end of a sequence
      if (out)
        for (int i = threadIdx.x; i < n; i += THREADS) store(out + i, 0.0f);
      continue;
    }
    const float *const x = gates + (p.batchFirst ? (long long)b * p.steps + t : (long long)t * p.batch + b) * width;
    const float *const h = states[now];
    float *const next = states[1 - now];
    // pre is gate g of unit j before its activation
    #define PRE(g, product) (x[(g) * n + j] + (product) + (bias ? load(bias + (g) * n + j) + load(bias + width + (g) * n + j) : 0.0f))
    if (p.cell == RNN) {
      for (int j = warp; j < n; j += WARPS) {
        const float v = dot(r + (long long)j * n, h, n);
        if (isFirst) next[j] = activate(f[0], p.clip, PRE(0, v));
      }
    } else if (p.cell == LSTM) {
      for (int j = warp; j < n; j += WARPS) {
        const float vi = dot(r + (long long)j * n, h, n), vo = dot(r + (long long)(n + j) * n, h, n);
        const float vf = dot(r + (long long)(2 * n + j) * n, h, n), vc = dot(r + (long long)(3 * n + j) * n, h, n);
        if (!isFirst) continue;
        const auto pre = [&](int g) { return PRE(g, g == 0 ? vi : g == 1 ? vo : g == 2 ? vf : vc); };
        next[j] = lstm(p, f, pre, cells + j, peepholes ? peepholes + j : 0, n);
      }
    } else {
      for (int j = warp; j < n; j += WARPS) {
        const float vz = dot(r + (long long)j * n, h, n), vr = dot(r + (long long)(n + j) * n, h, n);
        if (!isFirst) continue;
        cells[j] = activate(f[0], p.clip, PRE(0, vz));
        const float gate = activate(f[0], p.clip, PRE(1, vr));
        reset[j] = p.linear ? gate : gate * h[j];
      }
      __syncthreads();
      for (int j = warp; j < n; j += WARPS) {
        float v = dot(r + (long long)(2 * n + j) * n, p.linear ? h : reset, n);
        if (!isFirst) continue;
        float own = x[2 * n + j];
        if (bias) own += load(bias + 2 * n + j);
        if (bias) v += load(bias + width + 2 * n + j);
        if (p.linear) v *= reset[j];
        const float z = cells[j], fresh = activate(f[1], p.clip, own + v);
        next[j] = (1.0f - z) * fresh + z * h[j];
      }
    }
    __syncthreads();
    now = 1 - now;
    if (out)
      for (int i = threadIdx.x; i < n; i += THREADS) store(out + i, states[now][i]);
  }
  for (int i = threadIdx.x; i < n; i += THREADS) {
    if (lastH) store(lastH + state + i, length > 0 ? states[now][i] : 0.0f);
    if (lastC) store(lastC + state + i, length > 0 ? cells[i] : 0.0f);
  }
}
