// Movement of elements of 1, 2, 4 and 8 bytes, whatever their type.

struct View {
  int rank;
  int start; // element of the operand where the view begins
  int dims[8];
  int strides[8]; // of the operand, in elements: 0 repeats, negative ones go backwards
};

// placeOf is the element of a view that is the i-th in order.
static __device__ __forceinline__ int placeOf(const View &v, int i) {
  int at = v.start;
  #pragma unroll
  for (int d = 7; d >= 0; d--) {
    if (d >= v.rank) continue;
    at += i % v.dims[d] * v.strides[d];
    i /= v.dims[d];
  }
  return at;
}

// view writes a strided view of the operand as a contiguous result: transpositions, slices, expansions.
template <class T> __device__ void copyView(const T *x, T *y, const View &v, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = x[placeOf(v, i)];
}

extern "C" __global__ void __launch_bounds__(256) view1(const unsigned char *__restrict__ x, unsigned char *y, View v, int n) { copyView(x, y, v, n); }
extern "C" __global__ void __launch_bounds__(256) view2(const unsigned short *__restrict__ x, unsigned short *y, View v, int n) { copyView(x, y, v, n); }
extern "C" __global__ void __launch_bounds__(256) view4(const unsigned *__restrict__ x, unsigned *y, View v, int n) { copyView(x, y, v, n); }
extern "C" __global__ void __launch_bounds__(256) view8(const unsigned long long *__restrict__ x, unsigned long long *y, View v, int n) { copyView(x, y, v, n); }

// place writes a contiguous operand as a part of the result: what concatenations and paddings are made of.
template <class T> __device__ void placeElements(const T *x, T *y, const View &v, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[placeOf(v, i)] = x[i];
}

extern "C" __global__ void __launch_bounds__(256) place1(const unsigned char *__restrict__ x, unsigned char *y, View v, int n) { placeElements(x, y, v, n); }
extern "C" __global__ void __launch_bounds__(256) place2(const unsigned short *__restrict__ x, unsigned short *y, View v, int n) { placeElements(x, y, v, n); }
extern "C" __global__ void __launch_bounds__(256) place4(const unsigned *__restrict__ x, unsigned *y, View v, int n) { placeElements(x, y, v, n); }
extern "C" __global__ void __launch_bounds__(256) place8(const unsigned long long *__restrict__ x, unsigned long long *y, View v, int n) { placeElements(x, y, v, n); }

// take writes elements by a table of their places; -1 stands for the element fill.
template <class T> __device__ void takeElements(const T *x, const int *table, T *y, unsigned long long fill, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int k = table[i];
  y[i] = k < 0 ? (T)fill : x[k];
}

extern "C" __global__ void __launch_bounds__(256) take1(const unsigned char *__restrict__ x, const int *__restrict__ table, unsigned char *y, unsigned long long fill, int n) { takeElements(x, table, y, fill, n); }
extern "C" __global__ void __launch_bounds__(256) take2(const unsigned short *__restrict__ x, const int *__restrict__ table, unsigned short *y, unsigned long long fill, int n) { takeElements(x, table, y, fill, n); }
extern "C" __global__ void __launch_bounds__(256) take4(const unsigned *__restrict__ x, const int *__restrict__ table, unsigned *y, unsigned long long fill, int n) { takeElements(x, table, y, fill, n); }
extern "C" __global__ void __launch_bounds__(256) take8(const unsigned long long *__restrict__ x, const int *__restrict__ table, unsigned long long *y, unsigned long long fill, int n) { takeElements(x, table, y, fill, n); }

// look writes what a table says for each element of one or two bytes, by its bits.
template <class X, class Y> __device__ void lookElements(const X *x, const Y *table, Y *y, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = table[x[i]];
}

#define LOOK(from, to, X, Y) \
  extern "C" __global__ void __launch_bounds__(256) look##from##to(const X *__restrict__ x, const Y *__restrict__ table, Y *y, int n) { lookElements(x, table, y, n); }

LOOK(1, 1, unsigned char, unsigned char) LOOK(1, 2, unsigned char, unsigned short) LOOK(1, 4, unsigned char, unsigned) LOOK(1, 8, unsigned char, unsigned long long)
LOOK(2, 1, unsigned short, unsigned char) LOOK(2, 2, unsigned short, unsigned short) LOOK(2, 4, unsigned short, unsigned) LOOK(2, 8, unsigned short, unsigned long long)

// transpose4 exchanges the axes of rows×columns matrices of 4-byte elements by tiles of 32×32, so that loads and stores both go along
// rows; a tile's rows are 33 long, or all lanes of a store would meet in one bank.
extern "C" __global__ void __launch_bounds__(256) transpose4(const unsigned *__restrict__ x, unsigned *y, int rows, int columns) {
  __shared__ unsigned tile[32][33];
  const int across = (columns + 31) / 32, down = (rows + 31) / 32, row = blockIdx.x / across, r0 = row % down * 32, c0 = blockIdx.x % across * 32;
  const long long matrix = (long long)(row / down) * rows * columns;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int i = warp; i < 32; i += 8)
    if (r0 + i < rows && c0 + lane < columns) tile[i][lane] = x[matrix + (long long)(r0 + i) * columns + c0 + lane];
  __syncthreads();
  for (int i = warp; i < 32; i += 8)
    if (c0 + i < columns && r0 + lane < rows) y[matrix + (long long)(c0 + i) * rows + r0 + lane] = tile[lane][i];
}

// Status is what a session is told of its first index that lies outside of an axis: the number of the launch, 0 for none, and the index.
// A trap would end the process's context.
struct Status {
  unsigned launch, unused;
  long long index;
};

// gather copies slices of inner elements: y[o, j, i] = x[o, index[j], i], with indices of 64 or 32 bits. A negative index counts from
// the end; for one outside, which is noted, the first slice is copied.
template <class T> __device__ void gatherSlices(const T *x, const void *index, int isWide, T *y, Status *status, int axis, int count, int inner, int n, unsigned launch) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int in = i % inner, j = i / inner % count, o = i / inner / count;
  const long long given = isWide ? ((const long long *)index)[j] : ((const int *)index)[j];
  long long k = given < 0 ? given + axis : given;
  if (k < 0 || k >= axis) {
    if (atomicCAS(&status->launch, 0u, launch) == 0u) status->index = given;
    k = 0;
  }
  y[i] = x[((long long)o * axis + k) * inner + in];
}

extern "C" __global__ void __launch_bounds__(256) gather1(const unsigned char *__restrict__ x, const void *__restrict__ index, unsigned char *y, Status *status, int isWide, int axis, int count, int inner, int n, unsigned launch) { gatherSlices(x, index, isWide, y, status, axis, count, inner, n, launch); }
extern "C" __global__ void __launch_bounds__(256) gather2(const unsigned short *__restrict__ x, const void *__restrict__ index, unsigned short *y, Status *status, int isWide, int axis, int count, int inner, int n, unsigned launch) { gatherSlices(x, index, isWide, y, status, axis, count, inner, n, launch); }
extern "C" __global__ void __launch_bounds__(256) gather4(const unsigned *__restrict__ x, const void *__restrict__ index, unsigned *y, Status *status, int isWide, int axis, int count, int inner, int n, unsigned launch) { gatherSlices(x, index, isWide, y, status, axis, count, inner, n, launch); }
extern "C" __global__ void __launch_bounds__(256) gather8(const unsigned long long *__restrict__ x, const void *__restrict__ index, unsigned long long *y, Status *status, int isWide, int axis, int count, int inner, int n, unsigned launch) { gatherSlices(x, index, isWide, y, status, axis, count, inner, n, launch); }
