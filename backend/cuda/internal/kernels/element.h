// The floats that tensors hold: float32, or in a file that defines HALF before it includes a kernel's source, 16 bits: FLOAT16 or BFLOAT16.
// Arithmetic and sums are those of float32 in each; load widens, store rounds to nearest, ties to even.

#ifdef HALF
typedef unsigned short Element;
#else
typedef float Element;
#define KERNEL(name) name
#endif

#ifdef FLOAT16
#define KERNEL(name) name##_f16
static __device__ __forceinline__ float load(const Element *p) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(*p));
  return v;
}
static __device__ __forceinline__ void store(Element *p, float v) {
  Element bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  *p = bits;
}
#endif

#ifdef BFLOAT16
#define KERNEL(name) name##_bf16
static __device__ __forceinline__ float load(const Element *p) { return __uint_as_float((unsigned)*p << 16); }
static __device__ __forceinline__ void store(Element *p, float v) { // sm_70 has no instruction for it
  const unsigned bits = __float_as_uint(v);
  *p = v != v ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
#endif

template <class T> static __device__ __forceinline__ T load(const T *p) { return *p; }
template <class T> static __device__ __forceinline__ void store(T *p, T v) { *p = v; }

// ENTRY begins a kernel, with the threads of a block and, as far as wanted, the blocks that a multiprocessor shall hold.
#define ENTRY(name, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) KERNEL(name)
