// Recurrent layers: LSTM, GRU, RNN. The products of the operand with W are there for all steps. A block of 256 threads has one sequence
// of one direction and goes through all of its steps: the state lies in shared memory, so a layer is one launch, and no state is copied.
// A warp has a unit: its lanes share the scalar products of the state with the unit's rows of R, and the first computes the cell.
//
//   step:  state ── · rows of R ──▶ + gates of the step ── cell ──▶ the other state, Y       two states take turns

const int THREADS = 256, WARPS = THREADS / 32;
const int UNITS = 2048; // at most: of states of 4·UNITS floats

enum Cell { RNN, GRU, LSTM };

struct Activation {
  int kind;
  float alpha, beta;
};

struct Recurrent {
  int cell, steps, batch, hidden, dirs;
  int batchFirst;  // X, Y and the states begin with the batch
  int reversed;    // bit d: direction d goes backwards
  int linear;      // GRU: the reset gate is applied after the product
  int coupled;     // LSTM: the forget gate is one less the input gate
  Activation activations[6]; // three of each direction
  float clip;      // arguments of activations are limited to it; 0: not
};

static __device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

static __device__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

// activation computes one by its number, which is that of the list in recurrent.go. It is a function, not code at each of its calls.
static __device__ __noinline__ float activation(int kind, float a, float b, float clip, float x) {
  if (clip > 0.0f && x > clip) x = clip;
  if (clip > 0.0f && x < -clip) x = -clip;
  switch (kind) {
  case 0: return x > 0.0f || x != x ? x : 0.0f;
  case 1: return tanhf(x);
  case 2: return sigmoid(x);
  case 3: return x / (1.0f + fabsf(x));
  case 4: return x != x ? x : softplus(x);
  case 5: return a * x + b;
  case 6: return a * tanhf(b * x);
  case 7: {
    const float v = a * x + b;
    return v < 0.0f ? 0.0f : v > 1.0f ? 1.0f : v;
  }
  case 8: return x < 0.0f ? a * x : x;
  case 9: return x < a ? 0.0f : x;
  default: return x < 0.0f ? a * expm1f(x) : x;
  }
}

static __device__ __forceinline__ float activate(const Activation &f, float clip, float x) { return activation(f.kind, f.alpha, f.beta, clip, x); }

// dot is a scalar product over the lanes of a warp.
static __device__ float dot(const float *__restrict__ row, const float *v, int n) {
  float sum = 0.0f;
  for (int i = threadIdx.x & 31; i < n; i += 32) sum += row[i] * v[i];
  #pragma unroll
  for (int s = 16; s > 0; s >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) recurrent(const float *__restrict__ gates, const float *__restrict__ r, const float *__restrict__ bias, const int *__restrict__ lengths, const float *__restrict__ initialH, const float *__restrict__ initialC, const float *__restrict__ peepholes, float *y, float *lastH, float *lastC, Recurrent p) {
  __shared__ float states[2][UNITS], cells[UNITS], reset[UNITS]; // GRU: cells is the update gate
  const int b = blockIdx.x, d = blockIdx.y, n = p.hidden, warp = threadIdx.x >> 5;
  const bool isFirst = (threadIdx.x & 31) == 0;
  const int count = p.cell == LSTM ? 4 : p.cell == GRU ? 3 : 1, width = count * n;
  const int length = lengths ? lengths[b] : p.steps;
  const Activation f0 = p.activations[d ? 3 : 0], f1 = p.activations[d ? 4 : 1], f2 = p.activations[d ? 5 : 2];
  const long long state = (long long)(p.batchFirst ? b * p.dirs + d : d * p.batch + b) * n;
  gates += (long long)d * p.steps * p.batch * width;
  r += (long long)d * width * n;
  if (bias) bias += (long long)d * 2 * width;
  if (peepholes) peepholes += (long long)d * 3 * n;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    states[0][i] = initialH ? initialH[state + i] : 0.0f;
    cells[i] = initialC ? initialC[state + i] : 0.0f;
  }
  __syncthreads();
  int now = 0;
  for (int s = 0; s < p.steps; s++) {
    const int t = s < length && (p.reversed >> d & 1) ? length - 1 - s : s;
    float *const out = y ? y + (p.batchFirst ? ((long long)b * p.steps + t) * p.dirs + d : ((long long)t * p.dirs + d) * p.batch + b) * n : 0;
    if (s >= length) { // nothing lies behind the end of a sequence
      if (out)
        for (int i = threadIdx.x; i < n; i += THREADS) out[i] = 0.0f;
      continue;
    }
    const float *const x = gates + (p.batchFirst ? (long long)b * p.steps + t : (long long)t * p.batch + b) * width;
    const float *const h = states[now];
    float *const next = states[1 - now];
    // pre is gate g of unit j before its activation
    #define PRE(g, product) (x[(g) * n + j] + (product) + (bias ? bias[(g) * n + j] + bias[width + (g) * n + j] : 0.0f))
    if (p.cell == RNN) {
      for (int j = warp; j < n; j += WARPS) {
        const float v = dot(r + (long long)j * n, h, n);
        if (isFirst) next[j] = activate(f0, p.clip, PRE(0, v));
      }
    } else if (p.cell == LSTM) {
      for (int j = warp; j < n; j += WARPS) {
        const float vi = dot(r + (long long)j * n, h, n), vo = dot(r + (long long)(n + j) * n, h, n);
        const float vf = dot(r + (long long)(2 * n + j) * n, h, n), vc = dot(r + (long long)(3 * n + j) * n, h, n);
        if (!isFirst) continue;
        float c = cells[j], preI = PRE(0, vi), preF = PRE(2, vf), preO = PRE(1, vo);
        if (peepholes) preI += peepholes[j] * c;
        if (peepholes) preF += peepholes[2 * n + j] * c;
        const float in = activate(f0, p.clip, preI), forget = p.coupled ? 1.0f - in : activate(f0, p.clip, preF);
        c = forget * c + in * activate(f1, p.clip, PRE(3, vc));
        if (peepholes) preO += peepholes[n + j] * c;
        cells[j] = c;
        next[j] = activate(f0, p.clip, preO) * activate(f2, p.clip, c);
      }
    } else {
      for (int j = warp; j < n; j += WARPS) {
        const float vz = dot(r + (long long)j * n, h, n), vr = dot(r + (long long)(n + j) * n, h, n);
        if (!isFirst) continue;
        cells[j] = activate(f0, p.clip, PRE(0, vz));
        const float gate = activate(f0, p.clip, PRE(1, vr));
        reset[j] = p.linear ? gate : gate * h[j];
      }
      __syncthreads();
      for (int j = warp; j < n; j += WARPS) {
        float v = dot(r + (long long)(2 * n + j) * n, p.linear ? h : reset, n);
        if (!isFirst) continue;
        float own = x[2 * n + j];
        if (bias) own += bias[2 * n + j];
        if (bias) v += bias[width + 2 * n + j];
        if (p.linear) v *= reset[j];
        const float z = cells[j], fresh = activate(f1, p.clip, own + v);
        next[j] = (1.0f - z) * fresh + z * h[j];
      }
    }
    __syncthreads();
    now = 1 - now;
    if (out)
      for (int i = threadIdx.x; i < n; i += THREADS) out[i] = states[now][i];
  }
  for (int i = threadIdx.x; i < n; i += THREADS) {
    if (lastH) lastH[state + i] = length > 0 ? states[now][i] : 0.0f;
    if (lastC) lastC[state + i] = length > 0 ? cells[i] : 0.0f;
  }
}
