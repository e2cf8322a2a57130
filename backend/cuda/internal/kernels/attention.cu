// Attention: softmax(cap(scale·q·kᵀ) + mask)·v. A block of 128 threads has one query of one head; its scores lie in workspace, whose row
// is as long as there are keys. Heads of keys and values serve as many heads of queries each.

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

extern "C" __global__ void __launch_bounds__(THREADS) attention(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v, const void *__restrict__ mask, const long long *__restrict__ valid, float *y, float *kept, float *scores, Attention p) {
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
    for (int d = 0; d < p.size; d++) s += q[d] * k[(long long)j * p.k.row + d];
    s *= p.scale;
    if (p.stage == 0) kept[row + j] = s;
    if (p.cap != 0.0f) s = p.cap * tanhf(s / p.cap);
    if (p.stage == 1) kept[row + j] = s;
    float bias = j < first || j > last ? none : 0.0f;
    if (p.hasMask) {
      const long long at = (long long)b * p.maskBatch + (long long)h * p.maskHead + (long long)i * p.maskRow + (long long)j * p.maskColumn;
      bias += p.isBool ? (((const unsigned char *)mask)[at] ? 0.0f : none) : ((const float *)mask)[at];
    }
    s = bias == none ? none : s + bias;
    if (p.stage == 2) kept[row + j] = s;
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
    for (int j = threadIdx.x; j < p.keys; j += THREADS) kept[row + j] = scores[j] * factor;
  for (int d = threadIdx.x; d < p.valueSize; d += THREADS) {
    float out = 0.0f;
    for (int j = 0; j < p.keys; j++) out += scores[j] * v[(long long)j * p.v.row + d];
    y[d] = out * factor;
  }
}
