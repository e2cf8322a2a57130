// Cells of recurrent layers: what a layer is, the functions of its gates, and the step of an LSTM's unit.

const int THREADS = 256, WARPS = THREADS / 32;

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

// lstm computes a step of a unit: its new state, and its cell. Pre gives gate g before its activation, without peepholes, when it is wanted, so
// that few values wait in registers. Peepholes, if there are any, are those of the unit, n apart.
template <class T, class Pre> static __device__ __forceinline__ float lstm(const Recurrent &p, const Activation *f, Pre pre, float *cell, const T *peepholes, int n) {
  float c = *cell, v = pre(0);
  if (peepholes) v += load(peepholes) * c; // without them an infinite cell reaches no gate
  const float in = activate(f[0], p.clip, v);
  float keep = 1.0f - in;
  if (!p.coupled) {
    v = pre(2);
    if (peepholes) v += load(peepholes + 2 * n) * c;
    keep = activate(f[0], p.clip, v);
  }
  c = keep * c + in * activate(f[1], p.clip, pre(3));
  *cell = c;
  v = pre(1);
  if (peepholes) v += load(peepholes + n) * c;
  const float out = activate(f[0], p.clip, v);
  return out * activate(f[2], 0.0f, c); // the cell is not limited
}
