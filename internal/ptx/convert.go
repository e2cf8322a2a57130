package ptx

import "math"

// Conversions between types: cvt, with every direction of rounding; cvta, between kinds of addresses.

// compileConvert compiles cvt. Registers may be wider than the types: a source is cut, a result extended.
func compileConvert(o *operation) {
	whole := o.one("rni", "rzi", "rmi", "rpi")
	s := style{mode: mode(o.one("rna", "rn", "rz", "rm", "rp")), flush: o.flag("ftz"), sat: o.flag("sat"), relu: o.flag("relu")}
	to, from := o.typ(), o.typ()
	if to == F16x2 || to == BF16x2 {
		compilePack(o, s, to, from)
		return
	}
	o.want(2)
	if to.isFloat() && from.isFloat() && to.Size() < from.Size() && s.mode == "" || to.isFloat() && !from.isFloat() && s.mode == "" {
		o.fail("a direction of rounding is missing")
	}
	if whole == "" && !to.isFloat() && from.isFloat() {
		o.fail("a direction of rounding to whole numbers is missing")
	}
	register := o.register(o.arg(0), to, true).typ
	d, a := o.dstOf(o.arg(0), to, true), o.srcOf(o.arg(1), from, true)
	fn := convertor(s, to, from, wholeMode(whole))
	mask, cut := register.mask(), from.mask()
	all := each1(func(a uint64) uint64 { return to.extended(fn(a&cut)) & mask })
	switch {
	case !to.isFloat() && !from.isFloat() && !s.sat:
		all = betweenIntegers(to, from, mask)
	case to == F32 && !from.isFloat() && from.Size() <= 4 && s == style{mode: toNearest}:
		all = each1(func(a uint64) uint64 { return uint64(math.Float32bits(float32(int64(from.extended(a))))) })
	}
	o.pure(ConvertClass, all, d, a)
}

// betweenIntegers cuts or extends integers to another type, and that to a register.
func betweenIntegers(to, from Type, register uint64) lanes {
	in, out := uint64(64-8*from.Size()), uint64(64-8*to.Size())
	switch {
	case to.Size() < from.Size() || to.isSigned() == from.isSigned() && to.Size() == from.Size(): // what is cut off does not matter
		in = out
		if !to.isSigned() {
			cut := register & to.mask()
			return func(d, a, _, _ *vec) {
				for l := range d {
					d[l] = a[l] & cut
				}
			}
		}
	case !from.isSigned():
		if to.isSigned() && to.Size() == from.Size() {
			break
		}
		cut := register & from.mask()
		return func(d, a, _, _ *vec) {
			for l := range d {
				d[l] = a[l] & cut
			}
		}
	case !to.isSigned(): // the sign goes up to the size of the result
		register &= to.mask()
	}
	return func(d, a, _, _ *vec) {
		for l := range d {
			d[l] = uint64(int64(a[l]<<(in&63))>>(in&63)) & register
		}
	}
}

// wholeMode is the direction of .rni, .rzi, .rmi and .rpi; empty for none.
func wholeMode(name string) mode {
	if name == "" {
		return ""
	}
	return mode(name[:2])
}

// convertor is the function of a conversion, from bits to bits.
func convertor(s style, to, from Type, whole mode) func(a uint64) uint64 {
	switch {
	case !to.isFloat() && !from.isFloat():
		return func(a uint64) uint64 { return integerFrom(s, to, from, a) }
	case !to.isFloat():
		notNumber := uint64(0)
		if from == F64 || to.Size() == 8 {
			notNumber = 1 << (8*to.Size() - 1)
		}
		return func(a uint64) uint64 {
			v := s.operandOf(from, a)
			if math.IsNaN(v) {
				return notNumber
			}
			return wholeFrom(to, v, whole)
		}
	case !from.isFloat():
		return func(a uint64) uint64 { return floatFromInteger(s, to, from, a) }
	}
	return func(a uint64) uint64 {
		v := s.operandOf(from, a)
		if whole != "" {
			v = math.Copysign(roundWhole(v, whole), v)
		}
		if to == F64 {
			if s.sat {
				v = clampUnit(v)
			}
			return math.Float64bits(v)
		}
		u := s.finish(to, v)
		if to == TF32 { // the bits of a float32, the last ones zero
			return u << 13
		}
		return u
	}
}

// integerFrom converts between integers; .sat clamps to the range of the result.
func integerFrom(s style, to, from Type, a uint64) uint64 {
	v := from.extended(a)
	if !s.sat {
		return v & to.mask()
	}
	isNegative := from.isSigned() && int64(v) < 0
	low, high := limits(to)
	switch {
	case isNegative && int64(v) < low:
		return uint64(low) & to.mask()
	case !isNegative && v > high:
		return high
	}
	return v & to.mask()
}

// limits are the smallest and the largest value of an integer type.
func limits(t Type) (low int64, high uint64) {
	if !t.isSigned() {
		return 0, t.mask()
	}
	return -1 << (8*t.Size() - 1), t.mask() >> 1
}

// wholeFrom converts a number to an integer: rounded, clamped to the range.
func wholeFrom(to Type, v float64, whole mode) uint64 {
	v = roundWhole(v, whole)
	low, high := limits(to)
	switch {
	case v <= float64(low):
		return uint64(low) & to.mask()
	case v >= float64(high): // 2 to the power of 63 or 64 is beyond the largest value
		return high
	case v < 0:
		return uint64(int64(v)) & to.mask()
	}
	return uint64(v)
}

// floatFromInteger rounds an integer to a float. One of 64 bits is first cut to what a float64 holds, rounded to odd.
func floatFromInteger(s style, to, from Type, a uint64) uint64 {
	v := from.extended(a)
	sign := 1.0
	if from.isSigned() && int64(v) < 0 {
		v, sign = -v, -1
	}
	high := sign * float64(v>>32) * 0x1p32
	low := sign * float64(v&(1<<32-1))
	if to == F64 {
		return math.Float64bits(add64(high, low, s.mode))
	}
	return s.finish(to, sumOdd(high, low))
}

// compilePack compiles the conversion of two floats to the two halves of 32 bits, the first operand to the upper one.
func compilePack(o *operation, s style, to, from Type) {
	o.only(from, F32)
	o.want(3)
	s.mode = mode(orDefault(string(s.mode), "rn"))
	part := F16
	if to == BF16x2 {
		part = BF16
	}
	o.pure(ConvertClass, each2(func(a, b uint64) uint64 {
		return s.finish(part, s.operandOf(F32, a))<<16 | s.finish(part, s.operandOf(F32, b))
	}), o.dst(0, B32), o.src(1, F32), o.src(2, F32))
}

// Generic addresses: global ones are themselves, the other spaces have windows of their own.
var windowOf = map[Space]uint64{Global: 0, Shared: 1 << 56, Local: 2 << 56, Const: 3 << 56, Param: 4 << 56}

// spaceOf is the space that a generic address lies in, and the address there.
func spaceOf(addr uint64) (Space, uint64) {
	for space, start := range windowOf {
		if space != Global && addr>>56 == start>>56 {
			return space, addr - start
		}
	}
	return Global, addr
}

// compileConvertAddress compiles cvta and cvta.to.
func compileConvertAddress(o *operation) {
	isTo := o.flag("to")
	space := spaceNames[o.one("global", "shared", "local", "const", "param")]
	o.flag("cta")
	t := o.typ()
	o.only(t, U64)
	o.want(2)
	if space == Generic {
		o.fail("the space is missing")
	}
	start := windowOf[space]
	if isTo {
		start = -start
	}
	a := o.arg(1)
	d := o.dst(0, t)
	if isVariable, _ := o.isVariable(a.Name); a.Kind == nameOperand && isVariable {
		o.address(d, a, start)
		return
	}
	k := o.constant(start)
	o.pure(MoveClass, addLanes(U64, false), d, o.src(1, t), k)
}

// isVariable reports whether a name is a variable, whose address is meant.
func (o *operation) isVariable(name string) (bool, symbol) {
	if name == "" || specialRegisters[name] != nil {
		return false, symbol{}
	}
	s, err := o.lookup(name)
	return err == nil && !s.isRegister && s.space != Generic, s
}

// address compiles the address of a variable, plus a number.
func (o *operation) address(d int32, a Operand, plus uint64) {
	_, s := o.isVariable(a.Name)
	if s.space == Global {
		o.step.origin = o.kernel.originOf(-1 - s.at)
	}
	o.step.class = MoveClass
	o.step.exec = func(w *warp, f *frame, m uint32) {
		at := f.base(w, s) + uint64(a.Offset) + plus
		for ; m != 0; m &= m - 1 {
			f.v[d][firstLane(m)] = at
		}
	}
}

// compileIsSpace compiles isspacep.
func compileIsSpace(o *operation) {
	space := spaceNames[o.one("global", "shared", "local", "const", "param")]
	o.flag("cta")
	o.want(2)
	d, a := o.dst(0, Pred), o.src(1, U64)
	o.step.class = MoveClass
	o.step.exec = func(_ *warp, f *frame, m uint32) {
		f.setPred(d, maskWhere(func(l int) bool { s, _ := spaceOf(f.v[a][l]); return s == space }), m)
	}
}

// compileMove compiles mov: of registers, numbers, addresses, predicates; packing and unpacking of vectors.
func compileMove(o *operation) {
	t := o.typ()
	o.want(2)
	o.step.isMove = true
	o.step.class = MoveClass
	d, a := o.arg(0), o.arg(1)
	isVariable, _ := o.isVariable(a.Name)
	switch {
	case t == Pred:
		compileMovePredicate(o)
	case d.Kind == vectorOperand:
		unpackVector(o, t, d, a)
	case a.Kind == vectorOperand:
		packVector(o, t, d, a)
	case a.Kind == nameOperand && isVariable:
		o.address(o.dst(0, t), a, 0)
	default:
		o.pure(MoveClass, func(d, a, _, _ *vec) { *d = *a }, o.dst(0, t), o.src(1, t))
	}
}

func compileMovePredicate(o *operation) {
	d := o.dst(0, Pred)
	o.step.isMove = false
	if a := o.arg(1); a.Kind == integerOperand {
		value := uint32(0)
		if a.Bits != 0 {
			value = allLanes
		}
		o.step.exec = func(_ *warp, f *frame, m uint32) { f.setPred(d, value, m) }
		return
	}
	p := o.pred(1)
	o.step.exec = func(_ *warp, f *frame, m uint32) { f.setPred(d, p.of(f), m) }
}

// part is the type of one of n parts of a type.
func (o *operation) part(t Type, n int) Type {
	if n == 0 || t.Size()%n != 0 {
		o.fail(".%s has no %d parts", t, n)
		return B32
	}
	switch t.Size() / n {
	case 1:
		return B8
	case 2:
		return B16
	case 4:
		return B32
	}
	return B64
}

func unpackVector(o *operation, t Type, d, a Operand) {
	part := o.part(t, len(d.Elems))
	width := uint(8 * part.Size())
	var to []int32
	for _, e := range d.Elems {
		k := int32(-1)
		if e.Kind != sinkOperand {
			k = o.dstOf(e, part, false)
		}
		to = append(to, k)
	}
	from := o.srcOf(a, t, false)
	o.step.exec = func(_ *warp, f *frame, m uint32) {
		v := *f.v[from]
		for i, k := range to {
			if k < 0 {
				continue
			}
			r := f.v[k]
			for n := m; n != 0; n &= n - 1 {
				l := firstLane(n)
				r[l] = v[l] >> (uint(i) * width) & part.mask()
			}
		}
	}
}

func packVector(o *operation, t Type, d, a Operand) {
	part := o.part(t, len(a.Elems))
	width := uint(8 * part.Size())
	var from []int32
	for _, e := range a.Elems {
		from = append(from, o.srcOf(e, part, false))
	}
	to := o.dstOf(d, t, false)
	o.step.exec = func(w *warp, f *frame, m uint32) {
		v := &w.lanes
		*v = vec{}
		for i, k := range from {
			for l := range v {
				v[l] |= f.v[k][l] << (uint(i) * width)
			}
		}
		blend(f.v[to], v, m)
	}
}
