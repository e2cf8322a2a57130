package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// typeSet is a set of element types, one bit each.
type typeSet uint32

func typesOf(dts ...ndarray.DType) (s typeSet) {
	for _, dt := range dts {
		s |= 1 << dt
	}
	return s
}

func (s typeSet) has(dt ndarray.DType) bool { return s>>dt&1 == 1 }

// The groups of element types that the type constraints of the standard are made of.
var (
	floatTypes    = typesOf(ndarray.Float16, ndarray.Float32, ndarray.Float64)
	bfloatType    = typesOf(ndarray.BFloat16)
	float8Types   = typesOf(ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ)
	signedTypes   = typesOf(ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64)
	unsignedTypes = typesOf(ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64)
	integerTypes  = signedTypes | unsignedTypes
	wideTypes     = typesOf(ndarray.Int32, ndarray.Int64, ndarray.Uint32, ndarray.Uint64)
	boolType      = typesOf(ndarray.Bool)
	stringType    = typesOf(ndarray.String)
	anyType       = ^typeSet(0)
)

// typeStep says that from an operator-set version on these element types are
// allowed as well.
type typeStep struct {
	Version int
	Types   typeSet
}

// formBy returns a [Op.Form] that depends on the element type of operand 0: the
// version of the first step that has the type, the last step's if none has.
func formBy(steps ...typeStep) func(*ssa.Node) int {
	return func(n *ssa.Node) int { return versionFor(InType(n, 0).DType, steps...) }
}

// versionFor returns the version of the first step that has the type.
func versionFor(dt ndarray.DType, steps ...typeStep) int {
	for _, s := range steps {
		if s.Types.has(dt) {
			return s.Version
		}
	}
	return steps[len(steps)-1].Version
}

// consumedInputs said, up to operator set 5, which operands an operator may write
// its results over.
var consumedInputs = intsAttr("consumed_inputs").ignored().until(6)

// changelog is the address of an operator's documentation in one version.
func changelog(op string, version int) string {
	return fmt.Sprintf("https://onnx.ai/onnx/operators/onnx__%s.html#%s-%d", op, lower(op), version)
}

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// sameDType returns the element type that operands share, or an error that
// names two that differ. Types not known yet agree with any.
func sameDType(n *ssa.Node, operands ...int) ndarray.DType {
	dt, first := ndarray.Undefined, 0
	for _, i := range operands {
		t := InType(n, i).DType
		switch {
		case t == ndarray.Undefined || t == dt:
		case dt == ndarray.Undefined:
			dt, first = t, i
		default:
			failf("operands %d and %d have element types %s and %s; they must be the same", first, i, dt, t)
		}
	}
	return dt
}

// dtypeAttr reads an element type from an attribute; def if it is absent.
func dtypeAttr(n *ssa.Node, name string, def ndarray.DType) (ndarray.DType, error) {
	v := IntOr(n, name, int64(def))
	if v < 0 || v >= int64(ndarray.NumDTypes) || v == 0 && def != ndarray.Undefined {
		return 0, fmt.Errorf("attribute %s=%d is no element type: %w", name, v, ErrUnsupported)
	}
	return ndarray.DType(v), nil
}

// unsupportedType is the error of a kernel that meets an element type the
// operator does not take.
func unsupportedType(dt ndarray.DType) error {
	return fmt.Errorf("element type %s: %w", dt, ErrUnsupported)
}

// badAttr is the error of an attribute outside the values the standard lists.
func badAttr(name string, got any, want string) error {
	return fmt.Errorf("attribute %s=%v must be %s", name, got, want)
}

// always is an [Upgrade.Below] that every operator set is below: the rule of
// deprecated operators, which are replaced wherever they appear.
const always = 1 << 30

// typeForm gives the Form of an operator whose changelog, from base on, only
// admitted more element types: the oldest of the listed versions that knows all
// element types of the node. widened is in ascending order.
func typeForm(base int, widened ...int) func(*ssa.Node) int {
	return func(n *ssa.Node) int {
		need := base
		for _, vs := range [][]*ssa.Value{n.In, n.Out} {
			for _, v := range vs {
				if v != nil {
					need = max(need, typeSince(v.Type, base, widened))
				}
			}
		}
		return need
	}
}

// viewVersions are the versions at which the operators that take every element
// type (Identity, Reshape, Cast, If, …) were widened.
var viewVersions = []int{13, 19, 21, 23, 24, 25}

// typeSince is the first of the listed versions that is not older than the
// element type itself.
func typeSince(t ssa.Type, base int, widened []int) int {
	if t.Elem != nil {
		return typeSince(*t.Elem, base, widened)
	}
	born := 0
	switch t.DType {
	case ndarray.BFloat16:
		born = 13
	case ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ:
		born = 19
	case ndarray.Uint4, ndarray.Int4:
		born = 21
	case ndarray.Float4E2M1:
		born = 23
	case ndarray.Float8E8M0:
		born = 24
	case ndarray.Uint2, ndarray.Int2:
		born = 25
	case ndarray.Float6E2M3, ndarray.Float6E3M2:
		born = 28
	}
	if born <= base {
		return base
	}
	for _, v := range widened {
		if v >= born {
			return v
		}
	}
	return base
}

// sinceTypes is a Form: base, or later when an operand or result has one of the
// element types that only the later version allows.
func sinceTypes(base, later int, types ...ndarray.DType) func(*ssa.Node) int {
	return func(n *ssa.Node) int {
		if usesType(n, types...) {
			return later
		}
		return base
	}
}

// usesType reports whether any operand or result has one of the element types.
func usesType(n *ssa.Node, types ...ndarray.DType) bool {
	for _, list := range [][]*ssa.Value{n.In, n.Out} {
		for _, v := range list {
			if v == nil {
				continue
			}
			for _, dt := range types {
				if v.Type.DType == dt {
					return true
				}
			}
		}
	}
	return false
}

// upgradeLegacyBroadcast is the upgrade from the explicit broadcast of operator set 6
// and older (attributes axis and broadcast: B's dimensions line up with A's from
// axis on) to numpy-style broadcasting.
func upgradeLegacyBroadcast(u *Upgrader, n *ssa.Node) error {
	axis, has := Int(n, "axis"), n.Has("axis")
	n.DropAttr("axis")
	if !has {
		return nil
	}
	ra, rb := InType(n, 0).Rank(), InType(n, 1).Rank()
	if ra < 0 || rb < 0 {
		return fmt.Errorf("attribute axis needs operands of known rank")
	}
	if axis < 0 {
		axis += int64(ra)
	}
	trailing := ra - int(axis) - rb
	if trailing < 0 {
		return fmt.Errorf("attribute axis=%d does not fit ranks %d and %d", axis, ra, rb)
	}
	if trailing == 0 {
		return nil
	}
	unsqueezeTrailing(u, n, 1, rb, trailing)
	return nil
}

// unsqueezeTrailing puts count dimensions of 1 behind the rank dimensions of
// operand i.
func unsqueezeTrailing(u *Upgrader, n *ssa.Node, i, rank, count int) {
	axes := make([]int64, count)
	for k := range axes {
		axes[k] = int64(rank + k)
	}
	un := u.Before(n, "Unsqueeze", []*ssa.Value{n.In[i], u.Const("axes", ssa.Int64s(axes...))}, 1)
	n.SetInput(i, un.Out[0])
}

// since returns a constant Form.
func since(v int) func(*ssa.Node) int { return func(*ssa.Node) int { return v } }
