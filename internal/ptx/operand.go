package ptx

import (
	"math"
	"slices"
)

// vec is a register of a warp: 32 lanes of up to 64 bits. Narrower values are extended with zeros, whatever their type.
type vec [32]uint64

// extra is an operand that is no register of the function: a constant, or a special register of the warp.
type extra struct {
	constant *vec
	special  int // index into the kernel's specials, where constant is nil
}

// step is a compiled instruction.
type step struct {
	kind         stepKind
	class        Class
	line         int
	name         string
	guard        int32 // index of a predicate, -1: none
	guardNegated bool
	isMove       bool // an undefined operand makes the result undefined instead of being an error
	// exec runs the lanes of the mask. Which of them take part has been decided, and their operands are defined.
	exec       func(w *warp, f *frame, m uint32)
	reads      []int32 // value registers
	readPreds  []int32
	writes     []int32
	writePreds []int32
	origin     uint64 // of the address that it loads or makes: a bit of the kernel's origins
	flops      int    // floating-point operations per lane
	target     int32  // of a branch
	meet       int32  // where diverged lanes meet again
	targets    []int32
	index      int32
	callee     *function
	in, out    []memoryRange // a call's operands in the caller's parameter memory
	barrier    barrierUse
}

type stepKind uint8

const (
	stepPlain stepKind = iota
	stepBranch
	stepTable
	stepCall
	stepRet
	stepExit
	stepBarrier
	stepTrap
)

// operation is an instruction while it is compiled. The first error stays.
type operation struct {
	*builder
	*Instruction
	mods []string
	step step
	err  error
}

func (o *operation) fail(format string, args ...any) {
	if o.err == nil {
		o.err = syntaxError(o.Instruction.Line, o.Instruction.Name()+": "+format, args...)
	}
}

// flag takes a modifier, if it is there.
func (o *operation) flag(name string) bool {
	i := slices.Index(o.mods, name)
	if i < 0 {
		return false
	}
	o.mods = slices.Delete(o.mods, i, i+1)
	return true
}

// one takes the modifier that is one of several; empty if none is there.
func (o *operation) one(names ...string) string {
	for _, n := range names {
		if o.flag(n) {
			return n
		}
	}
	return ""
}

// typ takes the first modifier that is a type.
func (o *operation) typ() Type {
	for i, m := range o.mods {
		if t := typeNames[m]; t != NoType {
			o.mods = slices.Delete(o.mods, i, i+1)
			if t == Pred && !slices.Contains(ofPredicates, o.Op[0]) {
				o.fail("predicates are no operands of it")
				return B32
			}
			return t
		}
	}
	o.fail("the type is missing")
	return B32
}

// ofPredicates are the operations that have predicates as their type.
var ofPredicates = []string{"mov", "and", "or", "xor", "not", "vote"}

// only fails if the type is none of those listed.
func (o *operation) only(t Type, types ...Type) {
	if !slices.Contains(types, t) {
		o.fail("the type .%s is not executed here", t)
	}
}

// want fails if the number of operands is another.
func (o *operation) want(n int) {
	if len(o.Args) != n {
		o.fail("%d operands are expected, %d are given", n, len(o.Args))
	}
}

func (o *operation) arg(i int) Operand {
	if i < 0 || i >= len(o.Args) {
		o.fail("operand %d is missing", i+1)
		return Operand{Kind: sinkOperand}
	}
	return o.Args[i]
}

// register finds a register that an operand names. wide says whether it may be wider than the type.
func (o *operation) register(a Operand, t Type, wide bool) symbol {
	if a.Kind != nameOperand || a.IsNegated {
		o.fail("a register is expected")
		return symbol{}
	}
	s, err := o.lookup(a.Name)
	if err != nil {
		o.fail("nothing is named %q", a.Name)
		return symbol{}
	}
	switch {
	case !s.isRegister:
		o.fail("%s is no register", a.Name)
	case s.isPredicate != (t == Pred):
		o.fail("%s is a register of type .%s, .%s is expected", a.Name, s.typ, t)
	case s.isPredicate || t == NoType:
	case s.typ.Size() != t.Size() && !(wide && s.typ.Size() > t.Size()):
		o.fail("%s has %d bytes, .%s has %d", a.Name, s.typ.Size(), t, t.Size())
	}
	return s
}

// dst is the register of a result.
func (o *operation) dst(i int, t Type) int32 { return o.dstOf(o.arg(i), t, false) }

func (o *operation) dstOf(a Operand, t Type, wide bool) int32 {
	s := o.register(a, t, wide)
	if s.isPredicate {
		o.step.writePreds = append(o.step.writePreds, s.index)
	} else {
		o.step.writes = append(o.step.writes, s.index)
	}
	return s.index
}

// secondPred takes the predicate behind a result, as in d|p; -1 where there is none.
func (o *operation) secondPred(a *Operand) int32 {
	if len(a.Elems) != 1 {
		return -1
	}
	e := a.Elems[0]
	a.Elems = nil
	if e.Kind == sinkOperand {
		return -1
	}
	return o.dstOf(e, Pred, false)
}

// src is an operand's index: of a register, a constant or a special register.
func (o *operation) src(i int, t Type) int32 { return o.srcOf(o.arg(i), t, false) }

func (o *operation) srcOf(a Operand, t Type, wide bool) int32 {
	switch a.Kind {
	case integerOperand:
		if t.isFloat() && a.Bits != 0 && t.Size() > 2 {
			o.fail("an integer is given where .%s is expected", t)
		}
		return o.constant(a.Bits & t.mask())
	case singleOperand, floatOperand:
		return o.constant(o.floatBits(a, t))
	case nameOperand:
		if k := o.specialOf(a.Name); k >= 0 {
			return k
		}
		s := o.register(a, t, wide)
		o.step.reads = append(o.step.reads, s.index)
		return s.index
	}
	o.fail("a register or a number is expected")
	return 0
}

// mask has the bits that values of the type use.
func (t Type) mask() uint64 {
	if t == NoType {
		return math.MaxUint64
	}
	return math.MaxUint64 >> (64 - 8*uint(t.Size()))
}

// floatBits are the bits of a float operand in an operation's type.
func (o *operation) floatBits(a Operand, t Type) uint64 {
	switch {
	case a.Kind == singleOperand && t.Size() == 4:
		return a.Bits
	case a.Kind == floatOperand && t.Size() == 8:
		return a.Bits
	case a.Kind == floatOperand && t == F32:
		return uint64(math.Float32bits(float32(math.Float64frombits(a.Bits))))
	case a.Kind == singleOperand && t == F64:
		return math.Float64bits(float64(math.Float32frombits(uint32(a.Bits))))
	}
	o.fail("a float of another size is given where .%s is expected", t)
	return 0
}

// constant is the index of a number in every lane.
func (b *builder) constant(bits uint64) int32 {
	if i, ok := b.consts[bits]; ok {
		return i
	}
	v := &vec{}
	for l := range v {
		v[l] = bits
	}
	i := int32(b.fn.values + len(b.fn.extras))
	b.fn.extras = append(b.fn.extras, extra{constant: v})
	b.consts[bits] = i
	return i
}

// specialOf is the index of a special register; -1 if there is none of this name.
func (b *builder) specialOf(name string) int32 {
	if specialRegisters[name] == nil {
		return -1
	}
	k := slices.Index(b.kernel.specials, name)
	if k < 0 {
		k = len(b.kernel.specials)
		b.kernel.specials = append(b.kernel.specials, name)
	}
	for i, e := range b.fn.extras {
		if e.constant == nil && e.special == k {
			return int32(b.fn.values + i)
		}
	}
	b.fn.extras = append(b.fn.extras, extra{special: k})
	return int32(b.fn.values + len(b.fn.extras) - 1)
}

// predicate is a predicate operand, perhaps negated.
type predicate struct {
	index   int32
	negated bool
}

func (o *operation) pred(i int) predicate {
	a := o.arg(i)
	negated := a.IsNegated
	a.IsNegated = false
	s := o.register(a, Pred, false)
	o.step.readPreds = append(o.step.readPreds, s.index)
	return predicate{s.index, negated}
}

// of is the predicate's lanes.
func (p predicate) of(f *frame) uint32 {
	if p.negated {
		return ^f.preds[p.index]
	}
	return f.preds[p.index]
}

// lanes computes 32 lanes of a result. A result may be one of its operands, so a lane reads its operands before it is written,
// and no lane reads another's.
type lanes func(d, a, b, c *vec)

const allLanes = math.MaxUint32

// pure makes the step of an operation that computes each lane of d from the same lane of its operands.
func (o *operation) pure(class Class, fn lanes, d int32, operands ...int32) {
	a, b, c := d, d, d
	for i, p := range []*int32{&a, &b, &c} {
		if i < len(operands) {
			*p = operands[i]
		}
	}
	o.step.class = class
	o.step.exec = func(w *warp, f *frame, m uint32) {
		if m == allLanes {
			fn(f.v[d], f.v[a], f.v[b], f.v[c])
			return
		}
		fn(&w.lanes, f.v[a], f.v[b], f.v[c])
		blend(f.v[d], &w.lanes, m)
	}
}

// blend copies the lanes of a mask.
func blend(d, s *vec, m uint32) {
	if isWide {
		blendWide(d, s, m)
		return
	}
	for l := range d {
		if m>>l&1 != 0 {
			d[l] = s[l]
		}
	}
}

// each1, each2 and each3 apply a function to each lane.
func each1(f func(a uint64) uint64) lanes {
	return func(d, a, _, _ *vec) {
		for l := range d {
			d[l] = f(a[l])
		}
	}
}

func each2(f func(a, b uint64) uint64) lanes {
	return func(d, a, b, _ *vec) {
		for l := range d {
			d[l] = f(a[l], b[l])
		}
	}
}

func each3(f func(a, b, c uint64) uint64) lanes {
	return func(d, a, b, c *vec) {
		for l := range d {
			d[l] = f(a[l], b[l], c[l])
		}
	}
}
