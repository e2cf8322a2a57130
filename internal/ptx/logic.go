package ptx

import "math/bits"

// Bits: logic, shifts, fields, counts and permutations.

// compileLogic compiles and, or, xor and not, of registers and of predicates.
func compileLogic(o *operation) {
	t := o.typ()
	name := o.Op[0]
	o.only(t, Pred, B16, B32, B64)
	if t == Pred {
		compilePredicateLogic(o, name)
		return
	}
	if name == "not" {
		o.want(2)
		mask := t.mask()
		o.pure(IntegerClass, each1(func(a uint64) uint64 { return ^a & mask }), o.dst(0, t), o.src(1, t))
		return
	}
	o.want(3)
	o.pure(IntegerClass, logicLanes[name], o.dst(0, t), o.src(1, t), o.src(2, t))
}

var logicLanes = map[string]lanes{
	"and": func(d, a, b, _ *vec) {
		for l := range d {
			d[l] = a[l] & b[l]
		}
	},
	"or": func(d, a, b, _ *vec) {
		for l := range d {
			d[l] = a[l] | b[l]
		}
	},
	"xor": func(d, a, b, _ *vec) {
		for l := range d {
			d[l] = a[l] ^ b[l]
		}
	},
}

// combine applies a logical operation to masks of lanes.
func combine(name string, a, b uint32) uint32 {
	switch name {
	case "and":
		return a & b
	case "or":
		return a | b
	case "xor":
		return a ^ b
	}
	return ^a
}

func compilePredicateLogic(o *operation, name string) {
	d := o.dst(0, Pred)
	a := o.pred(1)
	b := a
	if name != "not" {
		o.want(3)
		b = o.pred(2)
	}
	o.step.class = IntegerClass
	o.step.exec = func(_ *warp, f *frame, m uint32) { f.setPred(d, combine(name, a.of(f), b.of(f)), m) }
}

// compileLop3 compiles any function of three bits, given by its table of eight results.
func compileLop3(o *operation) {
	o.flag("b32")
	o.want(5)
	table := o.arg(4).Bits
	o.pure(IntegerClass, each3(func(a, b, c uint64) uint64 {
		r := uint64(0)
		for i := range uint64(8) {
			if table>>i&1 == 0 {
				continue
			}
			x, y, z := a, b, c
			if i&4 == 0 {
				x = ^x
			}
			if i&2 == 0 {
				y = ^y
			}
			if i&1 == 0 {
				z = ^z
			}
			r |= x & y & z
		}
		return r & (1<<32 - 1)
	}), o.dst(0, B32), o.src(1, B32), o.src(2, B32), o.src(3, B32))
}

// compileShift compiles shl and shr; counts beyond the width give zeros, or signs.
func compileShift(o *operation) {
	t := o.typ()
	o.only(t, B16, B32, B64, U16, U32, U64, S16, S32, S64)
	o.want(3)
	width, mask := uint64(8*t.Size()), t.mask()
	fn := func(d, a, b, _ *vec) {
		for l := range d {
			d[l] = a[l] << min(b[l], 64) & mask
		}
	}
	if o.Op[0] == "shr" {
		fn = func(d, a, b, _ *vec) {
			for l := range d {
				d[l] = uint64(int64(t.extended(a[l]))>>min(b[l], width-1)) & mask
			}
		}
		if !t.isSigned() {
			fn = func(d, a, b, _ *vec) {
				for l := range d {
					d[l] = a[l] >> min(b[l], 64)
				}
			}
		}
	}
	o.pure(IntegerClass, fn, o.dst(0, t), o.src(1, t), o.src(2, U32))
}

// compileFunnel compiles shf: 32 bits of a pair b:a, shifted.
func compileFunnel(o *operation) {
	side, how := o.one("l", "r"), o.one("wrap", "clamp")
	wrap := how == "wrap"
	o.flag("b32")
	o.want(4)
	if side == "" || how == "" {
		o.fail("one of .l and .r and one of .wrap and .clamp are expected")
	}
	o.pure(IntegerClass, each3(func(a, b, c uint64) uint64 {
		n := min(c, 32)
		if wrap {
			n = c & 31
		}
		pair := b<<32 | a
		if side == "l" {
			return pair << n >> 32
		}
		return pair >> n & (1<<32 - 1)
	}), o.dst(0, B32), o.src(1, B32), o.src(2, B32), o.src(3, U32))
}

// compileExtract compiles bfe: a field of bits, extended.
func compileExtract(o *operation) {
	t := o.typ()
	o.only(t, U32, U64, S32, S64)
	o.want(4)
	width, mask := uint64(8*t.Size()), t.mask()
	o.pure(IntegerClass, each3(func(a, b, c uint64) uint64 {
		pos, length := b&255, c&255
		if length == 0 {
			return 0
		}
		top := min(pos+length-1, width-1)
		sign := uint64(0)
		if t.isSigned() && a>>top&1 != 0 {
			sign = ^uint64(0)
		}
		if length >= 64 {
			length = 64
		}
		field := uint64(1)<<length - 1
		if length == 64 {
			field = ^uint64(0)
		}
		valid := uint64(0)
		if pos < width {
			valid = mask >> pos
		}
		v := a >> min(pos, 64) & valid
		return (v&field | sign&^(valid&field)) & mask
	}), o.dst(0, t), o.src(1, t), o.src(2, U32), o.src(3, U32))
}

// compileInsert compiles bfi: the low bits of a, put into b.
func compileInsert(o *operation) {
	t := o.typ()
	o.only(t, B32, B64)
	o.want(5)
	d, a, b, pos, length := o.dst(0, t), o.src(1, t), o.src(2, t), o.src(3, U32), o.src(4, U32)
	mask := t.mask()
	o.step.class = IntegerClass
	o.step.exec = func(_ *warp, f *frame, m uint32) {
		for ; m != 0; m &= m - 1 {
			l := firstLane(m)
			field := ^uint64(0)
			if n := f.v[length][l] & 255; n < 64 {
				field = 1<<n - 1
			}
			at := f.v[pos][l] & 255
			field = field << at & mask
			f.v[d][l] = f.v[a][l]<<at&field | f.v[b][l]&^field
		}
	}
}

// compileCount compiles popc, clz, brev and bfind.
func compileCount(o *operation) {
	isShift := o.flag("shiftamt")
	t := o.typ()
	o.only(t, B32, B64, U32, U64, S32, S64)
	o.want(2)
	width := 8 * t.Size()
	result := U32
	var fn func(a uint64) uint64
	switch o.Op[0] {
	case "popc":
		fn = func(a uint64) uint64 { return uint64(bits.OnesCount64(a)) }
	case "clz":
		fn = func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a) - 64 + width) }
	case "brev":
		result = t
		fn = func(a uint64) uint64 { return bits.Reverse64(a) >> (64 - uint(width)) }
	default:
		fn = func(a uint64) uint64 { return findBit(t, width, isShift, a) }
	}
	o.pure(IntegerClass, each1(fn), o.dst(0, result), o.src(1, t))
}

// findBit is the place of the highest bit that is not a sign, from below or (as an amount to shift) from above.
func findBit(t Type, width int, isShift bool, a uint64) uint64 {
	if t.isSigned() && a>>(width-1)&1 != 0 {
		a = ^a & t.mask()
	}
	if a == 0 {
		return 1<<32 - 1
	}
	at := bits.Len64(a) - 1
	if isShift {
		at = width - 1 - at
	}
	return uint64(at)
}

// compilePermute compiles prmt: four bytes chosen from eight, by digits of a selector or by a mode.
func compilePermute(o *operation) {
	mode := o.one("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	o.flag("b32")
	o.want(4)
	o.pure(IntegerClass, each3(func(a, b, c uint64) uint64 {
		pair, r := b<<32|a, uint64(0)
		for i := range uint64(4) {
			pick := c >> (4 * i) & 15
			if mode != "" {
				pick = modePick(mode, i, c&3)
			}
			v := pair >> (8 * (pick & 7)) & 255
			if pick&8 != 0 {
				v = v >> 7 * 255
			}
			r |= v << (8 * i)
		}
		return r
	}), o.dst(0, B32), o.src(1, B32), o.src(2, B32), o.src(3, B32))
}

// modePick is the byte that place i gets in a mode of prmt with selector s.
func modePick(mode string, i, s uint64) uint64 {
	switch mode {
	case "f4e":
		return s + i
	case "b4e":
		return (s - i) & 7
	case "rc8":
		return s
	case "ecl":
		return max(i, s)
	case "ecr":
		return min(i, s)
	}
	return s&1*2 + i&1
}
