package ptx

import "math"

// Atomic operations. On global memory they make the blocks of the launch run one after another, in their order, so that the
// order of sums is always the same one.

// compileAtomic compiles atom and red; red has no result.
func compileAtomic(o *operation) {
	o.hints()
	o.flag("noftz")
	a := accessTo(o.space(), 0, ReadWrite)
	a.isAtomic = true
	name := o.one("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
	t := o.typ()
	a.size = t.Size()
	if a.space != Shared {
		o.kernel.isOrdered = true
	}
	d, first := int32(-1), 0
	if o.Op[0] == "atom" {
		first = 1
		if o.arg(0).Kind != sinkOperand {
			d = o.dst(0, t)
		}
	}
	p := o.pointer(first, &a)
	b := o.src(first+1, t)
	c := b
	if name == "cas" {
		c = o.src(first+2, t)
	}
	f := atomicFunction(o, name, t)
	o.step.class = MemoryClass
	o.step.exec = func(w *warp, fr *frame, m uint32) {
		base := w.start(&p, fr)
		for ; m != 0; m &= m - 1 {
			l := firstLane(m)
			old := uint64(0)
			if bytes := w.at(fr, a, l, p.of(base, fr, l)); bytes != nil {
				old = loadBytes(bytes, a.size)
				storeBytes(bytes, a.size, f(old, fr.v[b][l], fr.v[c][l]))
			}
			if d >= 0 {
				fr.v[d][l] = old
			}
		}
	}
}

// atomicFunction gives the new value from the old one and the operands.
func atomicFunction(o *operation, name string, t Type) func(old, b, c uint64) uint64 {
	mask := t.mask()
	switch name {
	case "exch":
		return func(_, b, _ uint64) uint64 { return b }
	case "cas":
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	case "and":
		return func(old, b, _ uint64) uint64 { return old & b }
	case "or":
		return func(old, b, _ uint64) uint64 { return old | b }
	case "xor":
		return func(old, b, _ uint64) uint64 { return old ^ b }
	case "inc":
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case "dec":
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	case "min", "max":
		pick := smaller(t)
		if name == "max" {
			pick = larger(t)
		}
		o.only(t, U32, S32, U64, S64)
		return func(old, b, _ uint64) uint64 { return pick(t.extended(old), t.extended(b)) & mask }
	case "add":
		return atomicSum(t)
	}
	o.fail("the atomic operation is missing")
	return func(old, _, _ uint64) uint64 { return old }
}

func atomicSum(t Type) func(old, b, c uint64) uint64 {
	switch {
	case t == F64:
		return func(old, b, _ uint64) uint64 {
			return math.Float64bits(math.Float64frombits(old) + math.Float64frombits(b))
		}
	case t.isFloat():
		sum := style{mode: toNearest}.general(t, func(a, b, _ float64) float64 { return sumOdd(a, b) })
		return func(old, b, _ uint64) uint64 {
			var d vec
			sum(&d, &vec{old}, &vec{b}, &vec{})
			return d[0]
		}
	}
	return func(old, b, _ uint64) uint64 { return (old + b) & t.mask() }
}
