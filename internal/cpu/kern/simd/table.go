package simd

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Table is the set of kernels of one level. Plans keep the table they were
// made with; plain functions read the active one.
type Table struct {
	Level machine.Level
	lanes int              // float32 lanes of a vector, 1 for the generic level
	peak  func(rounds int) // rounds × flops floating point operations
	flops int

	Mr, Nr int // largest tile of a micro-kernel, rows and columns
	Tw     int // rows of one PackTrans, pixels of one segment

	PackNarrow func(dst, src *float32, k, dstStride, srcStride, cols int) // cols ≤ tw
	PackWide   func(dst, src *float32, k, dstStride, srcStride, cols int) // cols ≤ nr
	PackPanels func(dst, src *float32, k, dstStride, srcStride, panels, panelStride int)
	PackTrans  func(dst, src *float32, k, dstStride, srcStride, rows int) // rows ≤ tw
	Transpose  func(dst, src *float32, k, dstStride, srcStride, rows int) // the same, no slack

	SegFill, SegMerge   func(dst, src *float32, n, dstStride, srcStride, mask, off int)
	SegFill2, SegMerge2 func(dst, src *float32, n, dstStride, srcStride, mask, off int)
	SegFillN, SegMergeN func(dst, src *float32, n, dstStride, srcStride, mask, off, step int)

	Lrn75 func(dst, src *float32, n int, p0, p1 float32) // (p1 + p0·x)^(−3/4)

	// Kernels of the channel-blocked layout; distances in bytes.
	BlockTaps func(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int, w, bias, res *float32, lo, hi float32)
	BlockMax  func(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int)

	// Depthwise windows of 3×3 over plain images, by stride 1 and 2; nil where there is none. Distances in bytes.
	DepthRows [2]DepthRows

	// Transforms of a tile, and of a block of filters, of F(2,3) and of F(4,3).
	WinoIn     [2]winoIn
	WinoOut    [2]winoOut
	WinoFilter [2]winoFilter

	Ints   IntTable
	RowOps rowOps

	// Panels of columns of 2, 4 and 8 bits: n rows of bytes to (q − zero)·scale, several rows
	// of numbers each; scale and zero have Nr elements.
	NBits [3]func(dst *float32, src *byte, scale, zero *float32, n int)

	// NBitsQuantize quantizes n blocks of a row to records for NBitsBytes: bytes, their scale and their sum; nil where there are no such kernels.
	// NBitsDigits does so to records of three digits.
	NBitsQuantize, NBitsDigits func(dst *byte, src *float32, block, n int)

	// Conversions of a multiple of 16 numbers; nil means plain Go.
	HalfToFloat, BfloatToFloat func(dst *float32, src *uint16, n int)
	FloatToHalf, FloatToBfloat func(dst *uint16, src *float32, n int)

	// Elementwise kernels; nil means plain Go.
	unary [NumUnary]func(dst, src *float32, n int, p0, p1 float32)
	binVV [NumBinary]func(dst, a, b *float32, n int)
	binVS [NumBinary]func(dst, a *float32, s float32, n int)
	binSV [NumBinary]func(dst *float32, s float32, b *float32, n int)

	SubSub     func(dst, src *float32, n int, p0, p1 float32) // (x−p0)−p1
	SubMul     func(dst, src *float32, n int, p0, p1 float32) // (x−p0)·p1
	MulAdd     func(dst, src *float32, n int, p0, p1 float32) // x·p0 + p1
	MulAddRows func(dst, a, b, c *float32, n int)             // a·b + c
	RepeatEach func(dst, src *float32, n, times int)          // each of n numbers so many times
	// MulColumn multiplies each of n numbers by so many vectors of x, step bytes apart; nil at the generic level.
	MulColumn func(dst, column, x *float32, n, vectors, step int)

	Sum, SumAbs, SumSq func(x *float32, n int) float32
	Max, Min           func(x *float32, n int) float32
	Dot                func(x, y *float32, n int) float32
	DotRows            func(dst, x, rows *float32, n, k, ld, step int) // see DotRows; ld and step in bytes
	WideDots           func(dst, x, rows *float32, n, k, ld, step int) // the same, summed in float64
	SumSqDiff          func(x *float32, n int, mean float32) float32
	ExpSumOnly         func(x *float32, n int, max float32) float32

	// Columns of panels of Nr, over rows one after the other, by vectors of lanes; nil but with AVX-512. See package attend.
	ColMax func(top, x *float32, rows, vectors int)      // joins maxima with those of columns
	ColMul func(factor, x *float32, rows, vectors int)   // x·factor
	ColExp func(sum, top, x *float32, rows, vectors int) // e^(x−top), of which sum gets the sums
}

// Lanes is the number of float32 in a vector, 1 at the generic level.
func (t *Table) Lanes() int { return t.lanes }

// winoIn is an input transform, winoOut an output transform with the epilogue; res may
// be nil. tmp is workspace of a tile of inputs. winoFilter transforms the nine taps of a block
// of filters, channels innermost, by the rows of WinoFilterRows; tmp holds three taps of half a
// block for each of the m+2 rows.
//
// DepthRows computes up to 14 output columns of some channels, all rows: src + off is where lane 0 of row first of the
// image would lie; low and high are the lanes within the image's rows, out those that are written.
type (
	DepthRows  = func(dst, src, w, bias *float32, off, channels, rows, inRows, first, dstRow, srcRow, dstPlane, srcPlane, wStep, biasStep, low, high, out int, lo, hi float32)
	winoIn     = func(dst, src, tmp *float32, rowStride, dstStride int)
	winoOut    = func(dst, src, tmp *float32, rowStride, srcStride int, bias, res *float32, lo, hi float32)
	winoFilter = func(dst, taps *float32, tmp, rows *float64, dstStride int)
)

// Active returns the kernels of the level in use.
func Active() *Table { return tables[machine.Active()] }

// genericTable has the kernels in plain Go.
var genericTable = &Table{
	Level: machine.LevelGeneric,
	lanes: 1,
	peak:  peakGeneric,
	flops: 12 * 2,

	Mr: genericMR, Nr: genericNR, Tw: genericNR,
	PackNarrow: packRowsGeneric, PackWide: packRowsGeneric, PackTrans: packTransposeGeneric,
	PackPanels: packPanelsGeneric, Transpose: packTransposeGeneric,
	SegFill: segmentGeneric(1, true), SegMerge: segmentGeneric(1, false),
	SegFill2: segmentGeneric(2, true), SegMerge2: segmentGeneric(2, false),
	SegFillN: segmentAnyGeneric(true), SegMergeN: segmentAnyGeneric(false),
	BlockTaps: blockTapsGeneric, BlockMax: blockMaxGeneric,
	WinoIn: [2]winoIn{winoInGeneric(2), winoInGeneric(4)}, WinoOut: [2]winoOut{winoOutGeneric(2), winoOutGeneric(4)},
	WinoFilter: [2]winoFilter{winoFilterGeneric(2), winoFilterGeneric(4)},
	Ints:       IntTable{MulSub: intMulSubGeneric, ToFloat: intToFloatGeneric, FromFloat: floatToIntGeneric},
	NBits:      [3]func(dst *float32, src *byte, scale, zero *float32, n int){nbitsGeneric(2), nbitsGeneric(4), nbitsGeneric(8)},
	Lrn75:      lrn75Generic,
	SubSub:     subSubGeneric,
	SubMul:     subMulGeneric,
	MulAdd:     mulAddGeneric,
	MulAddRows: mulAddRowsGeneric,
	RepeatEach: repeatEachGeneric,
	Sum:        sumGeneric,
	SumAbs:     sumAbsGeneric,
	SumSq:      sumSqGeneric,
	Max:        maxGeneric,
	Min:        minGeneric,
	Dot:        dotGeneric,
	DotRows:    dotRowsGeneric,
	WideDots:   dotRowsGeneric,
	SumSqDiff:  sumSqDiffGeneric,
	ExpSumOnly: expSumOnlyGeneric,
}
