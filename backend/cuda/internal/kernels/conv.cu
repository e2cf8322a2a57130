// Convolutions of images of floats, NCHW, with groups, strides, dilations and padding: y = w*x + bias.
//
// The general kernel is a product of matrices whose second operand is never written out: w as [channels, k] with k = (channel, row,
// column) of the filter, times the patches of x as [k, pixels]. A block of 256 threads computes 64 channels of 64 pixels.
//
//          k                   pixels
//     ┌─────────┐         ┌───────────────┐
//   c │    w    │    ×  k │ patches of x  │   →  y, 4 channels of 4 pixels a thread
//     └─────────┘         └───────────────┘

#include "element.h"

struct Conv {
  int batch, groups, channels, outputs; // channels and outputs of one group
  int height, width, outHeight, outWidth;
  int filterHeight, filterWidth, strideY, strideX, padY, padX, dilationY, dilationX;
  int hasBias;
};

// Planes are the groups of all images. A grid has room for 65,535 of them along z; kernels that need no tile number threads through all planes.

const int TILE = 64, DEPTH = 16, PAD = 4;

// EPILOGUE marks where code for an element of the result and its number is put in, see package emit.
#define EPILOGUE(value, element) asm volatile("// epilogue %0 %1" : "+f"(value) : "r"(element))

ENTRY(conv, 256)(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ bias, Element *y, Conv p) {
  __shared__ __align__(16) float ws[DEPTH][TILE + PAD], xs[DEPTH][TILE + PAD];
  const int t = threadIdx.x, tx = t & 15, ty = t >> 4;
  const int c0 = blockIdx.y * TILE, q0 = blockIdx.x * TILE;
  const int group = blockIdx.z % p.groups, filter = p.filterHeight * p.filterWidth;
  const int k = p.channels * filter, pixels = p.outHeight * p.outWidth;
  x += (long long)blockIdx.z * p.channels * p.height * p.width;
  y += (long long)blockIdx.z * p.outputs * pixels;
  w += (long long)group * p.outputs * k;
  const int q = q0 + (t & 63); // the pixel whose patches this thread loads
  const int top = q / p.outWidth * p.strideY - p.padY, left = q % p.outWidth * p.strideX - p.padX;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += DEPTH) {
    #pragma unroll 2 // four are more registers, for addresses, than there are without spilling
    for (int i = 0; i < 4; i++) {
      const int e = t + 256 * i, kw = e & 15, c = e >> 4;
      ws[kw][c] = c0 + c < p.outputs && k0 + kw < k ? load(w + ((long long)(c0 + c) * k + k0 + kw)) : 0.0f;
      const int kx = e >> 6, at = k0 + kx;
      float v = 0.0f;
      if (at < k && q < pixels) {
        const int channel = at / filter, r = at % filter;
        const int row = top + r / p.filterWidth * p.dilationY, column = left + r % p.filterWidth * p.dilationX;
        if (row >= 0 && row < p.height && column >= 0 && column < p.width) v = load(x + (((long long)channel * p.height + row) * p.width + column));
      }
      xs[kx][t & 63] = v;
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < DEPTH; j++) {
      const float4 u = *(const float4 *)&ws[j][ty * 4], v = *(const float4 *)&xs[j][tx * 4];
      const float a[4] = {u.x, u.y, u.z, u.w}, b[4] = {v.x, v.y, v.z, v.w};
      #pragma unroll
      for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int l = 0; l < 4; l++) sum[i][l] += a[i] * b[l];
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 4; i++) {
    const int c = c0 + ty * 4 + i;
    #pragma unroll
    for (int l = 0; l < 4; l++) {
      const int pixel = q0 + tx * 4 + l;
      if (c >= p.outputs || pixel >= pixels) continue;
      float v = sum[i][l];
      if (p.hasBias) v += load(bias + (group * p.outputs + c));
      EPILOGUE(v, (blockIdx.z * p.outputs + c) * pixels + pixel);
      store(y + ((long long)c * pixels + pixel), v);
    }
  }
}

// depthwise: each group has one channel; a thread computes one element.
ENTRY(depthwise, 256)(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ bias, Element *y, Conv p) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  const int pixels = p.outHeight * p.outWidth, plane = i / pixels, pixel = i % pixels, group = plane % p.groups;
  if (plane >= p.batch * p.groups) return;
  x += (long long)plane * p.height * p.width;
  const int top = pixel / p.outWidth * p.strideY - p.padY, left = pixel % p.outWidth * p.strideX - p.padX;
  for (int o = 0; o < p.outputs; o++) {
    const int c = group * p.outputs + o;
    float sum = 0.0f;
    for (int r = 0; r < p.filterHeight; r++) {
      const int row = top + r * p.dilationY;
      if (row < 0 || row >= p.height) continue;
      for (int s = 0; s < p.filterWidth; s++) {
        const int column = left + s * p.dilationX;
        if (column >= 0 && column < p.width)
          sum += load(w + (((long long)c * p.filterHeight + r) * p.filterWidth + s)) * load(x + ((long long)row * p.width + column));
      }
    }
    if (p.hasBias) sum += load(bias + c);
    EPILOGUE(sum, (plane * p.outputs + o) * pixels + pixel);
    store(y + (((long long)plane * p.outputs + o) * pixels + pixel), sum);
  }
}

// The pools: a thread computes one element of one plane. Padding is no part of a maximum, and of an average only if it counts.
ENTRY(pool, 256)(const Element *__restrict__ x, Element *y, Conv p, int isAverage, int countsPadding) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  const int pixels = p.outHeight * p.outWidth, plane = i / pixels, pixel = i % pixels;
  if (plane >= p.batch * p.groups) return;
  x += (long long)plane * p.height * p.width;
  const int top = pixel / p.outWidth * p.strideY - p.padY, left = pixel % p.outWidth * p.strideX - p.padX;
  float most = -__int_as_float(0x7f800000), sum = 0.0f;
  int count = 0;
  for (int r = 0; r < p.filterHeight; r++) {
    const int row = top + r * p.dilationY;
    for (int s = 0; s < p.filterWidth; s++) {
      const int column = left + s * p.dilationX;
      if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
      const float v = load(x + ((long long)row * p.width + column));
      most = v > most || v != v ? v : most;
      sum += v;
      count++;
    }
  }
  if (countsPadding) count = p.filterHeight * p.filterWidth;
  store(y + i, isAverage ? sum / count : most);
}

// transposed: a thread computes one element of the result of a transposed convolution, from the elements of x whose patches hold it.
// Channels are those of x, outputs those of y, of one group; filters are [groups·channels, outputs, rows, columns].
ENTRY(transposed, 256)(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ bias, Element *y, Conv p) {
  const int pixels = p.outHeight * p.outWidth, pixel = blockIdx.x * 256 + threadIdx.x;
  if (pixel >= pixels) return;
  const int image = blockIdx.z / p.groups, group = blockIdx.z % p.groups, o = blockIdx.y;
  const int top = pixel / p.outWidth + p.padY, left = pixel % p.outWidth + p.padX, filter = p.filterHeight * p.filterWidth;
  x += (long long)(image * p.groups + group) * p.channels * p.height * p.width;
  w += ((long long)group * p.channels * p.outputs + o) * filter;
  float sum = 0.0f;
  for (int r = 0; r < p.filterHeight; r++) {
    const int row = top - r * p.dilationY;
    if (row < 0 || row % p.strideY || row / p.strideY >= p.height) continue;
    for (int s = 0; s < p.filterWidth; s++) {
      const int column = left - s * p.dilationX;
      if (column < 0 || column % p.strideX || column / p.strideX >= p.width) continue;
      const Element *u = w + r * p.filterWidth + s, *v = x + (long long)(row / p.strideY) * p.width + column / p.strideX;
      #pragma unroll 2 // four are more registers than there are on sm_70
      for (int c = 0; c < p.channels; c++, u += (long long)p.outputs * filter, v += (long long)p.height * p.width) sum += load(u) * load(v);
    }
  }
  if (p.hasBias) sum += load(bias + (group * p.outputs + o));
  store(y + (((long long)blockIdx.z * p.outputs + o) * pixels + pixel), sum);
}

// lrn divides by a norm over neighbouring channels: a thread computes one element.
ENTRY(lrn, 256)(const Element *__restrict__ x, Element *y, int channels, int span, int before, int after, float alpha, float beta, float bias, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int c = i / span % channels;
  float sum = 0.0f;
  for (int k = c - before; k <= c + after; k++)
    if (k >= 0 && k < channels) sum += load(x + (i + (k - c) * span)) * load(x + (i + (k - c) * span));
  store(y + i, load(x + i) / powf(bias + alpha * sum, beta));
}
