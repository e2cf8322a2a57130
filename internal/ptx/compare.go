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
		return floatComparison(relation, t, s), logic, t
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
	flip := uint64(0)
	if t.isSigned() {
		flip = 1 << (8*t.Size() - 1)
	}
	over := func(holds func(a, b uint64) bool) func(a, b *vec) uint32 {
		return func(a, b *vec) (m uint32) {
			for l := range a {
				if holds(a[l]^flip, b[l]^flip) {
					m |= 1 << l
				}
			}
			return m
		}
	}
	switch relation {
	case "eq":
		return over(func(a, b uint64) bool { return a == b })
	case "ne":
		return over(func(a, b uint64) bool { return a != b })
	case "lt":
		return over(func(a, b uint64) bool { return a < b })
	case "le":
		return over(func(a, b uint64) bool { return a <= b })
	case "gt":
		return over(func(a, b uint64) bool { return a > b })
	case "ge":
		return over(func(a, b uint64) bool { return a >= b })
	}
	o.fail("integers have no relation .%s", relation)
	return over(func(_, _ uint64) bool { return false })
}

// floatComparison: a relation that ends in u also holds where an operand is not a number.
func floatComparison(relation string, t Type, s style) func(a, b *vec) uint32 {
	relations := map[string]func(a, b float64) bool{
		"eq": func(a, b float64) bool { return a == b }, "equ": func(a, b float64) bool { return a == b },
		"ne": func(a, b float64) bool { return a < b || a > b }, "neu": func(a, b float64) bool { return a != b },
		"lt": func(a, b float64) bool { return a < b }, "ltu": func(a, b float64) bool { return a < b },
		"le": func(a, b float64) bool { return a <= b }, "leu": func(a, b float64) bool { return a <= b },
		"gt": func(a, b float64) bool { return a > b }, "gtu": func(a, b float64) bool { return a > b },
		"ge": func(a, b float64) bool { return a >= b }, "geu": func(a, b float64) bool { return a >= b },
		"num": func(a, b float64) bool { return a == a && b == b },
		"nan": func(a, b float64) bool { return a != a || b != b },
	}
	holds := relations[relation]
	if holds == nil {
		holds = func(_, _ float64) bool { return false }
	}
	isUnordered := len(relation) == 3 && relation[2] == 'u'
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
	o.step.exec = func(_ *warp, f *frame, m uint32) {
		x, y, to, yes := f.v[a], f.v[b], f.v[d], p.of(f)
		for ; m != 0; m &= m - 1 {
			l := firstLane(m)
			if yes>>l&1 != 0 {
				to[l] = x[l]
			} else {
				to[l] = y[l]
			}
		}
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
