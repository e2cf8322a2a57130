package ndarray

import "math"

// The float types of a byte or less share one description:
//
//	s eeee mmm    value = (-1)^s * 2^(e-bias) * 1.m     e > 0
//	              value = (-1)^s * 2^(1-bias) * 0.m     e = 0
//
// and differ in their bias and in which patterns are NaN or infinity.
// Source: ONNX "Float stored in 8 bits" and "Float stored in 4 bits" technical
// notes; OCP 8-bit Floating Point Specification; OCP Microscaling Formats.
type smallFloat struct {
	exp, man int  // field widths
	bias     int  // exponent bias
	inf      bool // all-ones exponent, zero mantissa is infinity (e5m2)
	fnuz     bool // 0x80 is the only NaN, no negative zero
	nan      bool // has a NaN at all
}

var smallFloats = map[DType]smallFloat{
	Float8E4M3FN:   {4, 3, 7, false, false, true},
	Float8E4M3FNUZ: {4, 3, 8, false, true, true},
	Float8E5M2:     {5, 2, 15, true, false, true},
	Float8E5M2FNUZ: {5, 2, 16, false, true, true},
	Float4E2M1:     {2, 1, 1, false, false, false},
	Float6E2M3:     {2, 3, 1, false, false, false},
	Float6E3M2:     {3, 2, 3, false, false, false},
}

// F8ToF32 widens a float8, float8e8m0, float6 or float4 bit pattern. The table lookup is
// exact: every such value is a float32.
func F8ToF32(dt DType, b byte) float32 { return smallTable[dt][b] }

var smallTable = func() (t [NumDTypes][256]float32) {
	for dt, f := range smallFloats {
		for b := range 256 {
			t[dt][b] = f.decode(byte(b))
		}
	}
	for b := range 256 {
		t[Float8E8M0][b] = float32(math.Ldexp(1, b-127))
	}
	t[Float8E8M0][255] = float32(math.NaN())
	return t
}()

func (f smallFloat) decode(b byte) float32 {
	width := 1 + f.exp + f.man
	b &= byte(1<<width - 1)
	sign := b >> (width - 1)
	e := int(b>>f.man) & (1<<f.exp - 1)
	m := int(b) & (1<<f.man - 1)
	neg := 1.0
	if sign == 1 {
		neg = -1
	}
	top := e == 1<<f.exp-1
	switch {
	case f.fnuz && b == 0x80:
		return float32(math.NaN())
	case f.inf && top && m == 0:
		return float32(math.Inf(int(neg)))
	case f.inf && top, f.nan && !f.inf && !f.fnuz && top && m == 1<<f.man-1:
		return float32(math.NaN())
	}
	frac := float64(m) / float64(int(1)<<f.man)
	if e == 0 {
		return float32(math.Copysign(math.Ldexp(frac, 1-f.bias), neg))
	}
	return float32(neg * math.Ldexp(1+frac, e-f.bias))
}

// F32ToF8 rounds v to the nearest value of a float8, float6 or float4 type, ties to
// even. With saturate, out-of-range values and infinities become the largest
// finite value; without, they become infinity or NaN as the type has it.
// float8e8m0 rounds up to the next power of two ("up", the ONNX default).
func F32ToF8(dt DType, v float32, saturate bool) byte {
	if dt == Float8E8M0 {
		return F32ToE8M0(v, "up", saturate)
	}
	f := smallFloats[dt]
	width := 1 + f.exp + f.man
	var sign byte
	if math.Signbit(float64(v)) {
		sign = 1 << (width - 1)
	}
	maxCode := f.maxFinite()
	x := math.Abs(float64(v))
	switch {
	case v != v:
		return f.nanCode(sign, maxCode)
	case math.IsInf(x, 0):
		return f.overflow(sign, maxCode, saturate, true)
	}
	code := f.encodeAbs(x)
	if code > int(maxCode) {
		return f.overflow(sign, maxCode, saturate, false)
	}
	if f.fnuz && code == 0 {
		return 0
	}
	return sign | byte(code)
}

// encodeAbs returns the code of the nearest magnitude on an unbounded grid.
func (f smallFloat) encodeAbs(x float64) int {
	if x == 0 {
		return 0
	}
	_, e := math.Frexp(x) // x = frac * 2^e, frac in [0.5,1)
	e = max(e-1, 1-f.bias)
	if e > 64 {
		return 1 << 20
	}
	q := math.RoundToEven(math.Ldexp(x, f.man-e)) // mantissa with hidden bit
	if e == 1-f.bias {
		return int(q) // subnormal codes are the mantissa itself; carry makes it normal
	}
	return (e+f.bias-1)<<f.man + int(q)
}

func (f smallFloat) maxFinite() byte {
	all := 1<<(f.exp+f.man) - 1
	switch {
	case f.inf:
		return byte(all - 1<<f.man)
	case f.nan && !f.fnuz:
		return byte(all - 1)
	}
	return byte(all)
}

func (f smallFloat) nanCode(sign, maxCode byte) byte {
	switch {
	case f.fnuz:
		return 0x80
	case f.inf:
		return sign | maxCode + 3
	case f.nan:
		return sign | maxCode + 1
	}
	return 1 << (f.exp + f.man) // float4 and float6 have no NaN: negative zero stands in
}

func (f smallFloat) overflow(sign, maxCode byte, saturate, isInf bool) byte {
	switch {
	case saturate || !f.nan:
		return sign | maxCode
	case f.fnuz:
		return 0x80
	}
	return sign | maxCode + 1 // e5m2: infinity; e4m3fn: NaN
}

// F32ToE8M0 encodes the power of two next to |v|: mode "up", "down" or
// "nearest" (ties up). NaN gives 255; out of range on either side, 0 included,
// saturates, or gives 255 without saturate.
func F32ToE8M0(v float32, mode string, saturate bool) byte {
	x := math.Abs(float64(v))
	if v != v {
		return 255
	}
	if math.IsInf(x, 0) {
		if saturate {
			return 254
		}
		return 255
	}
	if x == 0 {
		return belowE8M0(saturate)
	}
	frac, e := math.Frexp(x)
	e--
	switch mode {
	case "up":
		if frac > 0.5 {
			e++
		}
	case "nearest":
		if frac >= 0.75 {
			e++
		}
	}
	switch c := e + 127; {
	case c < 0:
		return belowE8M0(saturate)
	case c > 254 && saturate:
		return 254
	case c > 254:
		return 255
	default:
		return byte(c)
	}
}

// belowE8M0 is the code of a magnitude below the smallest power of two.
func belowE8M0(saturate bool) byte {
	if saturate {
		return 0
	}
	return 255
}
