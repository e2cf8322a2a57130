// Package ndarray holds the runtime values of berth: typed, contiguous,
// row-major arrays over plain byte memory, and the ONNX containers built from
// them (sequences, optionals, maps).
//
// An [Array] is a header: element type, shape, and a window of bytes. The bytes
// may be a model file's mapping, a slice of a planned arena, a caller's tensor or
// fresh memory; the header does not care and does not own them. Kernels read and
// write through typed slices obtained with [Slice].
//
// Layout decisions:
//   - arrays are contiguous and row-major; windows at an offset are views,
//     strided views do not exist at this level;
//   - types narrower than a byte (int4, uint4, int2, uint2, float4e2m1) hold one
//     element per byte in memory, sign-extended; the file format packs them;
//   - float16, bfloat16 and the float8 family hold their bit patterns;
//   - strings live in Go memory, because the collector must see their pointers.
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil and has as much data as its shape says, element types that exist, and indices within them; they panic otherwise.
package ndarray
