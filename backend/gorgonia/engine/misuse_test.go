package engine_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/engine"
	"github.com/berth-onnx/berth/internal/rescue"
)

// operationsOf are the interfaces of package tensor whose methods an engine must survive.
var operationsOf = []reflect.Type{
	reflect.TypeFor[tensor.Adder](), reflect.TypeFor[tensor.Suber](), reflect.TypeFor[tensor.Muler](), reflect.TypeFor[tensor.Diver](),
	reflect.TypeFor[tensor.Power](), reflect.TypeFor[tensor.Moder](), reflect.TypeFor[tensor.FMAer](), reflect.TypeFor[tensor.MinBetweener](),
	reflect.TypeFor[tensor.MaxBetweener](), reflect.TypeFor[tensor.Lter](), reflect.TypeFor[tensor.Lteer](), reflect.TypeFor[tensor.Gter](),
	reflect.TypeFor[tensor.Gteer](), reflect.TypeFor[tensor.ElEqer](), reflect.TypeFor[tensor.MatMuler](), reflect.TypeFor[tensor.MatVecMuler](),
	reflect.TypeFor[tensor.OuterProder](), reflect.TypeFor[tensor.InnerProder](), reflect.TypeFor[tensor.Dotter](), reflect.TypeFor[tensor.Tracer](),
	reflect.TypeFor[tensor.SVDer](), reflect.TypeFor[tensor.Mapper](), reflect.TypeFor[tensor.Neger](), reflect.TypeFor[tensor.Inver](),
	reflect.TypeFor[tensor.Squarer](), reflect.TypeFor[tensor.Cuber](), reflect.TypeFor[tensor.Exper](), reflect.TypeFor[tensor.Tanher](),
	reflect.TypeFor[tensor.Loger](), reflect.TypeFor[tensor.Log2er](), reflect.TypeFor[tensor.Log10er](), reflect.TypeFor[tensor.Sqrter](),
	reflect.TypeFor[tensor.Cbrter](), reflect.TypeFor[tensor.InvSqrter](), reflect.TypeFor[tensor.Signer](), reflect.TypeFor[tensor.Abser](),
	reflect.TypeFor[tensor.Clamper](), reflect.TypeFor[tensor.Reducer](), reflect.TypeFor[tensor.OptimizedReducer](), reflect.TypeFor[tensor.Sumer](),
	reflect.TypeFor[tensor.Proder](), reflect.TypeFor[tensor.Miner](), reflect.TypeFor[tensor.Maxer](), reflect.TypeFor[tensor.Argmaxer](),
	reflect.TypeFor[tensor.Argminer](), reflect.TypeFor[tensor.SoftMaxer](), reflect.TypeFor[tensor.Transposer](), reflect.TypeFor[tensor.Concater](),
	reflect.TypeFor[tensor.Stacker](), reflect.TypeFor[tensor.DenseStacker](), reflect.TypeFor[tensor.Repeater](), reflect.TypeFor[tensor.Diager](),
	reflect.TypeFor[tensor.ByIndiceser](),
}

// hostile are tensors that no operation computes: none, one without a type, a sparse one, and one with a masked element.
func hostile(e tensor.Engine) map[string]tensor.Tensor {
	masked := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float64{1, 2, 3, 4}, []bool{false, true, false, false}), tensor.WithEngine(e))
	return map[string]tensor.Tensor{
		"none": nil, "nil": (*tensor.Dense)(nil), "no type": new(tensor.Dense), "masked": masked,
		"sparse": tensor.CSRFromCoord(tensor.Shape{2, 2}, []int{0, 1}, []int{1, 0}, []float64{1, 2}),
	}
}

// TestMisuse calls every method with a hostile tensor in the place of each operand, and ordinary ones elsewhere: an [engine.Error]
// with a reason that is no panic.
func TestMisuse(t *testing.T) {
	e := engine.New()
	for _, of := range operationsOf {
		for i := range of.NumMethod() {
			m := of.Method(i)
			f := reflect.ValueOf(e).MethodByName(m.Name)
			for name, bad := range hostile(e) {
				for at := range f.Type().NumIn() {
					if !isTensor(f.Type().In(at)) {
						continue
					}
					what := fmt.Sprintf("%s with %s as operand %d", m.Name, name, at)
					out := f.Call(arguments(e, f.Type(), at, bad))
					err, _ := out[len(out)-1].Interface().(error)
					var named *engine.Error
					if assert.ErrorAs(t, err, &named, what) {
						var panicked *rescue.PanicError
						assert.NotErrorAs(t, err, &panicked, what)
					}
				}
			}
		}
	}
}

func isTensor(t reflect.Type) bool {
	return t == reflect.TypeFor[tensor.Tensor]() || t == reflect.TypeFor[tensor.DenseTensor]()
}

// arguments are ordinary ones for a method, but for one.
func arguments(e tensor.Engine, of reflect.Type, at int, bad tensor.Tensor) []reflect.Value {
	n := of.NumIn()
	if of.IsVariadic() {
		n--
	}
	in := make([]reflect.Value, n)
	for i := range in {
		in[i] = reflect.Zero(of.In(i))
		switch {
		case i == at:
			if v := reflect.ValueOf(bad); bad != nil && v.Type().AssignableTo(of.In(i)) {
				in[i] = v
			}
		case isTensor(of.In(i)):
			in[i] = reflect.ValueOf(tensorOf(e, tensor.Float64, []float64{1, 2, 3, 4}, []int{2, 2}))
		case of.In(i) == reflect.TypeFor[any]():
			in[i] = reflect.ValueOf(2.0)
		case of.In(i) == reflect.TypeFor[[]int]():
			in[i] = reflect.ValueOf([]int{1, 2})
		}
	}
	return in
}

// TestGivenTensors: what is given for a result must have its type and as many elements, and is not touched otherwise.
func TestGivenTensors(t *testing.T) {
	for which, e := range engines(t) {
		a := tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4}, []int{2, 2})
		for name, to := range map[string]tensor.Tensor{
			"another type":      tensorOf(e, tensor.Float64, []float64{9, 9, 9, 9}, []int{2, 2}),
			"another kind":      tensorOf(e, tensor.Int32, []float64{9, 9, 9, 9}, []int{2, 2}),
			"too small":         tensorOf(e, tensor.Float32, []float64{9, 9, 9}, []int{3}),
			"too large":         tensorOf(e, tensor.Float32, []float64{9, 9, 9, 9, 9, 9}, []int{2, 3}),
			"a nil *Dense":      (*tensor.Dense)(nil),
			"a masked element":  hostile(e)["masked"],
			"a sparse tensor":   hostile(e)["sparse"],
			"a tensor of bools": tensor.New(tensor.Of(tensor.Bool), tensor.WithShape(2, 2), tensor.WithEngine(e)),
		} {
			before := fmt.Sprint(to)
			for how, opt := range map[string]func(tensor.Tensor) tensor.FuncOpt{"WithReuse": tensor.WithReuse, "WithIncr": tensor.WithIncr} {
				for op, run := range map[string]func(opts ...tensor.FuncOpt) (tensor.Tensor, error){
					"Add": func(opts ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Add(a, a, opts...) },
					"Exp": func(opts ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Exp(a, opts...) },
					"Lt": func(opts ...tensor.FuncOpt) (tensor.Tensor, error) {
						return tensor.Lt(a, a, append(opts, tensor.AsSameType())...)
					},
					"Soft": func(opts ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.SoftMax(a, 1, opts...) },
				} {
					what := fmt.Sprintf("%s: %s of %s %s", which, op, how, name)
					got, err := run(opt(to))
					var named *engine.Error
					require.ErrorAs(t, err, &named, what)
					assert.Nil(t, got, what)
					assert.Equal(t, before, fmt.Sprint(to), what)
				}
			}
		}
		_, err := tensor.Lt(a, a, tensor.WithReuse(a))
		require.Error(t, err, "bools into floats")
		_, err = tensor.Lt(a, a, tensor.WithReuse(a), tensor.AsSameType())
		require.NoError(t, err)
	}
}

// TestStrings: strings are compared, joined and selected like numbers; an arena has no place for new ones.
func TestStrings(t *testing.T) {
	e := engine.New()
	a := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]string{"a", "b", "c", "d"}), tensor.WithEngine(e))
	b := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]string{"a", "x", "c", "y"}), tensor.WithEngine(e))
	require.NoError(t, a.T())
	for name, c := range map[string]struct {
		f    func() (tensor.Tensor, error)
		want any
	}{
		"ElEq":   {func() (tensor.Tensor, error) { return e.ElEq(a, b) }, []bool{true, false, false, false}},
		"Concat": {func() (tensor.Tensor, error) { return e.Concat(a, 0, b) }, []string{"a", "c", "b", "d", "a", "x", "c", "y"}},
		"Stack":  {func() (tensor.Tensor, error) { return e.Stack(a, 2, b) }, []string{"a", "a", "c", "x", "b", "c", "d", "y"}},
		"ByIndices": {func() (tensor.Tensor, error) {
			return e.SelectByIndices(a, tensor.New(tensor.WithBacking([]int{1, 0})), 0, tensor.WithReuse(b.Clone().(*tensor.Dense)))
		}, []string{"b", "d", "a", "c"}},
	} {
		got, err := c.f()
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got.Data(), name)
	}
	_, err := e.Add(a, b)
	var named *engine.Error
	require.ErrorAs(t, err, &named)

	arena, err := engine.NewArena(1 << 10)
	require.NoError(t, err)
	_, err = arena.Concat(a, 0, b)
	require.ErrorContains(t, err, "strings have no place in an arena")
	eq, err := arena.ElEq(a, b)
	require.NoError(t, err)
	assert.Equal(t, []bool{true, false, false, false}, eq.Data())
}

// TestZeroEngines: engines that are zero values, or nil, say so.
func TestZeroEngines(t *testing.T) {
	a := tensor.New(tensor.WithBacking([]float32{1, 2}))
	for name, f := range map[string]func() error{
		"engine":    func() error { _, err := new(engine.Engine).Add(a, a); return err },
		"arena":     func() error { _, err := new(engine.Arena).Sum(a); return err },
		"given":     func() error { _, err := new(engine.Engine).Exp(a, tensor.WithReuse(a)); return err },
		"nil arena": func() error { _, err := (*engine.Arena)(nil).Alloc(8); return err },
	} {
		assert.ErrorContains(t, f(), "the engine is nil or a zero value", name)
	}
}

// TestHostileNumbers: axes, strides and counts without a meaning are errors that are no panics, and nothing is moved.
func TestHostileNumbers(t *testing.T) {
	for which, e := range engines(t) {
		e := e.(interface {
			tensor.Transposer
			tensor.Repeater
			tensor.Tracer
			tensor.SVDer
		})
		a := tensorOf(e.(tensor.Engine), tensor.Float32, []float64{1, 2, 3, 4, 5, 6}, []int{2, 3})
		none := tensorOf(e.(tensor.Engine), tensor.Float32, nil, []int{0, 3})
		for name, f := range map[string]func() error{
			"strides too few":   func() error { return e.Transpose(a, []int{1}) },
			"strides beyond":    func() error { return e.Transpose(a, []int{1, 6}) },
			"strides backwards": func() error { return e.Transpose(a, []int{-3, 1}) },
			"repeats below 0":   func() error { _, err := e.Repeat(a, 0, -2); return err },
			"none, repeated":    func() error { _, err := e.Repeat(none, 0, -2); return err },
			"SVD of nothing":    func() error { _, _, _, err := e.SVD(none, true, true); return err },
		} {
			var named *engine.Error
			var panicked *rescue.PanicError
			err := f()
			require.ErrorAs(t, err, &named, "%s, %s", which, name)
			assert.NotErrorAs(t, err, &panicked, "%s, %s", which, name)
		}
		assert.Equal(t, []float32{1, 2, 3, 4, 5, 6}, a.Data(), which)
		trace, err := e.Trace(none)
		require.NoError(t, err, which)
		assert.Equal(t, float32(0), trace, which)
	}
}

// TestIndices: negative indices count from the last, and those beyond the axis are refused with their number, also unsigned ones
// whose bits are those of a negative integer.
func TestIndices(t *testing.T) {
	for which, e := range engines(t) {
		e := e.(both)
		a := tensor.New(tensor.WithShape(3, 1), tensor.WithBacking([]float64{1, 2, 3}))
		g := tensor.New(tensor.WithShape(2, 1), tensor.WithBacking([]float64{4, 5}))
		for _, c := range []struct {
			indices any
			taken   []float64 // nil: an error
			added   []float64
			text    string
		}{
			{[]int{-1, 0}, []float64{3, 1}, []float64{5, 0, 4}, ""},
			{[]uint64{2, 0}, []float64{3, 1}, []float64{5, 0, 4}, ""},
			{[]uint64{0, 3}, nil, nil, "3"},
			{[]uint64{0, math.MaxUint64}, nil, nil, "index 18446744073709551615, at 1 of the indices"},
			{[]uint64{1 << 63, 0}, nil, nil, "index 9223372036854775808, at 0 of the indices"},
		} {
			what := fmt.Sprintf("%s: %v", which, c.indices)
			index := tensor.New(tensor.WithBacking(c.indices))
			taken, err := e.SelectByIndices(a, index, 0)
			added, wrong := e.SelectByIndicesB(a, g, index, 0)
			if c.taken == nil {
				var named *engine.Error
				require.ErrorAs(t, err, &named, what)
				assert.ErrorContains(t, err, c.text, what)
				require.ErrorAs(t, wrong, &named, what)
				assert.ErrorContains(t, wrong, c.text, what)
				continue
			}
			require.NoError(t, err, what)
			require.NoError(t, wrong, what)
			assert.Equal(t, c.taken, taken.Data(), what)
			assert.Equal(t, c.added, added.Data(), what)
		}
	}
}
