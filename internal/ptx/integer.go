package ptx

import "math/bits"

// Integer arithmetic. A lane is computed in 64 bits, from operands extended as their type says, and cut to the width of the
// result, which gives the same bits as arithmetic in the type itself.

// typed2 extends operands of a type, computes, and cuts the result.
func typed2(t Type, f func(a, b uint64) uint64) lanes {
	mask := t.mask()
	if !t.isSigned() {
		return func(d, a, b, _ *vec) {
			for l := range d {
				d[l] = f(a[l], b[l]) & mask
			}
		}
	}
	return func(d, a, b, _ *vec) {
		for l := range d {
			d[l] = f(t.extended(a[l]), t.extended(b[l])) & mask
		}
	}
}

func typed3(t, result Type, f func(a, b, c uint64) uint64) lanes {
	mask := result.mask()
	third := result
	if !t.isSigned() {
		third = result.unsigned()
	}
	return func(d, a, b, c *vec) {
		for l := range d {
			d[l] = f(t.extended(a[l]), t.extended(b[l]), third.extended(c[l])) & mask
		}
	}
}

// unsigned is the unsigned type of the same size.
func (t Type) unsigned() Type {
	switch t.Size() {
	case 1:
		return U8
	case 2:
		return U16
	case 4:
		return U32
	}
	return U64
}

// wide is the type of twice the size.
func (t Type) wide() Type {
	switch t {
	case U16:
		return U32
	case S16:
		return S32
	case U32:
		return U64
	case S32:
		return S64
	}
	return NoType
}

// integers takes the type of an operation that is executed here on integers; one on floats is compiled by another function.
func (o *operation) integers(floats func(*operation, Type)) (t Type, ok bool) {
	if t = o.typ(); t.isFloat() {
		floats(o, t)
		return t, false
	}
	o.only(t, U16, U32, U64, S16, S32, S64)
	return t, true
}

// compileAdd compiles add and sub of integers; those of floats are elsewhere.
func compileAdd(o *operation) {
	t, ok := o.integers(compileFloatBinary)
	if !ok {
		return
	}
	if o.flag("cc") || o.Op[0] == "addc" || o.Op[0] == "subc" {
		compileCarry(o, t)
		return
	}
	o.want(3)
	isSub := o.Op[0] == "sub"
	fn := addLanes(t, isSub)
	if o.flag("sat") {
		o.only(t, S32)
		fn = typed2(S32, saturatingSum(isSub))
	}
	o.pure(IntegerClass, fn, o.dst(0, t), o.src(1, t), o.src(2, t))
}

func addLanes(t Type, isSub bool) lanes {
	mask := t.mask()
	if isSub {
		return func(d, a, b, _ *vec) {
			for l := range d {
				d[l] = (a[l] - b[l]) & mask
			}
		}
	}
	return func(d, a, b, _ *vec) {
		for l := range d {
			d[l] = (a[l] + b[l]) & mask
		}
	}
}

func saturatingSum(isSub bool) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 {
		if isSub {
			b = -b
		}
		return uint64(min(max(int64(a+b), -1<<31), 1<<31-1))
	}
}

// compileCarry compiles the operations that read or write the carry: add.cc, addc, sub.cc, subc.
func compileCarry(o *operation, t Type) {
	o.only(t, U32, S32, U64, S64)
	o.want(3)
	reads, isSub := o.Op[0] == "addc" || o.Op[0] == "subc", o.Op[0][0] == 's'
	d, a, b := o.dst(0, t), o.src(1, t), o.src(2, t)
	writes := o.Op[len(o.Op)-1] == "cc" || len(o.Op) > 2 && o.Op[1] == "cc"
	size := uint(8 * t.Size())
	o.step.class = IntegerClass
	o.step.exec = func(w *warp, f *frame, m uint32) {
		carries := uint32(0)
		for ; m != 0; m &= m - 1 {
			l := firstLane(m)
			carry, flip := uint64(0), uint64(0)
			if isSub {
				flip = t.mask()
			}
			switch {
			case reads:
				carry = uint64(f.carry >> l & 1)
			case isSub:
				carry = 1 // a-b is a + ^b + 1
			}
			sum, high := bits.Add64(f.v[a][l], f.v[b][l]^flip, carry)
			if size == 32 {
				high = sum >> 32
			}
			f.v[d][l] = sum & t.mask()
			carries |= uint32(high&1) << l
			if writes {
				f.carry = f.carry&^(1<<l) | carries&(1<<l)
			}
		}
	}
}

// compileMul compiles mul, mad, mul24 and mad24 of integers.
func compileMul(o *operation) {
	t, ok := o.integers(compileFloatMul)
	if !ok {
		return
	}
	part := o.one("lo", "hi", "wide")
	isMad := o.Op[0] == "mad" || o.Op[0] == "mad24"
	result := t
	if part == "wide" {
		o.only(t, U16, U32, S16, S32)
		result = t.wide()
	}
	fn := product(t, part)
	if part == "" {
		o.fail("one of .lo, .hi and .wide is missing")
		return
	}
	if o.Op[0] == "mul24" || o.Op[0] == "mad24" {
		o.only(t, U32, S32)
		fn = product24(t, part)
	}
	if !isMad {
		o.want(3)
		if quick := products[t][part]; quick != nil && o.Op[0] == "mul" {
			o.pure(IntegerClass, quick, o.dst(0, result), o.src(1, t), o.src(2, t))
			return
		}
		o.pure(IntegerClass, typed3(t, result, func(a, b, _ uint64) uint64 { return fn(a, b) }), o.dst(0, result), o.src(1, t), o.src(2, t))
		return
	}
	o.want(4)
	if quick := sums[t][part]; quick != nil && o.Op[0] == "mad" {
		o.pure(IntegerClass, quick, o.dst(0, result), o.src(1, t), o.src(2, t), o.src(3, result))
		return
	}
	sum := func(a, b, c uint64) uint64 { return fn(a, b) + c }
	o.pure(IntegerClass, typed3(t, result, sum), o.dst(0, result), o.src(1, t), o.src(2, t), o.src(3, result))
}

// products and sums are the common products, and sums of a product and a number, by type and part.
var (
	products = map[Type]map[string]lanes{
		S32: {"lo": mulLow32, "wide": mulWideSigned}, U32: {"lo": mulLow32, "wide": mulLow64}, S64: {"lo": mulLow64}, U64: {"lo": mulLow64},
	}
	sums = map[Type]map[string]lanes{S32: {"lo": madLow32, "wide": madWideSigned}, U32: {"lo": madLow32, "wide": madLow64}, S64: {"lo": madLow64}, U64: {"lo": madLow64}}
)

func mulLow64(d, a, b, _ *vec) {
	for l := range d {
		d[l] = a[l] * b[l]
	}
}

func madLow64(d, a, b, c *vec) {
	for l := range d {
		d[l] = a[l]*b[l] + c[l]
	}
}

func mulWideSigned(d, a, b, _ *vec) {
	for l := range d {
		d[l] = uint64(int64(int32(a[l])) * int64(int32(b[l])))
	}
}

func madWideSigned(d, a, b, c *vec) {
	for l := range d {
		d[l] = uint64(int64(int32(a[l]))*int64(int32(b[l]))) + c[l]
	}
}

func mulLow32(d, a, b, _ *vec) {
	for l := range d {
		d[l] = uint64(uint32(a[l]) * uint32(b[l]))
	}
}

func madLow32(d, a, b, c *vec) {
	for l := range d {
		d[l] = uint64(uint32(a[l])*uint32(b[l]) + uint32(c[l]))
	}
}

// product is the part of a product that a modifier names.
func product(t Type, part string) func(a, b uint64) uint64 {
	if part != "hi" {
		return func(a, b uint64) uint64 { return a * b }
	}
	if t.Size() < 8 {
		shift := 8 * uint(t.Size())
		return func(a, b uint64) uint64 { return uint64(int64(a*b) >> shift) }
	}
	if !t.isSigned() {
		return func(a, b uint64) uint64 { hi, _ := bits.Mul64(a, b); return hi }
	}
	return func(a, b uint64) uint64 {
		hi, _ := bits.Mul64(a, b)
		return hi - b&uint64(int64(a)>>63) - a&uint64(int64(b)>>63)
	}
}

// product24 multiplies the low 24 bits; .hi are bits 16 to 47 of the 48.
func product24(t Type, part string) func(a, b uint64) uint64 {
	cut := func(v uint64) uint64 { return v & (1<<24 - 1) }
	if t.isSigned() {
		cut = func(v uint64) uint64 { return uint64(int64(v<<40) >> 40) }
	}
	shift := uint(0)
	if part == "hi" {
		shift = 16
	}
	return func(a, b uint64) uint64 { return uint64(int64(cut(a)*cut(b)) >> shift) }
}

// divide and remainder give all ones and the dividend for a divisor of zero, where PTX leaves the result open.
func divide(t Type) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 {
		switch {
		case b == 0:
			return ^uint64(0)
		case t.isSigned():
			return uint64(int64(a) / int64(b))
		}
		return a / b
	}
}

func remainder(t Type) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 {
		switch {
		case b == 0:
			return a
		case t.isSigned():
			return uint64(int64(a) % int64(b))
		}
		return a % b
	}
}

func smaller(t Type) func(a, b uint64) uint64 {
	if t.isSigned() {
		return func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) }
	}
	return func(a, b uint64) uint64 { return min(a, b) }
}

func larger(t Type) func(a, b uint64) uint64 {
	if t.isSigned() {
		return func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) }
	}
	return func(a, b uint64) uint64 { return max(a, b) }
}

// compileDiv compiles div and rem.
func compileDiv(o *operation) { compileEither(o, compileFloatDiv, divide, "rem", remainder) }

// compileMinMax compiles min and max.
func compileMinMax(o *operation) { compileEither(o, compileFloatMinMax, smaller, "max", larger) }

// compileEither compiles one of two operators of integers, the second of that name, and of floats by another rule.
func compileEither(o *operation, floats func(*operation, Type), first func(Type) func(a, b uint64) uint64, name string, second func(Type) func(a, b uint64) uint64) {
	t, ok := o.integers(floats)
	if !ok {
		return
	}
	o.want(3)
	fn := first(t)
	if o.Op[0] == name {
		fn = second(t)
	}
	all := typed2(t, fn)
	if quick := short[o.Op[0]][t]; quick != nil {
		all = quick
	}
	o.pure(IntegerClass, all, o.dst(0, t), o.src(1, t), o.src(2, t))
}

// short are divisions in 32 bits, which processors do in less time.
var short = map[string]map[Type]lanes{
	"div": {
		U32: func(d, a, b, _ *vec) {
			for l := range d {
				if y := uint32(b[l]); y != 0 {
					d[l] = uint64(uint32(a[l]) / y)
				} else {
					d[l] = 1<<32 - 1
				}
			}
		},
		S32: func(d, a, b, _ *vec) {
			for l := range d {
				if y := int32(b[l]); y != 0 {
					d[l] = uint64(uint32(int32(a[l]) / y))
				} else {
					d[l] = 1<<32 - 1
				}
			}
		},
	},
	"rem": {
		U32: func(d, a, b, _ *vec) {
			for l := range d {
				if y := uint32(b[l]); y != 0 {
					d[l] = uint64(uint32(a[l]) % y)
				} else {
					d[l] = a[l]
				}
			}
		},
		S32: func(d, a, b, _ *vec) {
			for l := range d {
				if y := int32(b[l]); y != 0 {
					d[l] = uint64(uint32(int32(a[l]) % y))
				} else {
					d[l] = a[l]
				}
			}
		},
	},
}

// compileSign compiles neg and abs.
func compileSign(o *operation) {
	t := o.typ()
	if t.isFloat() {
		compileFloatSign(o, t)
		return
	}
	o.only(t, S16, S32, S64)
	o.want(2)
	isAbs := o.Op[0] == "abs"
	o.pure(IntegerClass, typed2(t, func(a, _ uint64) uint64 {
		if isAbs && int64(a) >= 0 {
			return a
		}
		return -a
	}), o.dst(0, t), o.src(1, t))
}

// compileSad compiles the sum of an absolute difference and a number.
func compileSad(o *operation) {
	t := o.typ()
	o.only(t, U16, U32, U64, S16, S32, S64)
	o.want(4)
	less := smaller(t)
	o.pure(IntegerClass, typed3(t, t, func(a, b, c uint64) uint64 {
		if less(a, b) == a {
			return c + b - a
		}
		return c + a - b
	}), o.dst(0, t), o.src(1, t), o.src(2, t), o.src(3, t))
}

// compileDot compiles dp4a and dp2a: sums of products of bytes, or of halves and bytes, and a number.
func compileDot(o *operation) {
	isDp2 := o.Op[0] == "dp2a"
	half := uint(0)
	if isDp2 && o.one("lo", "hi") == "hi" {
		half = 16
	}
	ta, tb := o.typ(), o.typ()
	o.only(ta, U32, S32)
	o.only(tb, U32, S32)
	o.want(4)
	of := func(t Type, size uint) func(v uint64, i uint) uint64 {
		shift := 64 - size
		if t.isSigned() {
			return func(v uint64, i uint) uint64 { return uint64(int64(v>>(i*size)<<shift) >> shift) }
		}
		return func(v uint64, i uint) uint64 { return v >> (i * size) << shift >> shift }
	}
	count, wideA := uint(4), uint(8)
	if isDp2 {
		count, wideA = 2, 16
	}
	partA, partB := of(ta, wideA), of(tb, 8)
	o.pure(IntegerClass, each3(func(a, b, c uint64) uint64 {
		for i := range count {
			c += partA(a, i) * partB(b>>half, i)
		}
		return c & (1<<32 - 1)
	}), o.dst(0, U32), o.src(1, U32), o.src(2, U32), o.src(3, U32))
}
