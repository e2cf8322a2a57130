package ops_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/movement"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// decisions says what to decide for each trait.
var decisions = map[string]string{
	"Access":      "which elements of the operands does a result element depend on?",
	"Order":       "may the first two operands change places?",
	"Composition": "is f(f(x)) the same as f(x), or as x?",
	"Unit":        "which right operand gives the left one back?",
	"ZeroSign":    "do results differ for 0.0 and -0.0, by more than the signs of zeros?",
	"Randomness":  "do two runs on the same operands differ?",
	"Failure":     "which operands of accepted types does an evaluation refuse?",
	"Extent":      "do the shapes of results depend on elements, and are they bounded?",
	"Folding":     "are constant operands a compact form that should stay?",
	"Control":     "are its bodies run as parts of the graph: one of them, or one many times?",
}

// TestTraits demands a decision for every trait of every operator.
func TestTraits(t *testing.T) {
	for _, o := range ops.All() {
		traits := reflect.ValueOf(o.Facts.Traits)
		for i := range traits.NumField() {
			name := traits.Type().Field(i).Name
			require.Containsf(t, decisions, name, "say here what to decide for the trait %s", name)
			assert.Falsef(t, traits.Field(i).IsZero(), "%s.%s: Facts.%s is undecided: %s", o.Domain, o.Name, name, decisions[name])
		}
	}
}

// TestTraitsAgree checks traits against each other and against the rest of the entry.
func TestTraitsAgree(t *testing.T) {
	for _, o := range ops.All() {
		f := o.Facts
		if f.Order == ops.Commutative || f.Unit != ops.UnitNone {
			assert.Truef(t, o.MaxIn < 0 || o.MaxIn >= 2, "%s has no second operand", o.Name)
		}
		if f.Composition == ops.Involutive {
			assert.Equalf(t, 1, o.MaxIn, "%s: an involution has one operand", o.Name)
		}
		if f.Composition == ops.Idempotent {
			assert.Emptyf(t, currentAttrs(o), "%s: whether it is idempotent could depend on attributes", o.Name)
		}
		if f.Access == ops.Elementwise {
			for _, a := range currentAttrs(o) {
				assert.NotEqualf(t, "axis", a.Name, "%s has an axis: it is elementwise in a layout", o.Name)
			}
		}
		if f.IsMovement() || f.IsElementwise() {
			assert.Equalf(t, 1, o.MaxOut, "%s: the result", o.Name)
		}
		if f.Control != ops.Straight {
			assert.Truef(t, slices.ContainsFunc(o.Attrs, func(a *ops.AttrSpec) bool { return a.Kind == ssa.AttrGraph }), "%s has no body to run", o.Name)
		}
	}
}

// run1 evaluates an operator of the default domain on tensors; nil if it refuses them.
func run1(o *ops.Op, in ...*ndarray.Array) *ndarray.Array {
	g := ssa.NewGraph("g")
	call := &ops.Call{Threads: 1, Out: make([]ndarray.Value, 1)}
	params := make([]*ssa.Value, len(in))
	for i, a := range in {
		params[i] = g.AddParam(string(rune('a'+i)), ssa.StaticTensor(a.DType, a.Shape...))
		call.In = append(call.In, a)
	}
	call.Node = g.NewNode(o.Name, params, 1)
	call.Node.Domain = o.Domain
	if ops.Infer(call.Node) != nil || ops.Eval(call) != nil {
		return nil
	}
	a, _ := call.Out[0].(*ndarray.Array)
	return a
}

// TestTraitsHold evaluates operators on samples and compares with what their traits say.
func TestTraitsHold(t *testing.T) {
	floats := ndarray.Of([]float32{-2.5, -1, -0.25, 0, 0.5, 1, 3, 40}, 8)
	samples := []*ndarray.Array{floats, ndarray.Of([]int32{-7, 0, 1, 5}, 4), ndarray.Of([]bool{true, false}, 2)}
	checked := map[string]int{}
	same := func(property string, want, got *ndarray.Array, o *ops.Op) {
		if want != nil && got != nil {
			checked[property]++
			assert.Equalf(t, want.Data, got.Data, "%s: %s", o.Name, property)
		}
	}
	for _, o := range ops.All() {
		f := o.Facts
		if o.MinIn > 2 || f.Randomness != ops.Deterministic || len(o.Attrs) > 0 && o.Attrs[0].Required {
			continue
		}
		for _, x := range samples {
			y, reversed := run1(o, x), backwards(x)
			switch {
			case f.Composition == ops.Idempotent && o.MaxIn != 1:
				same("equal operands", x, run1(o, x, x), o)
			case f.Composition == ops.Idempotent && y != nil:
				same("idempotent", y, run1(o, y), o)
			case f.Composition == ops.Involutive && y != nil:
				same("involutive", x, run1(o, y), o)
			}
			if f.Access == ops.Measures {
				same("shapes alone", y, run1(o, reversed), o)
			}
			if f.Order == ops.Commutative {
				same("commutative", run1(o, x, reversed), run1(o, reversed, x), o)
			}
			if f.Unit != ops.UnitNone && x.DType != ndarray.Bool {
				same("unit", x, run1(o, x, unitOf(f.Unit, x.DType)), o)
			}
		}
		if zeroSignHolds(t, o) {
			checked["sign of zero"]++
		}
	}
	for _, property := range []string{"idempotent", "involutive", "equal operands", "commutative", "shapes alone", "unit", "sign of zero"} {
		assert.Positivef(t, checked[property], "no operator was checked for %s", property)
	}
}

// backwards is x with the elements in reverse order.
func backwards(x *ndarray.Array) *ndarray.Array {
	y, w := ndarray.Must(x.DType, x.Shape...), x.DType.Size()
	for i := range x.Len() {
		copy(y.Data[i*w:(i+1)*w], x.Data[(x.Len()-1-i)*w:])
	}
	return y
}

// unitOf is the number that a unit is in an element type of four bytes.
func unitOf(u ops.Unit, dt ndarray.DType) *ndarray.Array {
	a := ndarray.Must(dt)
	switch {
	case u == ops.UnitOne:
		a.SetFloat(0, 1)
	case u == ops.UnitNegativeZero && dt.IsFloat():
		a.Data[3] = 0x80
	}
	return a
}

// zeroSignHolds evaluates an operator on -0.0 and 0.0; false if it takes no floats.
func zeroSignHolds(t *testing.T, o *ops.Op) bool {
	p := run1(o, ndarray.Of([]float32{0, 0, 1, 2}, 4))
	n := run1(o, ndarray.Of([]float32{0, float32(math.Copysign(0, -1)), 1, 2}, 4))
	if p == nil || n == nil || p.DType == ndarray.String || !p.DType.IsFloat() && p.DType != ndarray.Bool && !p.DType.IsInteger() {
		return false
	}
	for i := range p.Len() {
		a, b := p.Float(i), n.Float(i)
		switch o.Facts.ZeroSign {
		case ops.ZeroSignPassed:
			assert.Truef(t, a == b || a != a && b != b, "%s tells -0.0 from 0.0: %v, %v", o.Name, a, b)
		case ops.ZeroSignIgnored, ops.ZeroSignCleared:
			assert.Equalf(t, p.Data, n.Data, "%s tells -0.0 from 0.0", o.Name)
			assert.Falsef(t, o.Facts.ZeroSign == ops.ZeroSignCleared && a == 0 && math.Signbit(a), "%s gives -0.0", o.Name)
		}
	}
	return true
}

// TestElementwiseInAnyLayout transposes the operands of elementwise operators: the results
// are transposed, too.
func TestElementwiseInAnyLayout(t *testing.T) {
	matrices := []*ndarray.Array{ndarray.Of([]float32{-2, -1, 0.5, 1, 2, 3}, 2, 3), ndarray.Of([]int32{-2, -1, 1, 2, 3, 4}, 2, 3),
		ndarray.Of([]uint8{1, 2, 3, 4, 5, 6}, 2, 3), ndarray.Of([]bool{true, false, false, true, true, true}, 2, 3)}
	checked := 0
	for _, o := range ops.All() {
		for _, x := range matrices {
			if o.Facts.Access != ops.Elementwise {
				continue
			}
			in := []*ndarray.Array{x, x, x}[:max(o.MinIn, 1)]
			y := run1(o, in...)
			if y == nil {
				continue
			}
			turned := run1(&movement.Transpose, x)
			z := run1(o, []*ndarray.Array{turned, turned, turned}[:len(in)]...)
			require.NotNil(t, z, o.Name)
			assert.Equalf(t, run1(&movement.Transpose, y).Data, z.Data, "%s", o.Name)
			checked++
		}
	}
	assert.Greater(t, checked, 100)
}

// currentAttrs are the attributes of the newest form.
func currentAttrs(o *ops.Op) []*ops.AttrSpec {
	return slices.DeleteFunc(slices.Clone(o.Attrs), func(a *ops.AttrSpec) bool { return a.Until > 0 })
}
