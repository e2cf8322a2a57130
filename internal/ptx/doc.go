// Package ptx parses PTX, the assembly language of NVIDIA's GPUs, and executes it on the host, with more checks than a GPU makes.
//
//	text ──Parse──▶ Module ──Compile──▶ Program ──Launch──▶ Result: reports, counts of instructions
//	                                                 ▲
//	                                    Memory: allocations; windows a kernel may touch
//
// A warp of 32 lanes executes in lockstep; where its lanes take different ways, they meet again at the immediate
// post-dominator of the branch. Blocks of a grid run in parallel on the host. The same launch gives the same bytes, reports and
// counts, however many threads take part; where blocks race with each other, it gives a report of that, which may be another one each time.
//
// The package knows nothing of ONNX, of plans or of drivers. The language is that of the PTX ISA 8.1:
// https://docs.nvidia.com/cuda/archive/12.1.1/parallel-thread-execution/index.html
package ptx
