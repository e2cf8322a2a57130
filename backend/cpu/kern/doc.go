// Package kern holds the CPU kernels of berth: float32 and int8 arithmetic
// over raw slices, with AVX-512, AVX2 and plain Go versions of each.
//
// The package knows nothing of graphs, operators or tensors. It takes slices,
// dimensions and strides (always counted in elements, never bytes), and is
// used in two steps: prepare once (make a plan, pack constants), run many
// times. A run allocates nothing; whatever memory it needs beyond its operands
// is asked for by a Workspace method and handed in by the caller.
//
// Every function is safe for concurrent use. Plans and packed constants are
// immutable after they are made and may be shared by any number of runs. The
// destination must not overlap a source unless a function says "in place
// allowed", which then means exactly the same slice.
//
// # Levels
//
//	type Level uint8                    // LevelGeneric < LevelAVX2 < LevelAVX512
//	func Best() Level                   // the highest level of this machine
//	func Levels() []Level               // all levels of this machine, ascending
//	func Active() Level                 // the level in use
//	func StartError() error             // what was wrong with BERTH_CPU, or nil
//	func Use(l Level) error             // switch level (tests, benchmarks)
//
// The environment variable BERTH_CPU=generic|avx2|avx512 lowers the level at
// start. Plans and packed constants keep the level at which they were made.
//
// # Workers
//
//	type Task interface{ Run(i, worker int) }
//	func Parallel(n, threads int, t Task)   // t.Run(0..n-1, 0..threads-1)
//	func Threads() int                      // default thread count
//
// One pool per process. Work is always cut into the same tiles, whatever the
// thread count, and no sum is split over tiles: results are bitwise the same
// for any number of threads.
//
// # Epilogues (shared by Gemm, Conv and the blocked kernels)
//
//	type Epilogue struct {
//		Bias     BiasKind   // NoBias, BiasPerRow, BiasPerCol
//		Residual bool       // add args.Residual before the activation
//		Act      UnaryOp    // Identity, Relu, Clip, Sigmoid, Silu, Gelu, ...
//		P0, P1   float32    // parameters of Act (Clip: min, max; LeakyRelu: alpha; ...)
//	}
//
// # Matrix product
//
//	type BatchDim struct{ N, A, B, C, R int }   // count, then strides of A, B, C, residual
//	type GemmSpec struct {
//		M, N, K        int
//		TransA, TransB bool         // A stored K×M, B stored N×K
//		LDA, LDB, LDC  int          // leading dimensions, 0 = dense
//		LDR            int          // of the residual, 0 = like C
//		Alpha, Beta    float32      // C = act(Alpha·A·B + Beta·C + bias + residual)
//		Batch          []BatchDim   // outermost first, at most 4
//		ConstA, ConstB bool         // the operand will come packed
//		Epilogue       Epilogue
//	}
//	func NewGemm(s GemmSpec) (*Gemm, error)
//	func (g *Gemm) PackA(a []float32) *Packed       // needs ConstA; unbatched
//	func (g *Gemm) PackB(b []float32) *Packed       // needs ConstB; unbatched
//	func (g *Gemm) PackABytes / PackBBytes(raw []byte) *Packed  // little endian, any alignment
//	func (g *Gemm) Workspace(threads int) int       // bytes
//	func (g *Gemm) Run(a GemmArgs, ws []byte, threads int)
//	type GemmArgs struct {
//		A, B, C            []float32
//		PackedA, PackedB   *Packed
//		Bias, Residual     []float32
//	}
//
// Small M (1 to 8) with a constant B is bound by memory bandwidth and takes a
// path of its own inside Run; nothing has to be asked for.
//
// # Convolution, NCHW
//
//	type ConvSpec struct {
//		Batch, InC, OutC, Groups  int
//		In, Kernel, Stride, Dilation, PadBegin, PadEnd  [3]int  // depth, height, width
//		Epilogue  Epilogue        // bias: BiasPerRow = per output channel
//	}
//	func NewConv(s ConvSpec, weights []float32) (*Conv, error)   // OIDHW; nil weights: given at run time
//	func NewConvBytes(s ConvSpec, raw []byte) (*Conv, error)
//	func (c *Conv) Out() [3]int
//	func (c *Conv) Workspace(threads int) int
//	func (c *Conv) Run(a ConvArgs, ws []byte, threads int)
//	type ConvArgs struct{ X, W, Y, Bias, Residual []float32 }    // W only without packed weights
//
// A 1-D convolution has depth = height = 1, a 2-D one depth = 1; zero strides
// and dilations read as one.
//
// # Elementwise
//
//	func Unary(op UnaryOp, dst, src []float32, p0, p1 float32)          // in place allowed
//	func Binary(op BinaryOp, dst, a, b []float32)                       // in place allowed
//	func BinaryScalar(op BinaryOp, dst, a []float32, s float32)         // a op s
//	func ScalarBinary(op BinaryOp, dst []float32, s float32, b []float32) // s op b
//	func BinaryRows(op BinaryOp, dst, a []float32, ka Spread, b []float32, kb Spread, rows, cols int)
//	type Spread uint8   // Full [rows×cols], Row [cols], Col [rows], One [1]
//	func UnaryN, BinaryN, BinaryRowsN(..., threads int)                 // the same on the pool
//
//	UnaryOp:  Identity Neg Abs Sqrt Recip Square Floor Ceil Round Relu Clip LeakyRelu
//	          HardSigmoid HardSwish Exp Log Tanh Sigmoid Erf Gelu GeluTanh Silu
//	          Softplus Softsign Elu Mish
//	BinaryOp: Add Sub Mul Div Max Min PRelu
//
// # Rows and reductions
//
//	func Sum, MaxOf, MinOf, SumSquares, SumAbs(x []float32) float32
//	func Dot(a, b []float32) float32
//	func Softmax, LogSoftmax(dst, src []float32, rows, cols, threads int)
//	func LayerNorm(dst, src, gamma, beta []float32, rows, cols int, eps float32, mean, invStd []float32, threads int)
//	func RMSNorm(dst, src, gamma []float32, rows, cols int, eps float32, threads int)
//	func ScaleShift(dst, src []float32, scale, shift float32)
//	func BatchNorm(dst, src, scale, shift []float32, n, channels, spatial, threads int)
//
// # Layout, conversion, pooling, integers, blocked kernels
//
// Transpose, strided copies, half precision, pooling, LRN, the integer
// products and the channel-blocked kernels are documented with their
// declarations.
package kern
