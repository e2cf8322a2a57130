package kern

// table is the set of kernels of one level. Plans keep the table they were
// made with; plain functions read the active one.
type table struct {
	level Level
	lanes int              // float32 lanes of a vector, 1 for the generic level
	peak  func(rounds int) // rounds × flops floating point operations
	flops int

	mr, nr int // largest tile of a micro-kernel, rows and columns
	tw     int // rows of one packTrans, pixels of one segment

	packNarrow func(dst, src *float32, k, dstStride, srcStride, cols int) // cols ≤ tw
	packWide   func(dst, src *float32, k, dstStride, srcStride, cols int) // cols ≤ nr
	packPanels func(dst, src *float32, k, dstStride, srcStride, panels, panelStride int)
	packTrans  func(dst, src *float32, k, dstStride, srcStride, rows int) // rows ≤ tw
	transpose  func(dst, src *float32, k, dstStride, srcStride, rows int) // the same, no slack

	segFill, segMerge   func(dst, src *float32, n, dstStride, srcStride, mask, off int)
	segFill2, segMerge2 func(dst, src *float32, n, dstStride, srcStride, mask, off int)
	segFillN, segMergeN func(dst, src *float32, n, dstStride, srcStride, mask, off, step int)

	lrn75 func(dst, src *float32, n int, p0, p1 float32) // (p1 + p0·x)^(−3/4)

	// Kernels of the channel-blocked layout; distances in bytes.
	blockTaps   func(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int, w, bias, res *float32, lo, hi float32)
	blockMax    func(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int)
	blockSum    func(dst, src *float32, n int)
	blockMulAdd func(dst, src *float32, n int, scale, shift *float32)

	ints intTable

	// Conversions of a multiple of 16 numbers; nil means plain Go.
	halfToFloat, bfloatToFloat func(dst *float32, src *uint16, n int)
	floatToHalf, floatToBfloat func(dst *uint16, src *float32, n int)

	// Elementwise kernels; nil means plain Go.
	unary [numUnary]func(dst, src *float32, n int, p0, p1 float32)
	binVV [numBinary]func(dst, a, b *float32, n int)
	binVS [numBinary]func(dst, a *float32, s float32, n int)
	binSV [numBinary]func(dst *float32, s float32, b *float32, n int)

	subSub     func(dst, src *float32, n int, p0, p1 float32) // (x−p0)−p1
	subMul     func(dst, src *float32, n int, p0, p1 float32) // (x−p0)·p1
	mulAdd     func(dst, src *float32, n int, p0, p1 float32) // x·p0 + p1
	mulAddRows func(dst, a, b, c *float32, n int)             // a·b + c
	normRow    func(dst, x, gamma, beta *float32, n int, mean, inv float32)

	sum, sumAbs, sumSq func(x *float32, n int) float32
	max, min           func(x *float32, n int) float32
	dot                func(x, y *float32, n int) float32
	dotRows            func(dst, x, rows *float32, n, k, ld, step int) // see DotRows; ld and step in bytes
	sumSqDiff          func(x *float32, n int, mean float32) float32
	expSum             func(dst, x *float32, n int, max float32) float32 // stores the powers
	expSumOnly         func(x *float32, n int, max float32) float32
}

// genericTable serves every machine.
var genericTable = &table{
	level: LevelGeneric,
	lanes: 1,
	peak:  peakGeneric,
	flops: 12 * 2,

	mr: genericMR, nr: genericNR, tw: genericNR,
	packNarrow: packRowsGeneric, packWide: packRowsGeneric, packTrans: packTransposeGeneric,
	packPanels: packPanelsGeneric, transpose: packTransposeGeneric,
	segFill: segmentFillGeneric, segMerge: segmentMergeGeneric,
	segFill2: segmentFill2Generic, segMerge2: segmentMerge2Generic,
	segFillN: segmentFillNGeneric, segMergeN: segmentMergeNGeneric,
	blockTaps: blockTapsGeneric, blockMax: blockMaxGeneric, blockSum: blockSumGeneric, blockMulAdd: blockMulAddGeneric,
	ints:       intTable{mulSub: intMulSubGeneric, toFloat: intToFloatGeneric, fromFloat: floatToIntGeneric},
	lrn75:      lrn75Generic,
	subSub:     subSubGeneric,
	subMul:     subMulGeneric,
	mulAdd:     mulAddGeneric,
	mulAddRows: mulAddRowsGeneric,
	normRow:    normRowGeneric,
	sum:        sumGeneric,
	sumAbs:     sumAbsGeneric,
	sumSq:      sumSqGeneric,
	max:        maxGeneric,
	min:        minGeneric,
	dot:        dotGeneric,
	dotRows:    dotRowsGeneric,
	sumSqDiff:  sumSqDiffGeneric,
	expSum:     expSumGeneric,
	expSumOnly: expSumOnlyGeneric,
}
