// Package kern holds the CPU kernels of berth: float32 and byte arithmetic over
// raw slices, with AVX-512, AVX2 and plain Go versions of each.
//
// The package knows nothing of graphs, operators or tensors. It takes slices,
// dimensions and strides (counted in elements, never bytes), and is used in two
// steps: prepare once (make a plan, pack constants), run many times. A run
// allocates nothing; whatever memory it needs beyond its operands is asked for
// by a Workspace method, in bytes, and handed in by the caller. A workspace for
// some number of threads is enough for fewer.
//
// Every function is safe for concurrent use. Plans and packed constants are
// immutable after they are made and may be shared by any number of runs. The
// destination must not overlap a source unless a function says "in place
// allowed", which then means exactly the same slice. Plans report wrong sizes as
// *SpecError and *SizeError; elementwise functions index their slices as plain
// Go would, and panic like it.
//
// # Levels
//
// Best is the highest level of the machine, Active the one in use, Use switches
// (tests, benchmarks). The environment variable BERTH_CPU=generic|avx2|avx512
// lowers the level at start; StartError tells what was wrong with it. Plans and
// packed constants keep the level at which they were made.
//
// # Workers
//
// Parallel runs a Task's indices on one pool per process. Work is always cut
// into the same tiles, whatever the number of threads, and no sum is split over
// tiles: results are bitwise the same for any number of threads. They differ
// between levels, by rounding.
//
// # What there is
//
//	products        Gemm (float32, batched, packed constants, epilogues), IntGemm (bytes)
//	convolution     Conv (plain layout), IntConv (bytes), BlockedConv (blocked layout);
//	                direct, as a product, depthwise, Winograd F(2,3) and F(4,3);
//	                PlanConv chooses
//	pooling         Pool, BlockedPool, BlockedGlobalAverage, ReduceRows (global)
//	elementwise     Unary, Binary, BinaryScalar, BinaryRows (broadcasting),
//	                ScaleShift, MulAdd, BatchNorm, BlockedScale; ...N on the pool
//	rows            Softmax, LogSoftmax, LayerNorm, RMSNorm, LRN
//	reductions      Sum, Dot, MaxOf, MinOf, ReduceRows, ReduceCols
//	movement        Copy (transpose, slice, expand, concat, pad), ToBlocked, FromBlocked
//	conversion      Quantize, Dequantize, Requantize, IntToFloat,
//	                HalfToFloat, FloatToHalf, BfloatToFloat, FloatToBfloat
//
// # Epilogues
//
// Products and convolutions finish their results while they are in registers or
// in the cache: act(result + bias + residual), see Epilogue. Relu and Clip cost
// nothing; other activations are a pass over the finished tile.
//
// # Rooms
//
// The files follow the way of the data, each with its algorithm at its head:
//
//	level, table, pool, memory           what is used, who works, where
//	packed                               layouts of constants, packing in pieces
//	gemm*, micro, sweep                  blocked product: plan, packing, loops, kernels
//	conv_plan                            which algorithm computes a convolution, and why
//	conv, conv_matrix, segments          convolution as a product with patches
//	direct, conv_direct, blocked_conv    direct convolution
//	winograd                             Winograd convolution
//	taps, strips, depth, pooling         windows: depthwise convolution, pooling
//	blocked_*                            the channel-blocked layout
//	elem, spread, rows, reduce, lrn      elementwise, rows, reductions
//	int*, quant, half, stridecopy        bytes, conversions, copies
//
// Files ending in _generic hold the plain Go kernels, which are also what the
// others are tested against. The assembly is written by asmgen, a module of its
// own; a test runs it and compares.
package kern
