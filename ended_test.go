package berth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	wrapped "github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// Models that keep an operation busy for long enough to be ended in the middle.

// longChain is a model of so many nodes, each of which reads the one before and, if it
// branches, one far before.
func longChain(nodes int, branches bool) string {
	var b strings.Builder
	b.WriteString("graph \"chain\" {\nin %v0: float32[16]\n")
	for i := range nodes {
		if branches && i > 50 {
			fmt.Fprintf(&b, "%%v%d: float32[16] = Add(%%v%d, %%v%d)\n", i+1, i, i-i%50)
		} else {
			fmt.Fprintf(&b, "%%v%d: float32[16] = Neg(%%v%d)\n", i+1, i)
		}
	}
	fmt.Fprintf(&b, "out %%v%d\n}\n", nodes)
	return b.String()
}

// fan is a value with so many readers, joined by one node.
func fan(readers int, join string) string {
	var b strings.Builder
	var all []string
	b.WriteString("graph \"fan\" {\nin %x: float32[16]\n")
	for i := range readers {
		fmt.Fprintf(&b, "%%r%d: float32[16] = Neg(%%x)\n", i)
		all = append(all, fmt.Sprintf("%%r%d", i))
	}
	fmt.Fprintf(&b, "%%y = %s(%s) %s\nout %%y\n}\n", join, strings.Join(all, ", "), map[string]string{"Concat": "[axis=0]"}[join])
	return b.String()
}

const (
	products = `graph "products" { in %x: float32[2048,2048] %a = MatMul(%x, %x) %b = MatMul(%a, %x) %c = MatMul(%b, %x) out %c }`
	einsum   = `graph "einsum" { in %x: float32[400,400] %a = Einsum(%x, %x, %x) [equation="ab,bc,cd->ad"] out %a }`
	resized  = `graph "resized" { in %x: float32[1,8,400,400] const %s: int64[4] = [1, 8, 4000, 4000] %a = Resize(%x, _, _, %s) [mode="cubic"] out %a }`
	kept     = `graph "kept" { in %b: float32[1,12000,4] in %s: float32[1,4,12000] const %n: int64[] = 12000 const %t: float32[] = 1 %a = NonMaxSuppression(%b, %s, %n, %t) out %a }`
	counted  = `graph "empty" { in %x: float32[2] in %n: int64[] const %yes: bool[] = true
		%y = Loop(%n, %yes, %x) { body: graph "b" { in %i: int64[] in %k: bool[] in %v: float32[2] %w = Neg(%v) out %k, %w } } out %y }`
)

func modelOf(t *testing.T, text string) *berth.Model {
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
}

func inputsFor(m *berth.Model) map[string]ndarray.Value {
	in := map[string]ndarray.Value{}
	for _, p := range m.Inputs() {
		shape, _ := p.Type.Static()
		a := ndarray.Must(p.Type.DType, shape...)
		for i := range min(a.Len(), 50000) {
			if a.DType == ndarray.Int64 {
				a.SetInt(i, 1<<50)
			} else {
				a.SetFloat(i, float64(i%97)/97)
			}
		}
		in[p.Name] = a
	}
	return in
}

var errPulled = errors.New("the plug was pulled")

// TestEverythingEnds cancels operations on big models at random times. The measured time
// from there to the answer is printed with -v; the bound is wide, since test machines are
// busy.
func TestEverythingEnds(t *testing.T) {
	const most = 5 * time.Second
	dir := t.TempDir()
	save := func(t *testing.T, m *berth.Model) string {
		path := filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_")+".onnx")
		require.NoError(t, m.Save(path, berth.SaveOptions{}))
		return path
	}
	run := func(opts ...berth.Option) func(*testing.T, *berth.Model) func(context.Context) error {
		return func(t *testing.T, m *berth.Model) func(context.Context) error {
			p, err := m.Compile(t.Context(), append(opts, berth.WithPlanner("greedy-size"))...)
			require.NoError(t, err)
			in := inputsFor(m)
			return func(ctx context.Context) error { _, err := p.RunValues(ctx, in); return err }
		}
	}
	open := func(t *testing.T, m *berth.Model) func(context.Context) error {
		path := save(t, m)
		return func(ctx context.Context) error {
			m, err := berth.Open(path, berth.WithContext(ctx))
			if err == nil {
				m.Close()
			}
			return err
		}
	}
	optimize := func(_ *testing.T, m *berth.Model) func(context.Context) error {
		return func(ctx context.Context) error { _, _, err := m.Optimize(ctx); return err }
	}
	compile := func(opts ...berth.Option) func(*testing.T, *berth.Model) func(context.Context) error {
		return func(_ *testing.T, m *berth.Model) func(context.Context) error {
			return func(ctx context.Context) error { _, err := m.Compile(ctx, opts...); return err }
		}
	}
	compare := func(_ *testing.T, m *berth.Model) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := m.Compare(ctx, berth.CompareOptions{})
			return err
		}
	}
	type operation struct {
		name, model string
		start       func(*testing.T, *berth.Model) func(context.Context) error
	}
	cases := []operation{
		{"open a chain", longChain(50000, false), open},
		{"optimize a chain", longChain(20000, true), optimize},
		{"optimize a fan", fan(20000, "Sum"), optimize},
		{"compile a chain", longChain(20000, true), compile()},
		{"compile a fan", fan(20000, "Sum"), compile()},
		{"compile a concatenation", fan(4000, "Concat"), compile()},
		{"compile for every order", longChain(3000, true), compile(berth.WithParallelSafe())},
		{"compare", longChain(3000, true), compare},
		{"run products", products, run()},
		{"run products by reference", products, run(berth.WithBackend("reference"))},
		{"run einsum by reference", einsum, run(berth.WithBackend("reference"))},
		{"run resize by reference", resized, run(berth.WithBackend("reference"))},
		{"run resize", resized, run()},
		{"run non-maximum suppression", kept, run()},
		{"run a loop", counted, run(berth.WithoutPasses())},
	}
	for _, name := range berth.Planners() {
		cases = append(cases, operation{"plan by " + name, longChain(4000, true), compile(berth.WithPlanner(name), berth.WithSchedule("file"))})
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			do := c.start(t, modelOf(t, c.model))
			var worst time.Duration
			ended := 0
			for range 3 {
				ctx, cancel := context.WithCancelCause(t.Context())
				after := time.Duration(1+r.IntN(400)) * time.Millisecond
				pulled := make(chan time.Time, 1)
				timer := time.AfterFunc(after, func() { pulled <- time.Now(); cancel(errPulled) })
				err := do(ctx)
				if !timer.Stop() {
					worst = max(worst, time.Since(<-pulled))
				}
				cancel(nil)
				if err == nil {
					continue // it was done before
				}
				ended++
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorIs(t, err, errPulled)
			}
			t.Logf("%d of 3 ended early, at most %v after", ended, worst)
			assert.Less(t, worst, most)
		})
	}
}

// TestCausesAnywhere ends operations at every point where they look at their context: each error has the cause.
func TestCausesAnywhere(t *testing.T) {
	m, asked := questions(t, "if-nested", nil, 1)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	in := byName(m, asked[0].in)
	for name, operation := range map[string]func(context.Context) error{
		"Model.RunValues": func(ctx context.Context) error { m.Trim(); _, err := m.RunValues(ctx, in); return err },
		"Trace":           func(ctx context.Context) error { m.Trim(); _, err := m.Trace(ctx, in); return err },
		"Compile":         func(ctx context.Context) error { _, err := m.Compile(ctx); return err },
		"Optimize":        func(ctx context.Context) error { _, _, err := m.Optimize(ctx); return err },
		"Compare": func(ctx context.Context) error {
			_, err := m.Compare(ctx, berth.CompareOptions{Planners: []string{"nnc"}})
			return err
		},
		"WriteInstance":  func(ctx context.Context) error { return m.WriteInstance(ctx, io.Discard) },
		"CheckPortable":  func(ctx context.Context) error { return m.CheckPortable(ctx) },
		"TypeViolations": func(ctx context.Context) error { _, err := m.TypeViolations(ctx); return err },
		"Folded":         func(ctx context.Context) error { _, err := m.Folded(ctx); return err },
		"Extend": func(ctx context.Context) error {
			_, err := m.Extend(ctx, func(context.Context, *ssa.Graph) error { return nil })
			return err
		},
		"NewSessionContext":   func(ctx context.Context) error { _, err := p.NewSessionContext(ctx); return err },
		"NewSessionInContext": func(ctx context.Context) error { _, err := p.NewSessionInContext(ctx, berth.NewArena()); return err },
		"Program.RunValues":   func(ctx context.Context) error { _, err := p.RunValues(ctx, in); return err },
		"Program.RunInto":     func(ctx context.Context) error { return p.RunInto(ctx, in, nil) },
		"Session.RunValues":   func(ctx context.Context) error { _, err := s.RunValues(ctx, in); return err },
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				ctx := &countdown{}
				inner, cancel := context.WithCancelCause(t.Context())
				ctx.Context, ctx.cancel = inner, func() { cancel(errPulled) }
				ctx.left.Store(n)
				err := operation(ctx)
				cancel(nil)
				if err == nil {
					return
				}
				require.ErrorIs(t, err, context.Canceled, "at the look %d", n)
				require.ErrorIs(t, err, errPulled, "at the look %d", n)
			}
		})
	}
}

// endedIn is a context that has ended for whoever looks at it below a function, and for nobody else.
type endedIn struct {
	context.Context
	function string
}

func (e endedIn) Err() error {
	at := make([]uintptr, 64)
	frames := runtime.CallersFrames(at[:runtime.Callers(2, at)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, e.function) {
			return context.Canceled
		}
		if !more {
			return nil
		}
	}
}

// TestSessionsEnd: whoever makes a session gives it its context, which ends that.
func TestSessionsEnd(t *testing.T) {
	const text = `graph "g" { in %x: float32[4] const %w: float32[4] = [1, 2, 3, 4] %y = Mul(%x, %w) %l = ReduceSum(%y) [keepdims=0] out %l }`
	x := ndarray.Of([]float32{1, 2, 3, 4}, 4)
	in := map[string]ndarray.Value{"x": x}
	m := modelOf(t, text)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	w := wrapped.WrapProgram(p)
	a, err := expr.New[float32](8)
	require.NoError(t, err)
	for name, f := range map[string]func(ctx context.Context) error{
		"NewSessionContext":            func(ctx context.Context) error { _, err := p.NewSessionContext(ctx); return err },
		"NewSessionInContext":          func(ctx context.Context) error { _, err := p.NewSessionInContext(ctx, berth.NewArena()); return err },
		"gorgonia NewSessionContext":   func(ctx context.Context) error { _, err := w.NewSessionContext(ctx); return err },
		"gorgonia NewSessionInContext": func(ctx context.Context) error { _, err := w.NewSessionInContext(ctx, berth.NewArena()); return err },
		"Model.RunValues":              func(ctx context.Context) error { m.Trim(); _, err := m.RunValues(ctx, in); return err },
		"Trace":                        func(ctx context.Context) error { _, err := m.Trace(ctx, in); return err },
		"train.New":                    func(ctx context.Context) error { _, err := train.New(ctx, m, train.Options{}); return err },
		"expr.Assign": func(ctx context.Context) error {
			return expr.NewEngine(expr.Options{}).Assign(ctx, expr.Into(a, expr.Exp(expr.Add[float32](a, a))))
		},
		"vm.New": func(ctx context.Context) error {
			g := gorgonia.NewGraph()
			v := gorgonia.NewVector(g, tensor.Float32, gorgonia.WithShape(4), gorgonia.WithName("v"), gorgonia.WithInit(gorgonia.Zeroes()))
			gorgonia.Must(gorgonia.Exp(v))
			_, err := vm.New(g, vm.WithContext(ctx))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, f(endedIn{t.Context(), "no function"}))
			function := ").OpenSession"
			if strings.Contains(name, "InContext") {
				function += "In"
			}
			require.ErrorIs(t, f(endedIn{t.Context(), function}), context.Canceled)
		})
	}
}

// TestSessionInUsedArenaEnds: a session in an arena waits for the run that holds it until its own context ends, whose cause it tells.
func TestSessionInUsedArenaEnds(t *testing.T) {
	ended, end := context.WithCancelCause(t.Context())
	end(errPulled)
	m, arena := modelOf(t, `graph "g" { in %x: float32[4] %y = Exp(%x) out %y }`), berth.NewArena()
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	var refused []error
	hook := &berth.Hook{Before: func(context.Context, berth.Event) {
		done := make(chan error)
		go func() {
			_, err := p.NewSessionInContext(ended, arena)
			done <- err
		}()
		refused = append(refused, <-done)
	}}
	q, err := m.Compile(t.Context(), berth.WithHook(hook))
	require.NoError(t, err)
	s, err := q.NewSessionIn(arena)
	require.NoError(t, err)
	_, err = s.Run(t.Context(), []ndarray.Value{ndarray.Of([]float32{1, 2, 3, 4}, 4)})
	require.NoError(t, err)
	require.NotEmpty(t, refused)
	require.ErrorIs(t, errors.Join(refused...), context.Canceled)
	require.ErrorIs(t, errors.Join(refused...), errPulled)
}

// TestEndedSessionsCollectNothing: the collection of the heap before a program's first session, which takes seconds of a large one,
// is left to a session whose context has not ended.
func TestEndedSessionsCollectNothing(t *testing.T) {
	heap := make([]byte, 32<<20) // more than what programs leave alone
	p, err := modelOf(t, `graph "g" { in %x: float32[4] %y = Exp(%x) out %y }`).Compile(t.Context())
	require.NoError(t, err)
	forced := func(ctx context.Context) (n uint32, err error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = p.NewSessionContext(ctx)
		runtime.ReadMemStats(&after)
		return after.NumForcedGC - before.NumForcedGC, err
	}
	ended, end := context.WithCancel(t.Context())
	end()
	n, err := forced(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)
	n, err = forced(t.Context())
	require.NoError(t, err)
	require.NotZero(t, n)
	runtime.KeepAlive(heap)
}
