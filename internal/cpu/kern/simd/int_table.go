package simd

import (
	"math"
	"unsafe"
)

// IntKind says what the words of a product hold.
type IntKind uint8

const (
	FloatWords IntKind = iota // a float32
	QuadsUS                   // four bytes, rows unsigned, columns signed
	IntPairs                  // two 16-bit numbers
	BytePairs                 // the same, columns being two signed bytes (AVX2)
)

// IntTable holds the integer kernels of a level.
type IntTable struct {
	Quads bool   // quads rather than pairs
	base  *Table // the level whose products are used, nil for the level itself

	MulSub             func(dst, x *int32, n int, s int32) // dst −= x·s
	ToFloat            func(dst *float32, src *int32, n int, scale float32)
	FromFloat          func(dst *int32, src *float32, n int)     // to nearest
	MaxBytes           func(dst, a, b *byte, n int, flip uint32) // the larger, which flip makes unsigned; multiples of 64; nil: plain Go
	WidenU, WidenS     func(dst *int16, src *byte, n int)        // multiples of 32; nil: plain Go
	DequantU, DequantS func(dst *float32, src *byte, n int, scale, zero float32)
	Quant              func(dst *byte, src *float32, n int, scale, lo, hi float32, zero int32)
	Requant            func(dst *byte, src *int32, n int, scale, lo, hi float32, zero int32)

	// The same for rows with a factor each, which read no lane beyond n, and for rows of Nr sums with a factor for each
	// column, of which cols are stored. Bounds and zero points are those of signed bytes, flip makes them unsigned; zeros
	// is zero twice, in 16 bits each. nil: there is none.
	RequantRows   func(dst *byte, src *int32, rows, n, dstRow, srcRow int, factors *float32, least, most float32, zero, zeros int32, flip uint32)
	RequantPixels func(dst *byte, src *int32, rows, cols, dstRow int, factors *float32, most float32, zeros int32, flip uint32)

	AddFoursU, AddFoursS func(dst, a, b *byte, n int, fa, fb, start, most float32)

	QuadRow            func(dst *uint32, src *byte, n, plane int, flip uint32) // any n
	PairRowU, PairRowS func(dst *uint32, src *byte, n, plane int)              // multiples of 16; nil: plain Go

	BytePlane func(dst, src *byte, rows, n, dstRow, srcRow int, flip uint32) // copies rows of n bytes, flip added by exclusive or
}

// Packing is a zero point as the kernels add it that saturate while they pack: bounds and zero point are those of
// signed bytes, which Flip makes unsigned by exclusive or.
type Packing struct {
	Least, Most float32 // before the zero point is added
	Zero, Zeros int32   // Zeros is Zero twice, in 16 bits each
	Flip        uint32
}

// PackedZero is the zero point of signed or unsigned bytes.
func PackedZero(signed bool, zero int32) (p Packing) {
	if !signed {
		zero, p.Flip = zero-128, 0x80808080
	}
	p.Least, p.Most, p.Zero, p.Zeros = -128-float32(zero), 127-float32(zero), zero, zero&0xffff|zero<<16
	return p
}

// PixelArgs is the argument block of the kernels that sum up windows of pixels whose bytes lie side by side; the
// generated code knows the fields by their offsets: do not reorder.
type PixelArgs struct {
	In, W unsafe.Pointer // first byte of the first window; weights, Nr words for each word of a window
	Sums  unsafe.Pointer // Nr for each pixel
	Start unsafe.Pointer // what the Nr sums of a pixel begin with
	Offs  unsafe.Pointer // of each run of words, in bytes from the first of the window
	Runs  int
	Words int // of a run
	Pixel int // bytes from one pixel to the next

	Out     unsafe.Pointer // bytes of the first pixel, nil for the sums as they are
	OutRow  int            // bytes from one pixel to the next
	Cols    int            // bytes that are stored of a pixel
	Factors unsafe.Pointer // Nr, each between -1 and 1
	Flip    uint32
	Zeros   int32

	Ahead     int // bytes from W to weights that are fetched into the cache, two lines for each word of the window
	AheadStep int // from those of a word to those of the next
}

// DepthArgs is the argument block of the kernel that sums up and quantizes windows of one channel each over pixels
// whose bytes lie side by side, 64 bytes at a time; the generated code knows the fields by their offsets: do not reorder.
// The kernel changes In, Out and Rows.
type DepthArgs struct {
	In, Out unsafe.Pointer // first byte of the first window; results
	W       unsafe.Pointer // of each vector, the words of each four taps: see DepthLane for their order
	Start   unsafe.Pointer // of each vector, 64 starts of sums and 64 factors, in the same order
	Offs    unsafe.Pointer // of each tap, in bytes from the first of the window; four for each Quad
	Quads   int
	Vectors int // of a row
	Period  int // vectors after which W and Start repeat
	Rows    int
	InRow   int // bytes from one row to the next
	OutRow  int
	Last    int     // bytes of the last vector of a row that are stored
	Most    float32 // as in RequantPixels
	Zeros   int32
	Flip    uint32
}

// DepthLane is the byte of a vector that lane i of its words belongs to.
func DepthLane(i int) int { return i/4%4*16 + i/16*4 + i%4 }

// Products returns the kernels whose integer products this level uses.
func (t *Table) Products() *Table {
	if t.Ints.base != nil {
		return t.Ints.base
	}
	return t
}

// Group is the number of consecutive k in a word.
func (k IntKind) Group() int {
	if k == IntPairs || k == BytePairs {
		return 2
	}
	return 4
}

// onesOf are rows of ones, by the numbers in a word.
var onesOf = func() (rows [2][256]uint32) {
	for i := range rows[0] {
		rows[0][i], rows[1][i] = 0x01010101, 0x00010001
	}
	return rows
}()

// AddColumns adds up the numbers in each of cols columns of a packed panel of so many words,
// and adds the result to sums: the product of the panel with a row of ones.
func (t *Table) AddColumns(kind IntKind, sums *int32, panel unsafe.Pointer, words, cols int) {
	ones := &onesOf[0]
	if kind == IntPairs {
		ones = &onesOf[1]
	}
	u := UkArgs{A: unsafe.Pointer(ones), C: unsafe.Pointer(sums), Ldb: 4 * t.Nr, Flags: UkAcc | UkTail, Cols: cols}
	for w := 0; w < words; w += len(ones) {
		u.B, u.K = unsafe.Add(panel, w*u.Ldb), min(len(ones), words-w)
		t.MicroInt(kind, 1, &u)
	}
}

// microPairsGeneric is the pairs micro-kernel in plain Go.
func microPairsGeneric(h int, u *UkArgs) {
	cols := genericNR
	if u.Flags&UkTail != 0 {
		cols = u.Cols
	}
	for i := range h {
		var s [genericNR]int32
		for p := range u.K {
			a := *(*[2]int16)(unsafe.Add(u.A, 4*(p*h+i)))
			b := (*[genericNR][2]int16)(unsafe.Add(u.B, p*u.Ldb))
			x, y := int32(a[0]), int32(a[1])
			for j := range s {
				s[j] += x*int32(b[j][0]) + y*int32(b[j][1])
			}
		}
		c := unsafe.Slice((*int32)(unsafe.Add(u.C, i*u.Ldc)), cols)
		for j := range c {
			v := s[j]
			if u.Flags&UkRow != 0 {
				v += *(*int32)(unsafe.Add(u.Bias, 4*i))
			}
			if u.Flags&UkCol != 0 {
				v += *(*int32)(unsafe.Add(u.Bias, 4*j))
			}
			if u.Flags&UkAcc != 0 {
				v += c[j]
			}
			c[j] = v
		}
	}
}

func intMulSubGeneric(dst, x *int32, n int, s int32) {
	d := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(x, n) {
		d[i] -= v * s
	}
}

func intToFloatGeneric(dst *float32, src *int32, n int, scale float32) {
	d := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(src, n) {
		d[i] = float32(v) * scale
	}
}

func floatToIntGeneric(dst *int32, src *float32, n int) {
	d := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(src, n) {
		d[i] = int32(math.RoundToEven(float64(v)))
	}
}

// ByteValue is a byte as uint8 or int8.
func ByteValue(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}
