package gemm

import (
	"encoding/binary"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Integer products.
//
// Bytes of either sign are multiplied exactly into 32-bit sums. Operands are
// packed into words of 32 bits, either quads of bytes (AVX-512 VNNI) or pairs
// of 16-bit numbers (everything else). The loops are those of float32, with words in
// place of numbers.
//
// The quad instruction multiplies unsigned by signed bytes, so 128 is added to or
// subtracted from an operand of the other sign while packing (its top bit is flipped),
// and from its zero point. Zero points are corrected for after the product:
//
//	Σ(a−za)(b−zb) = Σab − za·Σb − zb·Σa + K·za·zb
//
// The sums over b are kept with a packed b; those over a are computed while a is
// packed, and only if some zb is not zero.

// IntSide describes one operand as packing sees it.
type IntSide struct {
	Kind   simd.IntKind
	Signed bool // as given
	Flip   bool // top bits are flipped while packing
}

// Sides returns how rows and columns are packed for a kernel of the given kind.
func Sides(t *simd.Table, kind simd.IntKind, aSigned, bSigned bool) (a, b IntSide) {
	a, b = IntSide{kind, aSigned, false}, IntSide{kind, bSigned, false}
	switch kind {
	case simd.BytePairs: // words are pairs; those of columns are narrowed to signed bytes
		a.Kind, b.Kind, b.Flip = simd.IntPairs, simd.IntPairs, !bSigned
	case simd.QuadsUS:
		a.Flip, b.Flip = aSigned, !bSigned
	}
	return a, b
}

// Shift is what packing adds to the value of every byte of an operand.
func (s IntSide) Shift() int32 {
	switch {
	case !s.Flip:
		return 0
	case s.Signed:
		return 128
	}
	return -128
}

// Value is a byte as packed.
func (s IntSide) Value(b byte) int32 {
	if s.Flip {
		b ^= 0x80
	}
	return simd.ByteValue(b, s.Signed != s.Flip)
}

// Word packs up to four (quads) or two (pairs) bytes; missing ones are zero as
// packed and so add nothing.
func (s IntSide) Word(b [4]byte, n int) uint32 {
	if s.Kind == simd.IntPairs {
		w := uint32(uint16(s.Value(b[0])))
		if n > 1 {
			w |= uint32(uint16(s.Value(b[1]))) << 16
		}
		return w
	}
	w := uint32(0)
	for i := range n {
		c := b[i]
		if s.Flip {
			c ^= 0x80
		}
		w |= uint32(c) << (8 * i)
	}
	return w
}

// PackRows packs rows of k consecutive bytes: dst[w·ld + i] is word w of row i.
// Rows are ld32 words apart in dst per word; src rows stride bytes apart.
func (s IntSide) PackRows(t *simd.Table, dst []uint32, src []byte, rows, k, stride, ld int, tmp []byte) {
	g := s.Kind.Group()
	whole := k / g
	if s.Kind == simd.IntPairs {
		s.packPairs(t, dst, src, rows, k, stride, ld, tmp)
		return
	}
	for r := 0; r < rows && whole > 0; r += t.Tw {
		n := min(t.Tw, rows-r)
		p := (*float32)(machine.Ptr(src, r*stride))
		t.Transpose((*float32)(machine.Ptr(dst, r)), p, whole, 4*ld, stride, n)
	}
	if s.Flip {
		flipWords(dst, whole, rows, ld)
	}
	if rest := k % g; rest != 0 {
		for r := range rows {
			var b [4]byte
			copy(b[:], src[r*stride+whole*g:][:rest])
			dst[whole*ld+r] = s.Word(b, rest)
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

// packPairs widens rows to 16 bits, then transposes them like quads.
func (s IntSide) packPairs(t *simd.Table, dst []uint32, src []byte, rows, k, stride, ld int, tmp []byte) {
	words := machine.CeilDiv(k, 2)
	wide := machine.RoundUp(4*words, 64) // bytes of a widened row
	widen := t.Ints.WidenU
	if s.Signed {
		widen = t.Ints.WidenS
	}
	for r := 0; r < rows; r += t.Tw {
		n := min(t.Tw, rows-r)
		for i := range n {
			row := unsafe.Slice((*int16)(machine.Ptr(tmp, i*wide)), 2*words)
			row[2*words-1] = 0
			in := src[(r+i)*stride:][:k]
			done := 0
			if widen != nil && k >= 32 {
				done = k &^ 31
				widen(&row[0], &in[0], done)
				for c := 0; c < done && s.Flip; c++ {
					row[c] += int16(s.Shift())
				}
			}
			for c := done; c < k; c++ {
				row[c] = int16(s.Value(in[c]))
			}
		}
		t.Transpose((*float32)(machine.Ptr(dst, r)), (*float32)(machine.Ptr(tmp, 0)), words, 4*ld, wide, n)
	}
}

// pairTmp is the size in bytes of the temporary of packPairs for rows of k bytes.
func pairTmp(t *simd.Table, k int) int { return t.Tw*machine.RoundUp(4*machine.CeilDiv(k, 2), 64) + 64 }

// packCols packs k rows of n bytes: dst[w·ld + j] is word w of column j.
func (s IntSide) packCols(dst []uint32, src []byte, n, k, stride, ld int) {
	g := s.Kind.Group()
	whole := k / g
	for w := range whole {
		s.PackWords(dst[w*ld:][:n], src[w*g*stride:], stride)
	}
	if rest := k % g; rest != 0 {
		row := dst[whole*ld:][:n]
		for j := range row {
			var b [4]byte
			for i := range rest {
				b[i] = src[(whole*g+i)*stride+j]
			}
			row[j] = s.Word(b, rest)
		}
	}
}

// PackWords packs the words of one group of rows, which all are there, stride bytes apart.
func (s IntSide) PackWords(dst []uint32, src []byte, stride int) {
	n, flip := len(dst), byte(0)
	if s.Flip {
		flip = 0x80
	}
	a, b := src[:n], src[stride:][:n]
	switch {
	case s.Kind != simd.IntPairs:
		c, d := src[2*stride:][:n], src[3*stride:][:n]
		for j := range dst {
			dst[j] = (uint32(a[j]) | uint32(b[j])<<8 | uint32(c[j])<<16 | uint32(d[j])<<24) ^ 0x01010101*uint32(flip)
		}
	case s.Signed != s.Flip:
		for j := range dst {
			dst[j] = uint32(uint16(int8(a[j]^flip))) | uint32(uint16(int8(b[j]^flip)))<<16
		}
	default:
		for j := range dst {
			dst[j] = uint32(a[j]^flip) | uint32(b[j]^flip)<<16
		}
	}
}

// rowSum adds up k bytes as packed.
func (s IntSide) rowSum(row []byte) int32 {
	x := uint64(0)
	if s.Signed { // sum as unsigned, 128 more each
		x = 0x8080808080808080
	}
	const even = 0x00ff00ff00ff00ff
	sum := uint64(0)
	i := 0
	for i+8 <= len(row) {
		acc := uint64(0) // four 16-bit sums, which 128 rounds cannot overflow
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
	if s.Signed {
		total -= 128 * int32(len(row))
	}
	return total + s.Shift()*int32(len(row))
}

// ZeroOf is the zero point of row or column i: of none, one for all, or one each.
func ZeroOf(z []int32, i int) int32 {
	switch len(z) {
	case 0:
		return 0
	case 1:
		return z[0]
	}
	return z[i]
}
