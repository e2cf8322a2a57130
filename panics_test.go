package berth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/preprocess"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// TestHostileArguments calls every exported function and method with nil, typed nil, zero values, closed models, wrong
// types, huge and negative numbers, and cancelled contexts: one hostile argument among good ones, then several drawn at
// random. Functions that return an error never panic, and nothing of the root package does; the others may where the
// comment of their package says so.
func TestHostileArguments(t *testing.T) {
	mayPanic := packagesThatPanic(t)
	apiText, err := os.ReadFile("testdata/api.txt")
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?m)^([^:]+): func ([A-Z]\w*)`).FindAllStringSubmatch(string(apiText), -1)
	require.Len(t, apiFuncs, len(listed), "apiFuncs is not the list of functions in testdata/api.txt")
	t.Chdir(t.TempDir()) // for what is saved
	for _, f := range listed {
		name := f[1] + "." + f[2]
		require.Contains(t, apiFuncs, name)
		if name == "ops.Register" || name == "onnximport.RegisterLowering" || name == "backend.Register" { // change the process
			continue
		}
		callHostile(t, mayPanic, f[1], name, reflect.ValueOf(apiFuncs[name]), nil)
	}
	isListed := map[string]bool{}
	methods := regexp.MustCompile(`(?m)^([^:]+): (?:type (\w+).*: )?func \((?:\w+ )?\*?(\w+)\) (\w+)`).FindAllStringSubmatch(string(apiText), -1)
	for _, m := range methods {
		name := m[3]
		if m[2] != "" {
			name = m[2]
		}
		require.Contains(t, apiTypes, m[1]+"."+name)
		isListed[m[1]+"."+name+"."+m[4]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(apiTypes)) {
		typ, pkg := apiTypes[name], name[:strings.LastIndex(name, ".")]
		if typ.Kind() == reflect.Interface {
			continue
		}
		for _, recv := range []reflect.Type{typ, reflect.PointerTo(typ)} {
			for i := range recv.NumMethod() {
				m := recv.Method(i)
				if _, byValue := typ.MethodByName(m.Name); byValue && recv != typ || !isListed[name+"."+m.Name] {
					continue
				}
				callHostile(t, mayPanic, pkg, name+"."+m.Name, m.Func, &recv)
			}
		}
	}
}

// packagesThatPanic are those whose comments say which functions panic.
func packagesThatPanic(t *testing.T) map[string]bool {
	out := map[string]bool{}
	for name := range apiFuncs {
		pkg := name[:strings.LastIndex(name, ".")]
		doc, _ := os.ReadFile(pkg + "/doc.go")
		head, _, _ := bytes.Cut(doc, []byte("\npackage "))
		out[pkg] = pkg != "." && bytes.Contains(head, []byte("anic"))
	}
	return out
}

var errorType = reflect.TypeFor[error]()

func callHostile(t *testing.T, mayPanic map[string]bool, pkg, name string, f reflect.Value, recv *reflect.Type) {
	if testing.Verbose() {
		fmt.Fprintln(os.Stderr, name)
	}
	ft := f.Type()
	hasError := ft.NumOut() > 0 && ft.Out(ft.NumOut()-1) == errorType
	if !hasError && mayPanic[pkg] {
		return
	}
	draw := &arguments{fallible: hasError, rng: rand.New(rand.NewPCG(1, 2))}
	call := func(args []reflect.Value) {
		defer func() {
			if r := recover(); r != nil {
				assert.Fail(t, "a panic", "%s(%s): %v\n%s", name, describe(args), r, firstFrames(debug.Stack()))
			}
		}()
		if ft.IsVariadic() {
			f.CallSlice(args)
		} else {
			f.Call(args)
		}
	}
	count := make([]int, ft.NumIn())
	for i := range count {
		count[i] = len(draw.values(ft.In(i), 0))
		for k := range count[i] {
			if i == 0 && k == 0 && recv != nil && (*recv).Implements(errorType) {
				continue // a nil error
			}
			call(draw.args(ft, func(j int) int {
				if i == j {
					return k
				}
				return -1 // the last one, which is good
			}))
		}
	}
	for range 2 * len(count) {
		call(draw.args(ft, func(i int) int {
			if i == 0 && recv != nil && (*recv).Implements(errorType) {
				return -1
			}
			return draw.rng.IntN(1 << 20)
		}))
	}
}

// firstFrames are the frames below the panic.
func firstFrames(stack []byte) string {
	_, below, _ := strings.Cut(string(stack), "panic(")
	lines := strings.SplitN(below, "\n", 12)
	return strings.Join(lines[:min(len(lines), 11)], "\n")
}

func describe(args []reflect.Value) string {
	var s []string
	for _, a := range args {
		switch {
		case a.Kind() == reflect.Pointer && a.IsNil():
			s = append(s, "nil "+a.Type().String())
		case a.Kind() == reflect.Pointer:
			s = append(s, fmt.Sprintf("%s zero=%v", a.Type(), a.Elem().IsZero()))
		case a.Kind() == reflect.Interface && !a.IsNil():
			s = append(s, a.Elem().Type().String())
		case a.Kind() == reflect.Struct, a.Kind() == reflect.Func, a.Kind() == reflect.Map:
			s = append(s, a.Type().String())
		default:
			s = append(s, fmt.Sprintf("%v", a.Interface()))
		}
	}
	return strings.Join(s, ", ")
}

// arguments makes arguments; the last value of a type is a good one.
type arguments struct {
	fallible bool // of a function that returns an error
	rng      *rand.Rand
}

func (h *arguments) args(ft reflect.Type, pick func(i int) int) []reflect.Value {
	var out []reflect.Value
	for i := range ft.NumIn() {
		vs := h.values(ft.In(i), 0)
		if k := pick(i); k >= 0 {
			out = append(out, vs[k%len(vs)])
		} else {
			out = append(out, vs[len(vs)-1])
		}
	}
	return out
}

type key struct{}

// nilContext is a context whose methods panic on a nil pointer.
type nilContext struct{ context.Context }

func (c *nilContext) Done() <-chan struct{} { return c.Context.Done() }

func (h *arguments) values(t reflect.Type, depth int) (out []reflect.Value) {
	add := func(vs ...any) {
		for _, v := range vs {
			r := reflect.New(t).Elem()
			if v != nil {
				r.Set(reflect.ValueOf(v).Convert(t))
			}
			out = append(out, r)
		}
	}
	add(nil)
	if made := h.made(t); made != nil {
		add(made...)
		return out
	}
	switch t.Kind() {
	case reflect.Bool:
		add(true)
	case reflect.Int, reflect.Int64:
		if h.fallible {
			add(int64(math.MaxInt64), int64(math.MinInt64), int64(1)<<40)
		}
		add(-1, 3, 1)
	case reflect.Float32, reflect.Float64:
		add(math.NaN(), math.Inf(-1), 1.0)
	case reflect.String:
		add("\x00", strings.Repeat("long ", 1000), "no/such", "N")
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Int32, reflect.Int8:
		add(1, 100)
	case reflect.Slice:
		add(reflect.MakeSlice(t, 0, 0).Interface())
		if depth < 3 {
			all := h.values(t.Elem(), depth+1)
			for _, one := range all {
				out = append(out, reflect.Append(reflect.MakeSlice(t, 0, 1), one))
			}
			out = append(out, reflect.Append(reflect.MakeSlice(t, 0, 1), all...), reflect.Append(reflect.MakeSlice(t, 0, 1), all[len(all)-1]))
		}
	case reflect.Map:
		m := reflect.MakeMap(t)
		m.SetMapIndex(reflect.Zero(t.Key()), reflect.Zero(t.Elem()))
		out = append(out, m)
		for _, v := range h.values(t.Elem(), depth+1) {
			m := reflect.MakeMap(t)
			if t.Key().Kind() == reflect.String {
				m.SetMapIndex(reflect.ValueOf("x").Convert(t.Key()), v)
			}
			out = append(out, m)
		}
	case reflect.Pointer:
		out = append(out, reflect.New(t.Elem()))
		if depth < 3 {
			for _, v := range h.values(t.Elem(), depth+1) {
				p := reflect.New(t.Elem())
				p.Elem().Set(v)
				out = append(out, p)
			}
		}
	case reflect.Struct:
		if depth < 3 {
			for i := range t.NumField() {
				if !t.Field(i).IsExported() {
					continue
				}
				for _, v := range h.values(t.Field(i).Type, depth+2) {
					s := reflect.New(t).Elem()
					s.Field(i).Set(v)
					out = append(out, s)
				}
			}
		}
	case reflect.Func:
		out = append(out, reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value {
			var zero []reflect.Value
			for i := range t.NumOut() {
				zero = append(zero, reflect.Zero(t.Out(i)))
			}
			return zero
		}))
	}
	return out
}

// made are values of types that cannot be put together by their fields, hostile ones first.
func (h *arguments) made(t reflect.Type) []any {
	switch t {
	case reflect.TypeFor[context.Context]():
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		good := context.WithValue(context.Background(), key{}, 1)
		if h.fallible {
			return []any{(*nilContext)(nil), cancelled, good}
		}
		return []any{cancelled, good}
	case reflect.TypeFor[io.Writer]():
		return []any{(*bytes.Buffer)(nil), failing{}, io.Discard}
	case reflect.TypeFor[io.Reader]():
		return []any{(*bytes.Buffer)(nil), failing{}, strings.NewReader("id,lower,upper,size\na,0,1,99999999999999999999\n"), strings.NewReader("id,lower,upper,size\na,0,1,4\n")}
	case reflect.TypeFor[ndarray.Value]():
		list, maybe := &ndarray.Sequence{}, &ndarray.Optional{}
		list.Items, maybe.Value = []ndarray.Value{list}, maybe
		return []any{list, maybe, (*ndarray.Array)(nil), (*ndarray.Sequence)(nil), (*ndarray.Optional)(nil), (*ndarray.Map)(nil), (*ndarray.Sparse)(nil),
			&ndarray.Array{}, &ndarray.Array{DType: ndarray.Float32, Shape: []int{2}}, &ndarray.Array{DType: 200, Shape: []int{-1}},
			&ndarray.Sequence{Items: []ndarray.Value{nil, (*ndarray.Array)(nil)}}, &ndarray.Optional{Value: (*ndarray.Array)(nil)}, &ndarray.Map{}, &ndarray.Sparse{},
			ndarray.Must(ndarray.Float32, 1, 8)}
	case reflect.TypeFor[*ndarray.Array]():
		return []any{&ndarray.Array{}, &ndarray.Array{DType: ndarray.Float32, Shape: []int{math.MaxInt, 4}}, &ndarray.Array{DType: ndarray.String, Shape: []int{1}}, ndarray.Must(ndarray.Float32, 1, 8)}
	case reflect.TypeFor[*tensor.Dense]():
		return []any{&tensor.Dense{}, tensor.New(tensor.WithShape(0, 8), tensor.WithBacking([]float32{})), tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Float64)), tensor.New(tensor.WithShape(1, 8), tensor.Of(tensor.Float32))}
	case reflect.TypeFor[*ssa.Module]():
		return []any{&ssa.Module{}, &ssa.Module{Graph: &ssa.Graph{Params: []*ssa.Value{nil}, Nodes: []*ssa.Node{nil}}}, module()}
	case reflect.TypeFor[*ssa.Graph]():
		return []any{&ssa.Graph{}, &ssa.Graph{Params: []*ssa.Value{nil}, Results: []*ssa.Value{nil}, Nodes: []*ssa.Node{nil}}, module().Graph}
	case reflect.TypeFor[*ssa.Node]():
		return []any{&ssa.Node{}, &ssa.Node{Op: "Loop"}, &ssa.Node{Op: "Scan", In: []*ssa.Value{nil}}, &ssa.Node{Op: "Conv", In: []*ssa.Value{{}, nil}, Out: []*ssa.Value{nil}}, module().Graph.Nodes[0]}
	case reflect.TypeFor[*ssa.Value]():
		return []any{&ssa.Value{}, module().Graph.Params[0]}
	case reflect.TypeFor[*ssa.Constant]():
		return []any{&ssa.Constant{}, ssa.Int64s(1)}
	case reflect.TypeFor[ssa.Type]():
		endless := &ssa.Type{Kind: ssa.KindSequence}
		endless.Elem = endless
		return []any{*endless, ssa.StaticTensor(99, 1), ssa.StaticTensor(ndarray.Float32, 2), ssa.TensorOf(ndarray.Float32, ssa.Sym("N"))}
	case reflect.TypeFor[*preprocess.Sound]():
		return []any{&preprocess.Sound{Rate: 1, Channels: [][]float32{{1, 2}, {1}}}, &preprocess.Sound{Channels: [][]float32{nil, {1}}}}
	case reflect.TypeFor[*berth.Model]():
		closed := berth.FromModule(module())
		closed.Close()
		return []any{&berth.Model{}, berth.FromModule(nil), berth.FromModule(&ssa.Module{}), closed, berth.FromModule(module())}
	case reflect.TypeFor[*berth.Program]():
		return []any{&berth.Program{}, programs(true), programs(false)}
	case reflect.TypeFor[*berth.Session]():
		return []any{&berth.Session{}, sessions(true), sessions(false)}
	case reflect.TypeFor[*gorgonia.Model]():
		return []any{&gorgonia.Model{}, gorgonia.Wrap(berth.FromModule(module()))}
	case reflect.TypeFor[*gorgonia.Program]():
		return []any{&gorgonia.Program{}, gorgonia.WrapProgram(programs(true)), gorgonia.WrapProgram(programs(false))}
	case reflect.TypeFor[*gorgonia.Session]():
		return []any{&gorgonia.Session{}, gorgonia.WrapSession(sessions(true)), gorgonia.WrapSession(sessions(false))}
	case reflect.TypeFor[berth.Option]():
		return []any{berth.WithDump(nil), berth.WithPlanner("none"), berth.WithThreads(-1), berth.WithShape("x", -1), berth.WithShape("x", math.MaxInt, math.MaxInt), berth.WithDim("N", -5),
			berth.WithDim("N", 0), berth.WithMaxMemory(-1), berth.WithMaxMemory(1), berth.WithIdleLimits(berth.IdleLimits{Sessions: -1, Bytes: -1, After: -1}), berth.WithState("", ""), berth.WithBound("", 1),
			berth.WithBackend("\x00"), berth.WithSchedule("?"), berth.WithOptimizeFor(200), berth.WithMaxOpset(-1), berth.WithoutPass("?"), berth.WithChannelBlock(-7), berth.WithCheck()}
	case reflect.TypeFor[*planner.Problem]():
		var out []any
		for _, sizes := range [][]int64{{-1}, {math.MaxInt64, math.MaxInt64}, {1, 2}} {
			p := &planner.Problem{Align: 64}
			for _, s := range sizes {
				p.Buffers = append(p.Buffers, planner.Buffer{Size: s, Lo: 0, Hi: 2})
			}
			out = append(out, p)
		}
		return append([]any{&planner.Problem{}, &planner.Problem{Align: -3, Buffers: []planner.Buffer{{Size: 4, Lo: 5, Hi: -5}}}, &planner.Problem{Buffers: []planner.Buffer{{Size: 1, Hi: 1}}, Order: (*planner.Partial)(nil)}}, out...)
	case reflect.TypeFor[expr.Value[float32]]():
		values, _ := exprValues()
		return values
	case reflect.TypeFor[*expr.Tensor[float32]]():
		_, good := exprValues()
		return []any{&expr.Tensor[float32]{}, good.Broadcast(2, 8), good.Reshape(-1), good}
	case reflect.TypeFor[expr.Assignment]():
		_, good := exprValues()
		return []any{expr.Assignment{}, expr.Into(good, expr.Value[float32](nil)), expr.Into(good, expr.Exp[float32](good))}
	case reflect.TypeFor[ops.Call]():
		return []any{ops.Call{}}
	}
	return nil
}

func module() *ssa.Module {
	m, err := testmodels.Build("mlp")
	if err != nil {
		panic(err)
	}
	return m
}

func programs(closed bool) *berth.Program {
	m := berth.FromModule(module())
	p, err := m.Compile(context.Background())
	if err != nil {
		panic(err)
	}
	if closed {
		m.Close()
	}
	return p
}

func sessions(closed bool) *berth.Session {
	m := berth.FromModule(module())
	p, err := m.Compile(context.Background())
	if err != nil {
		panic(err)
	}
	s, err := p.NewSession()
	if err != nil {
		panic(err)
	}
	if closed {
		m.Close()
	}
	return s
}

// failing reads and writes nothing.
type failing struct{}

var errFailing = errors.New("failing")

func (failing) Read([]byte) (int, error)  { return 0, errFailing }
func (failing) Write([]byte) (int, error) { return 0, errFailing }
