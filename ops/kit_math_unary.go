package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// unary is one function of one element on each arithmetic domain, and f32 where
// computing in float32 is exact (else float32 goes through float64). Half and
// float8 types compute in float32 and round once. A nil entry means the operator
// does not take such types.
type unary struct {
	float func(float64) float64
	f32   func(float32) float32
	int   func(int64) int64
	uint  func(uint64) uint64
}

// unaryOp fills in what elementwise operators of one operand have in common.
func unaryOp(name string, since int, doc string, eval func(*Call), form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Infer: SameAs, Eval: kernel(eval),
		Facts: Facts{Elementwise: true},
	}
}

// legacy returns the operator with the upgrade from operator set 5 and older.
func (o Op) legacy() Op {
	o.Upgrades = dropConsumedInputs(o.Name)
	return o
}

// with returns the operator with attributes of one kind.
func (o Op) with(kind ssa.AttrKind, names ...string) Op {
	for _, n := range names {
		o.Attrs = append(o.Attrs, AttrSpec{Name: n, Kind: kind})
	}
	return o
}

// following returns the operator with a rule that follows known contents.
func (o Op) following(f func(ssa.Dim) ssa.Dim) Op {
	o.Infer = rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		x := known(n, 0)
		if x == nil || !followed(t.DType) {
			return One(t)
		}
		out := make([]ssa.Dim, len(x))
		for i, d := range x {
			out[i] = f(d)
		}
		return factOf(t, out)
	})
	return o
}

// eval is the kernel of a function without attributes.
func (u unary) eval(c *Call) { evalUnary(c, u) }

// evalUnary applies u to operand 0.
func evalUnary(c *Call, u unary) {
	a := needTensor(c, 0)
	out := try(c.Output(0, a.DType, a.Shape...))
	f32 := u.f32
	if f32 == nil && u.float != nil {
		f32 = viaFloat64(u.float)
	}
	switch dt := a.DType; {
	case dt.IsFloat() && f32 != nil:
		unaryFloat(out, a, u.float, f32)
		return
	case dt.IsSigned() && u.int != nil:
		unarySigned(out, a, u.int)
		return
	case dt.IsUnsigned() && u.uint != nil:
		unaryUnsigned(out, a, u.uint)
		return
	}
	check(unsupportedType(a.DType))
}

func unaryFloat(out, a *ndarray.Array, f64 func(float64) float64, f32 func(float32) float32) {
	switch a.DType {
	case ndarray.Float32:
		eachElem(out, a, f32)
	case ndarray.Float64:
		if f64 == nil {
			check(unsupportedType(a.DType))
		}
		eachElem(out, a, f64)
	case ndarray.Float16, ndarray.BFloat16:
		eachElem(out, a, halfCodec(a.DType).lift(f32))
	default:
		eachElem(out, a, byteCodec(a.DType).lift(f32))
	}
}

func unarySigned(out, a *ndarray.Array, f func(int64) int64) {
	switch a.DType {
	case ndarray.Int8:
		eachElem(out, a, narrow[int8](f))
	case ndarray.Int16:
		eachElem(out, a, narrow[int16](f))
	case ndarray.Int32:
		eachElem(out, a, narrow[int32](f))
	case ndarray.Int64:
		eachElem(out, a, f)
	default: // int4, int2: one per byte, kept in range by SetInt
		for i := range a.Len() {
			out.SetInt(i, f(a.Int(i)))
		}
	}
}

func unaryUnsigned(out, a *ndarray.Array, f func(uint64) uint64) {
	switch a.DType {
	case ndarray.Uint8:
		eachElem(out, a, narrow[uint8](f))
	case ndarray.Uint16:
		eachElem(out, a, narrow[uint16](f))
	case ndarray.Uint32:
		eachElem(out, a, narrow[uint32](f))
	case ndarray.Uint64:
		eachElem(out, a, f)
	default:
		for i := range a.Len() {
			out.SetInt(i, int64(f(uint64(a.Int(i)))))
		}
	}
}

// eachElem applies f to every element; out may be a itself.
func eachElem[T, R ndarray.Elem](out, a *ndarray.Array, f func(T) R) {
	o, x := ndarray.Slice[R](out), ndarray.Slice[T](a)
	for i, v := range x {
		o[i] = f(v)
	}
}

// inferPredicate is the rule of operators that map every element to a boolean.
func inferPredicate(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if t.Kind == ssa.KindTensor {
		t.DType = ndarray.Bool
	}
	return One(t)
}

// evalPredicate maps every element of a float tensor to a boolean.
func evalPredicate(c *Call, f func(float64) bool) {
	a := needTensor(c, 0)
	if !a.DType.IsFloat() {
		check(unsupportedType(a.DType))
	}
	out := try(c.Output(0, ndarray.Bool, a.Shape...))
	o, read := ndarray.Slice[bool](out), floatReader(a)
	for i := range o {
		o[i] = f(read(i))
	}
}
