// The functions of one or two float32s that emitted kernels call, by the formulas of the operators. None is inlined, so each has a
// body of its own in the PTX; the kernel at the end only keeps them there.

#define ONE(name, formula) extern "C" __device__ __noinline__ float name(float x) { return formula; }
#define TWO(name, formula) extern "C" __device__ __noinline__ float name(float x, float a) { return formula; }
#define THREE(name, formula) extern "C" __device__ __noinline__ float name(float x, float a, float b) { return formula; }

// fmaxf and fminf lose not-a-number, these keep it.
static __device__ __forceinline__ float atLeast(float x, float low) { return x < low ? low : x; }
static __device__ __forceinline__ float atMost(float x, float high) { return x > high ? high : x; }
static __device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static __device__ __forceinline__ float softplus(float x) { return atLeast(x, 0.0f) + log1pf(expf(-fabsf(x))); }
static __device__ __forceinline__ float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

ONE(Exp, expf(x)) ONE(Log, logf(x)) ONE(Tanh, tanhf(x)) ONE(Sigmoid, sigmoid(x)) ONE(Erf, erff(x))
ONE(HardSwish, x * clamp(x / 6.0f + 0.5f, 0.0f, 1.0f)) ONE(Softplus, softplus(x)) ONE(Softsign, x / (1.0f + fabsf(x)))
ONE(Mish, x * tanhf(softplus(x))) ONE(Sin, sinf(x)) ONE(Cos, cosf(x)) ONE(Tan, tanf(x)) ONE(Asin, asinf(x)) ONE(Acos, acosf(x))
ONE(Atan, atanf(x)) ONE(Sinh, sinhf(x)) ONE(Cosh, coshf(x)) ONE(Asinh, asinhf(x)) ONE(Acosh, acoshf(x)) ONE(Atanh, atanhf(x))
ONE(Gelu, 0.5f * x * erfcf(-x * 0.70710678118654752f))
ONE(GeluTanh, 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x))))
TWO(LeakyRelu, x < 0 ? a * x : x) TWO(Elu, x < 0 ? a * expm1f(x) : x) TWO(Swish, x * sigmoid(a * x))
TWO(Celu, atLeast(x, 0.0f) + atMost(a * expm1f(x / a), 0.0f)) TWO(ThresholdedRelu, x > a ? x : 0.0f)
THREE(HardSigmoid, clamp(a * x + b, 0.0f, 1.0f)) THREE(Selu, x > 0 ? b * x : b * a * expm1f(x))
THREE(Shrink, x < -a ? x + b : x > a ? x - b : 0.0f)
TWO(PRelu, x < 0 ? x * a : x) TWO(Pow, powf(x, a)) TWO(Fmod, fmodf(x, a))

extern "C" __global__ void keep(const float *x, float *y) {
  const float v = x[0], a = x[1], b = x[2];
  int i = 0;
#define KEEP1(f) y[i++] = f(v);
#define KEEP2(f) y[i++] = f(v, a);
#define KEEP3(f) y[i++] = f(v, a, b);
  KEEP1(Exp) KEEP1(Log) KEEP1(Tanh) KEEP1(Sigmoid) KEEP1(Erf) KEEP1(HardSwish) KEEP1(Softplus) KEEP1(Softsign) KEEP1(Mish) KEEP1(Sin)
  KEEP1(Cos) KEEP1(Tan) KEEP1(Asin) KEEP1(Acos) KEEP1(Atan) KEEP1(Sinh) KEEP1(Cosh) KEEP1(Asinh) KEEP1(Acosh) KEEP1(Atanh)
  KEEP1(Gelu) KEEP1(GeluTanh)
  KEEP2(LeakyRelu) KEEP2(Elu) KEEP2(Swish) KEEP2(Celu) KEEP2(ThresholdedRelu) KEEP3(HardSigmoid) KEEP3(Selu) KEEP3(Shrink)
  KEEP2(PRelu) KEEP2(Pow) KEEP2(Fmod)
}
