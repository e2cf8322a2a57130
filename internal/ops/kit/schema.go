package kit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TypeSet is a set of element types, one bit each.
type TypeSet uint32

// TypesOf is the set of the given element types.
func TypesOf(dts ...ndarray.DType) (s TypeSet) {
	for _, dt := range dts {
		s |= 1 << dt
	}
	return s
}

// Has reports whether an element type is in the set.
func (s TypeSet) Has(dt ndarray.DType) bool { return s>>dt&1 == 1 }

// The groups of element types that the type constraints of the standard are made of.
var (
	FloatTypes    = TypesOf(ndarray.Float16, ndarray.Float32, ndarray.Float64)
	BfloatType    = TypesOf(ndarray.BFloat16)
	Float8Types   = TypesOf(ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ)
	SignedTypes   = TypesOf(ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64)
	UnsignedTypes = TypesOf(ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64)
	IntegerTypes  = SignedTypes | UnsignedTypes
	WideTypes     = TypesOf(ndarray.Int32, ndarray.Int64, ndarray.Uint32, ndarray.Uint64)
	BoolType      = TypesOf(ndarray.Bool)
	StringType    = TypesOf(ndarray.String)
	AnyType       = ^TypeSet(0)
)

// ByteInts are the integer types of one byte.
var ByteInts = TypesOf(ndarray.Int8, ndarray.Uint8)

// FullPrecisions are the float types that networks compute in.
var FullPrecisions = TypesOf(ndarray.Float32, ndarray.Float16, ndarray.BFloat16)

// TypeStep says that from an operator-set version on these element types are
// allowed as well.
type TypeStep struct {
	Version int
	Types   TypeSet
}

// From is a [TypeStep].
//
//go:noinline
func From(version int, types TypeSet) TypeStep { return TypeStep{version, types} }

// FormBy returns a [ops.Op.Form] that depends on the element type of operand 0: the
// version of the first step that has the type, the last step's if none has.
//
//go:noinline
func FormBy(steps ...TypeStep) func(*ssa.Node) int {
	return func(n *ssa.Node) int { return VersionFor(ops.InType(n, 0).DType, steps...) }
}

// FloatForm is [FormBy] for operators that took float16, float32 and float64 from
// version base on, and all their element types from version all on.
func FloatForm(base, all int) func(*ssa.Node) int {
	return FormBy(From(base, FloatTypes), From(all, AnyType))
}

// VersionFor returns the version of the first step that has the type.
func VersionFor(dt ndarray.DType, steps ...TypeStep) int {
	for _, s := range steps {
		if s.Types.Has(dt) {
			return s.Version
		}
	}
	return steps[len(steps)-1].Version
}

// ConsumedInputs said, up to operator set 5, which operands an operator may write
// its results over.
var ConsumedInputs = ops.IntsAttr("consumed_inputs").WithoutEffect().Before(6)

// Changelog is the address of an operator's documentation in one version.
//
//go:noinline
func Changelog(op string, version int) string {
	return fmt.Sprintf("https://onnx.ai/onnx/operators/onnx__%s.html#%s-%d", op, strings.ToLower(op), version)
}

// SameDType returns the element type that operands share, or an error that
// names two that differ. Types not known yet agree with any.
func SameDType(n *ssa.Node, operands ...int) ndarray.DType {
	dt, first := ndarray.Undefined, 0
	for _, i := range operands {
		t := ops.InType(n, i).DType
		switch {
		case t == ndarray.Undefined || t == dt:
		case dt == ndarray.Undefined:
			dt, first = t, i
		default:
			Failf("operands %d and %d have element types %s and %s; they must be the same", first, i, dt, t)
		}
	}
	return dt
}

// DtypeAttr reads an element type from an attribute; def if it is absent.
func DtypeAttr(n *ssa.Node, name string, def ndarray.DType) (ndarray.DType, error) {
	v := ops.IntOr(n, name, int64(def))
	if v < 0 || v >= int64(ndarray.NumDTypes) || v == 0 && def != ndarray.Undefined {
		return 0, fmt.Errorf("attribute %s=%d is no element type: %w", name, v, ops.ErrUnsupported)
	}
	return ndarray.DType(v), nil
}

// UnsupportedType is the error of a kernel that meets an element type the
// operator does not take.
func UnsupportedType(dt ndarray.DType) error {
	return fmt.Errorf("element type %s: %w", dt, ops.ErrUnsupported)
}

// BadAttr is the error of an attribute outside the values the standard lists.
func BadAttr(name string, got any, want string) error {
	return fmt.Errorf("attribute %s=%v must be %s", name, got, want)
}

// Always is an [ops.Upgrade.Below] that every operator set is below: the rule of
// deprecated operators, which are replaced wherever they appear.
const Always = 1 << 30

// Since returns a constant Form.
func Since(v int) func(*ssa.Node) int { return func(*ssa.Node) int { return v } }

// TypeForm gives the Form of an operator whose changelog, from base on, only
// admitted more element types: the oldest of the listed versions that knows all
// element types of the node. widened is in ascending order.
//
//go:noinline
func TypeForm(base int, widened ...int) func(*ssa.Node) int {
	return func(n *ssa.Node) int {
		need := base
		for _, v := range slices.Concat(n.In, n.Out) {
			if v != nil {
				need = max(need, typeSince(v.Type, base, widened))
			}
		}
		return need
	}
}

// ViewVersions are the versions at which the operators that take every element
// type (Identity, Reshape, Cast, If, …) were widened.
var ViewVersions = []int{13, 19, 21, 23, 24, 25}

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

// SinceTypes is a Form: base, or later when an operand or result has one of the
// element types that only the later version allows.
//
//go:noinline
func SinceTypes(base, later int, types ...ndarray.DType) func(*ssa.Node) int {
	return func(n *ssa.Node) int {
		if UsesType(n, types...) {
			return later
		}
		return base
	}
}

// UsesType reports whether any operand or result has one of the element types.
func UsesType(n *ssa.Node, types ...ndarray.DType) bool {
	uses := func(v *ssa.Value) bool { return v != nil && slices.Contains(types, v.Type.DType) }
	return slices.ContainsFunc(n.In, uses) || slices.ContainsFunc(n.Out, uses)
}

// WithAttrs returns the operator with more attributes.
//
//go:noinline
func WithAttrs(o ops.Op, attrs ...*ops.AttrSpec) ops.Op {
	o.Attrs = slices.Concat(o.Attrs, attrs)
	return o
}

// AttrToOperand is the upgrade of an operator whose attribute became an operand in a
// version.
func AttrToOperand(op string, version int, attr string, operand int) ops.Upgrade {
	return ops.Upgrade{Below: version, Source: Changelog(op, version), Apply: func(u *ops.Upgrader, n *ssa.Node) error {
		u.AttrToInput(n, attr, operand)
		return nil
	}}
}
