package kern

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Integer products.
//
// Bytes of either sign are multiplied exactly into 32-bit sums. Operands are
// packed into words of 32 bits, either quads of bytes (AVX-512 VNNI) or pairs
// of 16-bit numbers (everything else); apart from that the product runs
// through the same loops as float32, words in place of numbers.
//
// The quad instruction multiplies unsigned by signed bytes, so an operand of
// the wrong sign is moved by 128 while packing (its top bit flipped), and its
// zero point with it. Zero points never enter the product itself:
//
//	Σ(a−za)(b−zb) = Σab − za·Σb − zb·Σa + K·za·zb
//
// The sums over b are kept with a packed b, those over a are formed while a is
// packed, and only if some zb is not zero.

// intKind says what the words of a product hold.
type intKind uint8

const (
	floatWords intKind = iota // a float32
	quadsUS                   // four bytes, rows unsigned, columns signed
	quadsSU                   // four bytes, rows signed, columns unsigned
	intPairs                  // two 16-bit numbers
)

// intTable holds the integer kernels of a level.
type intTable struct {
	quads bool   // quads rather than pairs
	base  *table // level whose products serve, nil for the level itself

	mulSub             func(dst, x *int32, n int, s int32) // dst −= x·s
	toFloat            func(dst *float32, src *int32, n int, scale float32)
	fromFloat          func(dst *int32, src *float32, n int) // to nearest
	widenU, widenS     func(dst *int16, src *byte, n int)    // multiples of 32; nil: plain Go
	dequantU, dequantS func(dst *float32, src *byte, n int, scale, zero float32)
	quant              func(dst *byte, src *float32, n int, scale, lo, hi float32, zero int32)
	requant            func(dst *byte, src *int32, n int, scale, lo, hi float32, zero int32)

	quadRow            func(dst *uint32, src *byte, n, plane int, flip uint32) // any n
	pairRowU, pairRowS func(dst *uint32, src *byte, n, plane int)              // multiples of 16; nil: plain Go
}

// products returns the level whose integer products serve this level.
func (t *table) products() *table {
	if t.ints.base != nil {
		return t.ints.base
	}
	return t
}

// group is the number of consecutive k in a word.
func (k intKind) group() int {
	if k == intPairs {
		return 2
	}
	return 4
}

// intSide describes one operand as packing sees it.
type intSide struct {
	kind   intKind
	signed bool // as given
	flip   bool // top bits are flipped while packing
}

// sides returns how rows and columns are packed; rowsSigned chooses which of
// the two quad kernels suits.
func (t *table) sides(kind intKind, aSigned, bSigned bool) (a, b intSide) {
	a, b = intSide{kind, aSigned, false}, intSide{kind, bSigned, false}
	switch kind {
	case quadsUS:
		a.flip, b.flip = aSigned, !bSigned
	case quadsSU:
		a.flip, b.flip = !aSigned, bSigned
	}
	return a, b
}

// shift is what packing adds to the value of every byte of an operand.
func (s intSide) shift() int32 {
	switch {
	case !s.flip:
		return 0
	case s.signed:
		return 128
	}
	return -128
}

// value is a byte as packed.
func (s intSide) value(b byte) int32 {
	if s.flip {
		b ^= 0x80
	}
	return byteValue(b, s.signed != s.flip)
}

// word packs up to four (quads) or two (pairs) bytes; missing ones are zero as
// packed and so add nothing.
func (s intSide) word(b [4]byte, n int) uint32 {
	if s.kind == intPairs {
		w := uint32(uint16(s.value(b[0])))
		if n > 1 {
			w |= uint32(uint16(s.value(b[1]))) << 16
		}
		return w
	}
	w := uint32(0)
	for i := range n {
		c := b[i]
		if s.flip {
			c ^= 0x80
		}
		w |= uint32(c) << (8 * i)
	}
	return w
}

// packRows packs rows of k consecutive bytes: dst[w·ld + i] is word w of row i.
// Rows are ld32 words apart in dst per word; src rows stride bytes apart.
func (s intSide) packRows(t *table, dst []uint32, src []byte, rows, k, stride, ld int, tmp []byte) {
	g := s.kind.group()
	whole := k / g
	if s.kind == intPairs {
		s.packPairs(t, dst, src, rows, k, stride, ld, tmp)
		return
	}
	for r := 0; r < rows && whole > 0; r += t.tw {
		n := min(t.tw, rows-r)
		p := (*float32)(ptr(src, r*stride))
		t.transpose((*float32)(ptr(dst, r)), p, whole, 4*ld, stride, n)
	}
	if s.flip {
		flipWords(dst, whole, rows, ld)
	}
	if rest := k % g; rest != 0 {
		for r := range rows {
			var b [4]byte
			copy(b[:], src[r*stride+whole*g:][:rest])
			dst[whole*ld+r] = s.word(b, rest)
		}
	}
}

// flipWords flips the top bit of every byte of words rows of n.
func flipWords(dst []uint32, words, n, ld int) {
	for w := range words {
		row := dst[w*ld:][:n]
		for i := range row {
			row[i] ^= 0x80808080
		}
	}
}

// packPairs widens rows to 16 bits first, then turns them like quads.
func (s intSide) packPairs(t *table, dst []uint32, src []byte, rows, k, stride, ld int, tmp []byte) {
	words := ceilDiv(k, 2)
	wide := roundUp(4*words, 64) // bytes of a widened row
	widen := t.ints.widenU
	if s.signed {
		widen = t.ints.widenS
	}
	for r := 0; r < rows; r += t.tw {
		n := min(t.tw, rows-r)
		for i := range n {
			row := unsafe.Slice((*int16)(ptr(tmp, i*wide)), 2*words)
			row[2*words-1] = 0
			in := src[(r+i)*stride:][:k]
			done := 0
			if widen != nil && k >= 32 {
				done = k &^ 31
				widen(&row[0], &in[0], done)
			}
			for c := done; c < k; c++ {
				row[c] = int16(s.value(in[c]))
			}
		}
		t.transpose((*float32)(ptr(dst, r)), (*float32)(ptr(tmp, 0)), words, 4*ld, wide, n)
	}
}

// pairTmp is the room that packPairs needs for rows of k bytes.
func (t *table) pairTmp(k int) int { return t.tw*roundUp(4*ceilDiv(k, 2), 64) + 64 }

// packCols packs k rows of n bytes: dst[w·ld + j] is word w of column j.
func (s intSide) packCols(dst []uint32, src []byte, n, k, stride, ld int) {
	g := s.kind.group()
	for w := range ceilDiv(k, g) {
		have := min(g, k-w*g)
		row := dst[w*ld:][:n]
		for j := range row {
			var b [4]byte
			for i := range have {
				b[i] = src[(w*g+i)*stride+j]
			}
			row[j] = s.word(b, have)
		}
	}
}

// rowSum adds up k bytes as packed.
func (s intSide) rowSum(row []byte) int32 {
	x := uint64(0)
	if s.signed { // sum as unsigned, 128 more each
		x = 0x8080808080808080
	}
	const even = 0x00ff00ff00ff00ff
	sum := uint64(0)
	i := 0
	for i+8 <= len(row) {
		acc := uint64(0) // four 16-bit sums, room for 128 rounds
		for end := min(len(row)-7, i+8*120); i < end; i += 8 {
			v := binary.LittleEndian.Uint64(row[i:]) ^ x
			acc += v&even + v>>8&even
		}
		sum += acc&0xffff + acc>>16&0xffff + acc>>32&0xffff + acc>>48
	}
	for ; i < len(row); i++ {
		sum += uint64(row[i] ^ byte(x))
	}
	total := int32(sum)
	if s.signed {
		total -= 128 * int32(len(row))
	}
	return total + s.shift()*int32(len(row))
}

// microPairsGeneric is the pairs micro-kernel in plain Go.
func microPairsGeneric(h int, u *ukArgs) {
	cols := genericNR
	if u.flags&ukTail != 0 {
		cols = u.cols
	}
	for i := range h {
		var s [genericNR]int32
		for p := range u.k {
			a := *(*[2]int16)(unsafe.Add(u.a, 4*(p*h+i)))
			b := (*[genericNR][2]int16)(unsafe.Add(u.b, p*u.ldb))
			x, y := int32(a[0]), int32(a[1])
			for j := range s {
				s[j] += x*int32(b[j][0]) + y*int32(b[j][1])
			}
		}
		c := unsafe.Slice((*int32)(unsafe.Add(u.c, i*u.ldc)), cols)
		for j := range c {
			v := s[j]
			if u.flags&ukRow != 0 {
				v += *(*int32)(unsafe.Add(u.bias, 4*i))
			}
			if u.flags&ukCol != 0 {
				v += *(*int32)(unsafe.Add(u.bias, 4*j))
			}
			if u.flags&ukAcc != 0 {
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
