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
	FromFloat          func(dst *int32, src *float32, n int) // to nearest
	WidenU, WidenS     func(dst *int16, src *byte, n int)    // multiples of 32; nil: plain Go
	DequantU, DequantS func(dst *float32, src *byte, n int, scale, zero float32)
	Quant              func(dst *byte, src *float32, n int, scale, lo, hi float32, zero int32)
	Requant            func(dst *byte, src *int32, n int, scale, lo, hi float32, zero int32)

	// The same for rows with a factor each, which read no lane beyond n; zeros is zero twice, in 16 bits each. nil: there is none.
	RequantRowsU, RequantRowsS func(dst *byte, src *int32, rows, n, dstRow, srcRow int, factors *float32, least, most float32, zero, zeros int32)

	// The same for rows of Nr sums by fours, with a factor for each column, whose four bytes are a word.
	RequantColumnsU, RequantColumnsS func(dst *uint32, src *int32, quads int, factors *float32, most float32, zeros int32)

	AddFoursU, AddFoursS func(dst, a, b *byte, n int, fa, fb, start, most float32)

	QuadRow            func(dst *uint32, src *byte, n, plane int, flip uint32) // any n
	PairRowU, PairRowS func(dst *uint32, src *byte, n, plane int)              // multiples of 16; nil: plain Go

	// ByteTaps sums rows of vectors of pixels over words of four taps; nil: there is none. pick are the
	// words that go to each quarter of a vector, then the bytes within it.
	ByteTaps  func(dst *int32, src *byte, vectors, rows, dstRow, srcRow, step int, offs *int, count int, w *uint32, start int32, pick *uint32)
	BytePlane func(dst, src *byte, rows, n, dstRow, srcRow int, flip uint32) // copies rows of n bytes, flip added by exclusive or
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
}

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
