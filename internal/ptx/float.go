package ptx

import "math"

// Floating-point arithmetic. float32 to nearest is Go's own, which never fuses across an explicit conversion; other directions
// and half types go through float64 values rounded to odd, see rounding.go.

// style is how an operation treats its operands and its result.
type style struct {
	mode  mode
	flush bool // denormal operands and results are zeros
	sat   bool // results are clamped to [0, 1], not-a-number to 0
	relu  bool // results are at least 0
}

func (o *operation) style() style {
	return style{
		mode:  mode(orDefault(o.one("rn", "rz", "rm", "rp"), "rn")),
		flush: o.flag("ftz"), sat: o.flag("sat"), relu: o.flag("relu"),
	}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// isPlain: what Go's own arithmetic does.
func (s style) isPlain() bool { return s == style{mode: toNearest} }

// finish rounds a value that was rounded to odd, and encodes it.
func (s style) finish(t Type, v float64) uint64 {
	if t == F32 {
		v = float64(round32(v, s.mode))
	} else {
		v = formats[t].round(v, s.mode)
	}
	if s.sat {
		v = clampUnit(v)
	}
	if s.relu && !(v > 0) && !math.IsNaN(v) {
		v = 0
	}
	if t != F32 {
		u := formats[t].encode(v)
		if s.flush && (t == F16 || t == F16x2) {
			u = flushedHalf(u)
		}
		return u
	}
	u := bits32(float32(v))
	if s.flush {
		u = flushed(u)
	}
	return u
}

// flushedHalf replaces a denormal half by zero of its sign.
func flushedHalf(u uint64) uint64 {
	if u&0x7c00 == 0 {
		return u & (1 << 15)
	}
	return u
}

func clampUnit(v float64) float64 {
	if !(v > 0) { // also not-a-number
		return 0
	}
	return min(v, 1)
}

// operandOf decodes an operand.
func (s style) operandOf(t Type, u uint64) float64 {
	if t == F64 {
		return math.Float64frombits(u)
	}
	if t == F32 {
		if s.flush {
			u = flushed(u)
		}
		return float64(float32Of(u))
	}
	if s.flush && (t == F16 || t == F16x2) {
		u = flushedHalf(u)
	}
	return formats[t].decode(u)
}

// general makes a function of up to three operands from one of float64s that rounds to odd; both halves of packed types.
func (s style) general(t Type, f func(a, b, c float64) float64) lanes {
	one := func(a, b, c uint64) uint64 {
		return s.finish(t, f(s.operandOf(t, a), s.operandOf(t, b), s.operandOf(t, c)))
	}
	if t == F16x2 || t == BF16x2 {
		return each3(func(a, b, c uint64) uint64 {
			const low = 1<<16 - 1
			return one(a&low, b&low, c&low) | one(a>>16, b>>16, c>>16)<<16
		})
	}
	return each3(one)
}

func (t Type) floatClass() Class {
	switch t {
	case F32:
		return Float32Class
	case F64:
		return Float64Class
	}
	return HalfClass
}

// flopsOf is how many operations an element-wise instruction counts, n for each element.
func (t Type) flopsOf(n int) int {
	if t == F16x2 || t == BF16x2 {
		return 2 * n
	}
	return n
}

// add64 is a sum in float64 in any direction.
func add64(a, b float64, m mode) float64 {
	s := a + b
	t := s - a
	return limited(zeroOf(direct(s, (a-(s-t))+(b-t), m), a, b, m), m, a, b)
}

// zeroOf gives a sum that is zero the sign that a direction asks for: two operands that cancel give -0 downwards.
func zeroOf(s, a, b float64, m mode) float64 {
	if s == 0 && m == downwards && math.Signbit(a) != math.Signbit(b) {
		return math.Copysign(0, -1)
	}
	return s
}

// limited replaces an infinite result of finite operands by the largest number, where the direction asks for it.
func limited(s float64, m mode, operands ...float64) float64 {
	if !math.IsInf(s, 0) || m == toNearest || m == "" || m == downwards && s < 0 || m == upwards && s > 0 {
		return s
	}
	for _, v := range operands {
		if math.IsInf(v, 0) {
			return s
		}
	}
	return math.Copysign(math.MaxFloat64, s)
}

// direct moves a float64 rounded to nearest to the neighbour that a direction asks for; lost is what rounding lost.
func direct(s, lost float64, m mode) float64 {
	if m == toNearest || lost == 0 || math.IsNaN(lost) || math.IsInf(s, 0) {
		return s
	}
	switch {
	case lost < 0 && (m == downwards || m == toZero && s > 0):
		return math.Nextafter(s, math.Inf(-1))
	case lost > 0 && (m == upwards || m == toZero && s < 0):
		return math.Nextafter(s, math.Inf(1))
	}
	return s
}

// compileFloatBinary compiles add and sub.
func compileFloatBinary(o *operation, t Type) {
	s := o.style()
	o.want(3)
	isSub := o.Op[0] == "sub"
	sign := 1.0
	if isSub {
		sign = -1
	}
	var fn lanes
	switch {
	case t == F32 && s.isPlain() && isSub:
		fn = subFloat32
	case t == F32 && s.isPlain():
		fn = addFloat32
	case t == F64:
		fn = each2(func(a, b uint64) uint64 {
			return math.Float64bits(add64(math.Float64frombits(a), sign*math.Float64frombits(b), s.mode))
		})
	default:
		fn = s.general(t, func(a, b, _ float64) float64 { return zeroOf(sumOdd(a, sign*b), a, sign*b, s.mode) })
	}
	o.step.flops = t.flopsOf(1)
	o.pure(t.floatClass(), fn, o.dst(0, t), o.src(1, t), o.src(2, t))
}

func addFloat32(d, a, b, _ *vec) {
	if isWide {
		addWide(d, a, b)
		return
	}
	for l := range d {
		d[l] = bits32(float32Of(a[l]) + float32Of(b[l]))
	}
}

func subFloat32(d, a, b, _ *vec) {
	if isWide {
		subWide(d, a, b)
		return
	}
	for l := range d {
		d[l] = bits32(float32Of(a[l]) - float32Of(b[l]))
	}
}

func mulFloat32(d, a, b, _ *vec) {
	if isWide {
		mulWide(d, a, b)
		return
	}
	for l := range d {
		d[l] = bits32(float32Of(a[l]) * float32Of(b[l]))
	}
}

func fmaFloat32(d, a, b, c *vec) {
	if isWide {
		fmaWide(d, a, b, c)
		return
	}
	for l := range d {
		x, y, z := float32Of(a[l]), float32Of(b[l]), float32Of(c[l])
		s := float64(x)*float64(y) + float64(z)
		if r := float32(s); !mayRoundTwice(s, r) {
			d[l] = bits32(r)
		} else {
			d[l] = bits32(fma32(x, y, z))
		}
	}
}

// compileFloatMul compiles mul, and mad where it means fma.
func compileFloatMul(o *operation, t Type) {
	if o.Op[0] == "mad" {
		fusedSum(o, t)
		return
	}
	s := o.style()
	o.want(3)
	var fn lanes
	switch {
	case t == F32 && s.isPlain():
		fn = mulFloat32
	case t == F64:
		fn = each2(func(a, b uint64) uint64 {
			x, y := math.Float64frombits(a), math.Float64frombits(b)
			p := x * y
			return math.Float64bits(limited(direct(p, math.FMA(x, y, -p), s.mode), s.mode, x, y))
		})
	default:
		fn = s.general(t, func(a, b, _ float64) float64 { return a * b }) // exact
	}
	o.step.flops = t.flopsOf(1)
	o.pure(t.floatClass(), fn, o.dst(0, t), o.src(1, t), o.src(2, t))
}

// compileFma compiles fma.
func compileFma(o *operation) { fusedSum(o, o.typ()) }

func fusedSum(o *operation, t Type) {
	s := o.style()
	o.want(4)
	var fn lanes
	switch {
	case t == F32 && s.isPlain():
		fn = fmaFloat32
	case t == F64:
		if s.mode != toNearest {
			o.fail("float64 is fused to nearest only")
		}
		fn = each3(func(a, b, c uint64) uint64 {
			return math.Float64bits(math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c)))
		})
	default:
		fn = s.general(t, func(a, b, c float64) float64 { return zeroOf(sumOdd(a*b, c), a*b, c, s.mode) })
	}
	o.step.flops = t.flopsOf(2)
	o.pure(t.floatClass(), fn, o.dst(0, t), o.src(1, t), o.src(2, t), o.src(3, t))
}

// quotient64 is a quotient in float64 in any direction. Numbers are brought to the size of one, where what is lost can be told.
func quotient64(a, b float64, m mode) float64 {
	if q := a / b; m == toNearest || m == "" || a == 0 || b == 0 || math.IsInf(a, 0) || math.IsInf(b, 0) || math.IsNaN(q) {
		return q
	}
	x, high := math.Frexp(a)
	y, low := math.Frexp(b)
	q := x / y
	lost := math.FMA(-q, y, x)
	if y < 0 {
		lost = -lost
	}
	return limited(math.Ldexp(direct(q, lost, m), high-low), m)
}

// compileFloatDiv compiles div. Where PTX allows an error (.approx, .full), the result is the exact one, or as wrong as may be.
func compileFloatDiv(o *operation, t Type) {
	isApprox := o.one("approx", "full") != ""
	s := o.style()
	o.only(t, F32, F64)
	o.want(3)
	f := func(a, b, _ float64) float64 { return quotientOdd(a, b) }
	if isApprox && o.options.Errors != 0 {
		f = o.options.wrong("div", t, f)
	}
	fn := s.general(t, f)
	if t == F64 {
		fn = each2(func(a, b uint64) uint64 {
			return math.Float64bits(quotient64(math.Float64frombits(a), math.Float64frombits(b), s.mode))
		})
	}
	class := t.floatClass()
	if isApprox {
		class = SpecialClass
	}
	o.step.flops = 1
	o.pure(class, fn, o.dst(0, t), o.src(1, t), o.src(2, t))
}

// compileFloatMinMax compiles min and max: a number wins over not-a-number, unless .NaN says otherwise; -0 is below +0.
func compileFloatMinMax(o *operation, t Type) {
	propagates := o.flag("NaN")
	xor := o.flag("xorsign")
	if xor {
		o.fail(".xorsign is not executed here")
	}
	s := o.style()
	o.want(3)
	pick := math.Min
	if o.Op[0] == "max" {
		pick = math.Max
	}
	fn := func(a, b, _ float64) float64 {
		switch {
		case math.IsNaN(a) && propagates || math.IsNaN(b) && !propagates:
			return a
		case math.IsNaN(a) || math.IsNaN(b):
			return b
		}
		return pick(a, b)
	}
	all := s.general(t, fn)
	if t == F32 && s.isPlain() {
		all = pickFloat32(o.Op[0] == "max", propagates)
	}
	o.step.flops = t.flopsOf(1)
	o.pure(t.floatClass(), all, o.dst(0, t), o.src(1, t), o.src(2, t))
}

// pickFloat32 is min or max of float32.
func pickFloat32(isMax, propagates bool) lanes {
	flip := uint32(0) // the larger of two is the smaller of both with other signs
	if isMax {
		flip = 1 << 31
	}
	return func(d, a, b, _ *vec) {
		for l := range d {
			u, v := uint32(a[l]), uint32(b[l])
			x, y := math.Float32frombits(u^flip), math.Float32frombits(v^flip)
			switch {
			case x < y:
			case y < x:
				u = v
			case x == y: // zeros may differ in sign
				if (u^flip)|(v^flip) == 1<<31 {
					u = 1<<31 ^ flip
				}
			case propagates || x != x && y != y:
				u = canonicalNaN
			case x != x:
				u = v
			}
			d[l] = uint64(u)
		}
	}
}

// compileFloatSign compiles neg and abs, which change the sign alone.
func compileFloatSign(o *operation, t Type) {
	s := o.style()
	o.want(2)
	signs := uint64(1) << (8*t.Size() - 1)
	if t == F16x2 || t == BF16x2 {
		signs = 1<<31 | 1<<15
	}
	isAbs := o.Op[0] == "abs"
	o.pure(t.floatClass(), each1(func(a uint64) uint64 {
		if s.flush && t == F32 {
			a = flushed(a)
		}
		if isAbs {
			return a &^ signs
		}
		return a ^ signs
	}), o.dst(0, t), o.src(1, t))
}

// compileCopySign compiles copysign: the magnitude of b with the sign of a.
func compileCopySign(o *operation) {
	t := o.typ()
	o.only(t, F32, F64)
	o.want(3)
	sign := uint64(1) << (8*t.Size() - 1)
	o.pure(t.floatClass(), each2(func(a, b uint64) uint64 { return a&sign | b&^sign }), o.dst(0, t), o.src(1, t), o.src(2, t))
}

// functions are the special functions, computed in float64. PTX states an error for the .approx forms (approximate.go); a float64 rounded once is
// within all of them.
var functions = map[string]func(float64) float64{
	"rcp":   func(x float64) float64 { return quotientOdd(1, x) },
	"sqrt":  rootOdd,
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"ex2":   math.Exp2,
	"lg2":   math.Log2,
	"sin":   math.Sin,
	"cos":   math.Cos,
	"tanh":  math.Tanh,
}

// compileFunction compiles one of the special functions.
func compileFunction(o *operation) {
	isApprox := o.flag("approx")
	t := o.typ()
	s := o.style()
	o.want(2)
	f := func(a, _, _ float64) float64 { return functions[o.Op[0]](a) }
	isWrong := isApprox && o.options.Errors != 0
	if isWrong && t != F64 {
		f = o.options.wrong(o.Op[0], t, f)
	}
	fn := s.general(t, f)
	if t == F64 {
		fn = each1(func(a uint64) uint64 { return math.Float64bits(function64(o.Op[0], math.Float64frombits(a), s.mode)) })
		if isApprox && s.flush {
			fn = each1(func(a uint64) uint64 {
				y := roughly(o.Op[0], a)
				if isWrong {
					return o.options.wrongHalf(o.Op[0], a, y)
				}
				return y
			})
		}
	}
	class := t.floatClass()
	if isApprox {
		class = SpecialClass
	}
	o.step.flops = t.flopsOf(1)
	o.pure(class, fn, o.dst(0, t), o.src(1, t))
}

// roughly is rcp or rsqrt of a float64 as .approx.ftz has it: the lower 32 bits of operand and result are zeros, and denormal numbers, too.
func roughly(name string, a uint64) uint64 {
	const upper, exponent, sign = 0xffffffff << 32, 0x7ff << 52, 1 << 63
	flush := func(u uint64) uint64 {
		if u &= upper; u&exponent == 0 {
			return u & sign
		}
		return u
	}
	if v := math.Float64frombits(a); math.IsNaN(v) { // also one whose upper half is that of infinity
		return math.Float64bits(v) | 1<<51
	}
	return flush(math.Float64bits(functions[name](math.Float64frombits(flush(a)))))
}

// function64 is a special function of a float64, rounded in a direction where the function is exact otherwise.
func function64(name string, x float64, m mode) float64 {
	switch name {
	case "rcp":
		return quotient64(1, x, m)
	case "sqrt":
		if x > 0 && x < 0x1p-900 { // or what is lost would be denormal
			return function64(name, x*0x1p600, m) * 0x1p-300
		}
		r := math.Sqrt(x)
		return direct(r, math.FMA(-r, r, x), m)
	}
	return functions[name](x)
}

// compileTest compiles testp: a predicate of a float's kind.
func compileTest(o *operation) {
	kind := o.one("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := o.typ()
	o.only(t, F32, F64)
	o.want(2)
	d, a := o.dst(0, Pred), o.src(1, t)
	f := formats[t]
	if kind == "" {
		o.fail("the kind of numbers is missing")
	}
	holds := func(u uint64) bool {
		v := math.Abs(f.decode(u))
		isNormal := (v == 0 || v >= math.Ldexp(1, f.smallest)) && !math.IsInf(v, 0) // zeros count as normal numbers
		switch kind {
		case "finite":
			return !math.IsInf(v, 0) && !math.IsNaN(v)
		case "infinite":
			return math.IsInf(v, 0)
		case "number":
			return !math.IsNaN(v)
		case "notanumber":
			return math.IsNaN(v)
		case "normal":
			return isNormal
		}
		return v > 0 && v < math.Ldexp(1, f.smallest)
	}
	o.step.class = t.floatClass()
	o.step.exec = func(_ *warp, f *frame, m uint32) {
		f.setPred(d, maskWhere(func(l int) bool { return holds(f.v[a][l]) }), m)
	}
}

// maskWhere is the mask of the lanes for which something holds.
func maskWhere(holds func(l int) bool) (m uint32) {
	for l := range 32 {
		if holds(l) {
			m |= 1 << l
		}
	}
	return m
}
