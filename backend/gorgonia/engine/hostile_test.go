package engine_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/engine"
	"github.com/berth-onnx/berth/internal/rescue"
)

// arguments that methods are called with at random: of every element type, layout and rank, and what is no tensor at all.
type hostileArguments struct {
	rng *rand.Rand
	e   tensor.Engine
	all []*tensor.Dense // made for the call
	to  []tensor.Tensor // given for results by options
}

// hostileInts are axes and counts: some that are right, and some that no budget of memory allows.
var hostileInts = []int{0, 0, 0, 1, 1, 1, 2, 3, -1, -2, 7, math.MinInt, math.MaxInt, math.MaxInt >> 3, math.MaxInt >> 8}

func (h *hostileArguments) integer() int { return hostileInts[h.rng.IntN(len(hostileInts))] }

func (h *hostileArguments) dense() *tensor.Dense {
	types := []tensor.Dtype{tensor.Float64, tensor.Float64, tensor.Float64, tensor.Float32, tensor.Int, tensor.Int64, tensor.Int8, tensor.Uint8,
		tensor.Bool, tensor.String, tensor.Complex64, {Type: reflect.TypeFor[berth.Float16]()}}
	shapes := [][]int{{}, {2}, {2}, {2, 2}, {2, 2}, {2, 2}, {2, 3}, {3, 2}, {2, 1}, {1, 2}, {0, 2}, {0}, {1}, {2, 2, 2}, {2, 3, 4, 2}}
	dt, shape := types[h.rng.IntN(len(types))], slices.Clone(shapes[h.rng.IntN(len(shapes))])
	if n := len(h.all); n > 0 && h.rng.IntN(2) == 0 { // one that may go with what there is
		dt, shape = h.all[n-1].Dtype(), slices.Clone(h.all[n-1].Shape())
	}
	layout := h.rng.IntN(4)
	if dt == tensor.String {
		d := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(slices.Repeat([]string{"a", "b"}, tensor.Shape(shape).TotalSize())[:tensor.Shape(shape).TotalSize()]), tensor.WithEngine(h.e))
		h.all = append(h.all, d)
		return d
	}
	window := layout == 1 && len(shape) > 0 && !slices.Contains(shape, 0)
	memory := shape
	if window {
		memory = larger(shape)
	}
	d := tensor.New(tensor.Of(dt), tensor.WithShape(memory...), tensor.WithEngine(h.e))
	for i := range len(d.Raw) {
		d.Raw[i] = byte(h.rng.IntN(2)) // numbers near 0 and truth values
	}
	h.all = append(h.all, d)
	if window {
		by := make([]tensor.Slice, len(shape))
		for i, n := range shape {
			by[i] = tensor.S(1, 1+n)
		}
		v, err := d.Slice(by...)
		if err == nil {
			d = v.(*tensor.Dense)
			h.all = append(h.all, d)
		}
	}
	if layout == 2 && len(shape) > 1 && d.T() != nil {
		panic("a tensor can not be transposed")
	}
	return d
}

func (h *hostileArguments) tensor() tensor.Tensor {
	switch h.rng.IntN(24) {
	case 0:
		return nil
	case 1:
		return (*tensor.Dense)(nil)
	case 2:
		return new(tensor.Dense)
	case 3:
		return tensor.CSRFromCoord(tensor.Shape{2, 2}, []int{0, 1}, []int{1, 0}, []float64{1, 2})
	case 4:
		return tensor.New(tensor.WithShape(2), tensor.WithBacking([]float64{1, 2}, []bool{true, false}), tensor.WithEngine(h.e))
	case 5:
		if len(h.all) > 0 { // an operand again, for the result or as another operand
			return h.all[h.rng.IntN(len(h.all))]
		}
	}
	return h.dense()
}

func (h *hostileArguments) anything() any {
	switch h.rng.IntN(14) {
	case 0:
		return nil
	case 1:
		return h.tensor()
	case 2:
		return "2"
	case 3:
		return 2
	case 4:
		return func(a, b float64) float64 { return a + b }
	case 5:
		return func([]float64, []float64) {}
	case 6:
		return func([]float64) float64 { return 1 }
	case 7:
		return func(float64) float64 { panic("no") }
	case 8:
		return (func(a, b float64) float64)(nil)
	case 9:
		return func(float64) (float64, error) { return 0, errors.New("no") }
	case 10:
		return float32(2)
	}
	return 2.0
}

func (h *hostileArguments) option() tensor.FuncOpt {
	switch h.rng.IntN(7) {
	case 0:
		return nil
	case 1:
		h.to = append(h.to, h.tensor())
		return tensor.WithIncr(h.to[len(h.to)-1])
	case 2:
		return tensor.UseUnsafe()
	case 3:
		return tensor.AsSameType()
	case 4:
		return tensor.As(tensor.Float32)
	}
	h.to = append(h.to, h.tensor())
	return tensor.WithReuse(h.to[len(h.to)-1])
}

// of is an argument of a type.
func (h *hostileArguments) of(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	var x any
	switch {
	case isTensor(t), t == reflect.TypeFor[tensor.Memory]():
		x = h.tensor()
	case t.Kind() == reflect.Int:
		x = h.integer()
	case t.Kind() == reflect.Int64:
		x = int64(-1 - h.rng.IntN(3))
	case t.Kind() == reflect.Bool:
		x = h.rng.IntN(2) == 0
	case t == reflect.TypeFor[tensor.FuncOpt]():
		x = h.option()
	case t == reflect.TypeFor[any]():
		x = h.anything()
	case t == reflect.TypeFor[[]int]():
		ints := make([]int, h.rng.IntN(4))
		for i := range ints {
			ints[i] = h.integer()
		}
		x = ints
	}
	if r := reflect.ValueOf(x); r.IsValid() && r.Type().AssignableTo(t) {
		v.Set(r)
	}
	return v
}

// stateOf is what a tensor is: an operation that fails, or has another tensor for its result, leaves it.
func stateOf(d *tensor.Dense) string {
	return fmt.Sprint([]int(d.Shape()), d.Strides(), d.DataOrder(), d.IsView(), d.IsMaterializable(), d.Raw)
}

// rarelyRight want operands that fit in more ways than drawn ones do; other tests call them.
var rarelyRight = []string{"Alloc", "OptimizedReduce", "Reduce", "SelectByIndices", "SelectByIndicesB"}

// TestHostileCalls calls every method of both engines with arguments drawn at random: nothing panics, errors are [engine.Error]s
// for a reason that is no panic, come without results, and leave all tensors as they were. What is no
// error leaves those that have no memory in common with its result.
func TestHostileCalls(t *testing.T) {
	for which, e := range engines(t) {
		v := reflect.ValueOf(e)
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			if name == "Reset" {
				continue
			}
			h := &hostileArguments{rng: rand.New(rand.NewPCG(21, uint64(i))), e: e}
			succeeded := 0
			for n := range 400 {
				h.all, h.to = nil, nil
				in := h.drawn(v.Method(i).Type())
				before := states(h.all)
				var out []reflect.Value
				what := fmt.Sprintf("%s.%s, call %d: %s", which, name, n, described(in))
				require.NotPanics(t, func() { out = v.Method(i).Call(in) }, what)
				succeeds := checkOutcome(t, what, out)
				if succeeds {
					succeeded++
				}
				for k, d := range h.all {
					if !succeeds || !h.mayChange(name, d, in, out) {
						require.Equal(t, before[k], stateOf(d), what)
					}
				}
			}
			if v.Method(i).Type().NumOut() > 1 && !slices.Contains(rarelyRight, name) {
				assert.NotZerof(t, succeeded, "%s.%s never succeeds", which, name)
			}
		}
	}
}

// written is which argument of a method is its result.
var written = map[string]int{"MatMul": 2, "MatVecMul": 2, "Outer": 2, "FMA": 2, "FMAScalar": 2, "RepeatReuse": 1, "Transpose": 0, "Memset": 0, "Memclr": 0, "Memcpy": 0}

// mayChange reports whether a tensor has memory in common with a result of a call.
func (h *hostileArguments) mayChange(name string, d *tensor.Dense, in, out []reflect.Value) bool {
	results := slices.Clone(h.to)
	if i, ok := written[name]; ok {
		if to, ok := in[i].Interface().(tensor.Tensor); ok {
			results = append(results, to)
		}
	}
	if len(out) > 0 { // also the operand of UseUnsafe
		if to, ok := out[0].Interface().(tensor.Tensor); ok {
			results = append(results, to)
		}
	}
	return slices.ContainsFunc(results, func(r tensor.Tensor) bool {
		to, ok := r.(*tensor.Dense)
		return ok && to != nil && (to == d || len(to.Raw) > 0 && len(d.Raw) > 0 && to.Uintptr() < d.Uintptr()+d.MemSize() && d.Uintptr() < to.Uintptr()+to.MemSize())
	})
}

// drawn are arguments for a function, with up to three of a variadic one.
func (h *hostileArguments) drawn(of reflect.Type) (in []reflect.Value) {
	for k := range of.NumIn() {
		if of.IsVariadic() && k == of.NumIn()-1 {
			for range h.rng.IntN(3) {
				in = append(in, h.of(of.In(k).Elem()))
			}
			continue
		}
		in = append(in, h.of(of.In(k)))
	}
	return in
}

func states(all []*tensor.Dense) []string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = stateOf(d)
	}
	return out
}

// described are arguments in words; tensors that are printed as a whole may not be valid.
func described(in []reflect.Value) string {
	var out []string
	for _, v := range in {
		switch x := v.Interface().(type) {
		case *tensor.Dense:
			if x != nil && x.Dtype().Type != nil {
				out = append(out, fmt.Sprint(x.Dtype(), x.Shape()))
				continue
			}
			out = append(out, "no tensor")
		case tensor.FuncOpt:
			out = append(out, "option")
		default:
			out = append(out, fmt.Sprintf("%T %v", x, v.Kind()))
			if v.Kind() == reflect.Int || v.Kind() == reflect.Slice {
				out[len(out)-1] = fmt.Sprint(x)
			}
		}
	}
	return fmt.Sprint(out)
}

// checkOutcome reports whether a call had no error, and checks what it has.
func checkOutcome(t *testing.T, what string, out []reflect.Value) bool {
	t.Helper()
	if len(out) == 0 || out[len(out)-1].Type() != reflect.TypeFor[error]() {
		return true
	}
	err, _ := out[len(out)-1].Interface().(error)
	if err == nil {
		return true
	}
	var named *engine.Error
	var panicked *rescue.PanicError
	require.ErrorAs(t, err, &named, what)
	require.NotErrorAs(t, err, &panicked, "%s: %v", what, err)
	for _, o := range out[:len(out)-1] {
		require.True(t, o.IsZero(), "%s: a result of %s beside the error %v", what, o.Type(), err)
	}
	return false
}

// TestNilEngines calls every method of engines that are nil or zero values: an error, if the method has one, and no panic.
func TestNilEngines(t *testing.T) {
	for which, e := range map[string]tensor.Engine{"nil engine": (*engine.Engine)(nil), "nil arena": (*engine.Arena)(nil), "zero engine": new(engine.Engine), "zero arena": new(engine.Arena)} {
		v := reflect.ValueOf(e)
		for i := range v.NumMethod() {
			h := &hostileArguments{rng: rand.New(rand.NewPCG(22, uint64(i))), e: engine.New()}
			name := v.Type().Method(i).Name
			var out []reflect.Value
			require.NotPanics(t, func() { out = v.Method(i).Call(h.drawn(v.Method(i).Type())) }, "%s %s", which, name)
			if slices.Contains([]string{"Free", "Accessible", "Memset", "Memcpy", "Alloc"}, name) || checkOutcome(t, which+" "+name, out) {
				continue
			}
			assert.ErrorContains(t, out[len(out)-1].Interface().(error), "the engine is nil or a zero value", "%s %s", which, name)
		}
	}
}

// TestMethods: an engine has the methods of package tensor's interfaces, and none of the default engine's on bare memory.
func TestMethods(t *testing.T) {
	known := map[string]bool{"Reset": true, "Used": true}
	for _, of := range append(operationsOf, reflect.TypeFor[tensor.Engine]()) {
		for i := range of.NumMethod() {
			known[of.Method(i).Name] = true
		}
	}
	for which, e := range engines(t) {
		v := reflect.TypeOf(e)
		for i := range v.NumMethod() {
			assert.True(t, known[v.Method(i).Name], "%s: %s", which, v.Method(i).Name)
		}
	}
}
