package jpeg

import "math"

// The inverse cosine transform in 32-bit integers, rows after columns, by the
// factorization with 11 multiplications of a transform of length 8:
//
//	even coefficients ──▶ rotation by 6π/16, butterflies ──▶ e0 … e3
//	odd coefficients  ──▶ three rotations, butterflies   ──▶ o0 … o3
//	output k = e(k) + o(k),  output 7-k = e(k) - o(k)
//
// Constants have 13 fraction bits; 2 more bits are kept between the passes.
//
// Source: "Practical Fast 1-D DCT Algorithms with 11 Multiplications" (ICASSP 1989).
const (
	constBits = 13
	passBits  = 2
)

// fix is a constant as a fixed-point number.
func fix(v float64) int32 { return int32(math.Round(v * (1 << constBits))) }

var (
	f0298, f0390, f0541, f0765 = fix(0.298631336), fix(0.390180644), fix(0.541196100), fix(0.765366865)
	f0899, f1175, f1501, f1847 = fix(0.899976223), fix(1.175875602), fix(1.501321110), fix(1.847759065)
	f1961, f2053, f2562, f3072 = fix(1.961570560), fix(2.053119869), fix(2.562915447), fix(3.072711026)
)

// transform8 transforms v[0], v[step], …, v[7*step] in place and drops shift bits.
func transform8(v []int32, step int, shift uint) {
	x := func(k int) int32 { return v[k*step] }
	z := (x(2) + x(6)) * f0541
	t2, t3 := z-x(6)*f1847, z+x(2)*f0765
	t0, t1 := (x(0)+x(4))<<constBits, (x(0)-x(4))<<constBits
	even := [4]int32{t0 + t3, t1 + t2, t1 - t2, t0 - t3}

	a, b, c, d := x(7), x(5), x(3), x(1)
	z1, z2, z3, z4 := -(a+d)*f0899, -(b+c)*f2562, a+c, b+d
	z5 := (z3 + z4) * f1175
	z3, z4 = z5-z3*f1961, z5-z4*f0390
	odd := [4]int32{d*f1501 + z1 + z4, c*f3072 + z2 + z3, b*f2053 + z2 + z4, a*f0298 + z1 + z3}

	round := int32(1) << (shift - 1)
	for k := range 4 {
		v[k*step] = (even[k] + odd[k] + round) >> shift
		v[(7-k)*step] = (even[k] - odd[k] + round) >> shift
	}
}

// idct dequantizes a block and writes its samples.
func idct(coef []int16, quant *[64]int32, dst []byte, stride int) {
	var v [64]int32
	for i := range v {
		v[i] = int32(coef[i]) * quant[i]
	}
	for x := range 8 {
		transform8(v[x:], 8, constBits-passBits)
	}
	for y := range 8 {
		transform8(v[y*8:], 1, constBits+passBits+3)
		for x, s := range v[y*8 : y*8+8] {
			dst[y*stride+x] = byte(min(max(s+128, 0), 255))
		}
	}
}
