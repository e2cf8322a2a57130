// Package kern is the folder of berth's CPU kernels: float32 and byte arithmetic
// over slices, each for AVX-512, for AVX2 and in plain Go. The folder itself holds
// the test that the generated assembly is up to date. Its packages, from the bottom up:
//
//	machine    levels of instructions, worker pool, workspaces, errors
//	simd       the kernels of each level and the table that selects them
//	vec        elementwise functions, reductions, rows, conversions, copies
//	gemm       matrix products of floats and bytes
//	convolve   convolution and pooling; channel-blocked images
//	kerntest   what their tests share
//	asmgen     a module of its own: writes the assembly of machine and simd
//
// They know nothing of graphs, operators or tensors. They take slices, dimensions
// and strides (counted in elements, never bytes), and are used in two steps:
// prepare once (make a plan, pack constants), run many times. A run allocates
// nothing: the caller passes a workspace, whose size in bytes the method Workspace
// returns. A workspace for some number of threads is enough for fewer.
//
// Every function is safe for concurrent use. Plans and packed constants are
// immutable after they are made and may be shared by any number of runs. The
// destination must not overlap a source unless a function says "in place
// allowed", which then means exactly the same slice. Plans report wrong sizes as
// *machine.SpecError and *machine.SizeError; elementwise functions panic where a
// slice is too short, as indexing does.
//
// Work is always cut into the same tiles, whatever the number of threads, and no
// sum is split over tiles: results are bitwise the same for any number of
// threads. They differ between levels, by rounding.
package kern
