package ptx

import "math"

// Comparisons: setp, set, and what is chosen by them: selp, slct.

// compileSetp compiles a comparison into one predicate, or into two of which the second is the opposite; either may be combined
// with a third predicate.
func compileSetp(o *operation) {
	compare, logic, t := o.comparison()
	d := o.arg(0)
	second := o.secondPred(&d)
	first := int32(-1)
	if d.Kind != sinkOperand {
		first = o.dstOf(d, Pred, false)
	}
	a, b := o.src(1, t), o.src(2, t)
	c := predicate{index: -1}
	if logic != "" {
		o.want(4)
		c = o.pred(3)
	} else {
		o.want(3)
	}
	o.step.class = IntegerClass
	o.step.exec = func(_ *warp, f *frame, m uint32) {
		yes := compare(f.v[a], f.v[b])
		no := ^yes
		if c.index >= 0 {
			with := c.of(f)
			yes, no = combine(logic, yes, with), combine(logic, no, with)
		}
		if first >= 0 {
			f.setPred(first, yes, m)
		}
		if second >= 0 {
			f.setPred(second, no, m)
		}
	}
}

// compileSet compiles a comparison into a register: all ones or 1.0 where it holds, else zero.
func compileSet(o *operation) {
	t := o.typ()
	compare, logic, source := o.comparison()
	one := t.mask()
	if t == F32 {
		one = uint64(math.Float32bits(1))
	}
	o.only(t, U32, S32, F32)
	d, a, b := o.dst(0, t), o.src(1, source), o.src(2, source)
	c := predicate{index: -1}
	if logic != "" {
		c = o.pred(3)
	}
	o.step.class = IntegerClass
	o.step.exec = func(_ *warp, f *frame, m uint32) {
		yes := compare(f.v[a], f.v[b])
		if c.index >= 0 {
			yes = combine(logic, yes, c.of(f))
		}
		for ; m != 0; m &= m - 1 {
			l := firstLane(m)
			f.v[d][l] = one & -uint64(yes>>l&1)
		}
	}
}

// comparison takes the modifiers of a comparison: relation, logical operation, type.
func (o *operation) comparison() (compare func(a, b *vec) uint32, logic string, t Type) {
	relation := o.one("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
	logic = o.one("and", "or", "xor")
	t = o.typ()
	s := o.style()
	if relation == "" {
		o.fail("the comparison is missing")
		return func(_, _ *vec) uint32 { return 0 }, logic, t
	}
	if t.isFloat() {
		return floatComparison(o, relation, t, s), logic, t
	}
	return integerComparison(o, relation, t), logic, t
}

// integerComparison compares in an order that works for signed and unsigned types: the sign bit of signed ones is flipped.
func integerComparison(o *operation, relation string, t Type) func(a, b *vec) uint32 {
	names := map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
	if n := names[relation]; n != "" {
		relation, t = n, t.unsigned()
	}
	o.only(t, B16, B32, B64, U16, U32, U64, S16, S32, S64)
	shift, flip := uint64(64-8*t.Size()), uint64(0)
	if !t.isSigned() {
		flip = 1 << 63
	}
	isAbove := func(a, b *vec) uint32 { return above(a, b, shift, flip) }
	switch relation {
	case "eq":
		return same
	case "ne":
		return func(a, b *vec) uint32 { return ^same(a, b) }
	case "lt":
		return func(a, b *vec) uint32 { return isAbove(b, a) }
	case "le":
		return func(a, b *vec) uint32 { return ^isAbove(a, b) }
	case "gt":
		return isAbove
	case "ge":
		return func(a, b *vec) uint32 { return ^isAbove(b, a) }
	}
	o.fail("integers have no relation .%s", relation)
	return same
}

// above is the mask of lanes where a is above b as signed numbers, after a shift to the left and a change of sign bits.
func above(a, b *vec, shift, flip uint64) (m uint32) {
	if isWide {
		return aboveWide(a, b, shift, flip)
	}
	for l := range a {
		if int64(a[l]<<(shift&63)^flip) > int64(b[l]<<(shift&63)^flip) {
			m |= 1 << l
		}
	}
	return m
}

// same is the mask of lanes where a and b are equal.
func same(a, b *vec) (m uint32) {
	if isWide {
		return sameWide(a, b)
	}
	for l := range a {
		if a[l] == b[l] {
			m |= 1 << l
		}
	}
	return m
}

// less32, equal32 and unordered32 compare float32s.
func less32(a, b *vec) (m uint32) {
	for l := range a {
		if float32Of(a[l]) < float32Of(b[l]) {
			m |= 1 << l
		}
	}
	return m
}

func equal32(a, b *vec) (m uint32) {
	for l := range a {
		if float32Of(a[l]) == float32Of(b[l]) {
			m |= 1 << l
		}
	}
	return m
}

func unordered32(a, b *vec) (m uint32) {
	for l := range a {
		if x, y := float32Of(a[l]), float32Of(b[l]); x != x || y != y {
			m |= 1 << l
		}
	}
	return m
}

// singles are the relations of float32s, without the u of those that also hold where an operand is not a number.
var singles = map[string]func(a, b *vec) uint32{
	"eq": equal32, "lt": less32, "nan": unordered32,
	"ne":  func(a, b *vec) uint32 { return less32(a, b) | less32(b, a) },
	"le":  func(a, b *vec) uint32 { return less32(a, b) | equal32(a, b) },
	"gt":  func(a, b *vec) uint32 { return less32(b, a) },
	"ge":  func(a, b *vec) uint32 { return less32(b, a) | equal32(a, b) },
	"num": func(a, b *vec) uint32 { return ^unordered32(a, b) },
}

// relations are those of floats.
var relations = map[string]func(a, b float64) bool{
	"eq":  func(a, b float64) bool { return a == b },
	"ne":  func(a, b float64) bool { return a < b || a > b },
	"lt":  func(a, b float64) bool { return a < b },
	"le":  func(a, b float64) bool { return a <= b },
	"gt":  func(a, b float64) bool { return a > b },
	"ge":  func(a, b float64) bool { return a >= b },
	"num": func(a, b float64) bool { return a == a && b == b },
	"nan": func(a, b float64) bool { return a != a || b != b },
}

// floatComparison: a relation that ends in u also holds where an operand is not a number.
func floatComparison(o *operation, relation string, t Type, s style) func(a, b *vec) uint32 {
	name := relation
	isUnordered := len(relation) == 3 && relation[2] == 'u'
	if isUnordered {
		name = relation[:2]
	}
	holds, quick := relations[name], singles[name]
	o.only(t, F16, BF16, F32, F64)
	if holds == nil {
		o.fail("floats have no relation .%s", relation)
		return same
	}
	if t == F32 && !s.flush {
		if isUnordered {
			return func(a, b *vec) uint32 { return quick(a, b) | unordered32(a, b) }
		}
		return quick
	}
	return func(a, b *vec) uint32 {
		return maskWhere(func(l int) bool {
			x, y := s.operandOf(t, a[l]), s.operandOf(t, b[l])
			return holds(x, y) || isUnordered && (x != x || y != y)
		})
	}
}

// compileSelp compiles a choice by a predicate.
func compileSelp(o *operation) {
	t := o.typ()
	o.want(4)
	d, a, b, p := o.dst(0, t), o.src(1, t), o.src(2, t), o.pred(3)
	o.step.class = MoveClass
	o.step.isMove = true
	o.step.exec = func(w *warp, f *frame, m uint32) {
		w.lanes = *f.v[b]
		blend(&w.lanes, f.v[a], p.of(f))
		blend(f.v[d], &w.lanes, m)
	}
}

// compileSlct compiles a choice by a sign: a where c is at least zero.
func compileSlct(o *operation) {
	t, tc := o.typ(), o.typ()
	s := o.style()
	o.only(tc, S32, F32)
	o.want(4)
	o.pure(MoveClass, each3(func(a, b, c uint64) uint64 {
		if tc == S32 && int32(c) >= 0 || tc == F32 && s.operandOf(F32, c) >= 0 {
			return a
		}
		return b
	}), o.dst(0, t), o.src(1, t), o.src(2, t), o.src(3, tc))
}
