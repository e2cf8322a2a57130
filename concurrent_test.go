package berth_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/testmodels"
)

// askedFor is one input of a model and what it must give.
type askedFor struct{ in, want []ndarray.Value }

// questions draws several inputs for a model and asks the interpreter.
func questions(t *testing.T, name string, dims map[string]int64, count int) (*berth.Model, []askedFor) {
	m, err := testmodels.Build(name)
	require.NoError(t, err)
	var out []askedFor
	for i := range count {
		in, err := graphgen.Inputs(rand.New(rand.NewPCG(uint64(i), 7)), m.Graph, dims)
		require.NoError(t, err)
		for k, p := range m.Graph.Params {
			if p.Name == "ids" || p.Name == "mask" {
				in[k] = indices(in[k].(*ndarray.Array), i)
			}
		}
		want, err := ops.Interpret(t.Context(), m.Graph, in, nil)
		require.NoError(t, err)
		out = append(out, askedFor{in, want})
	}
	return berth.FromModule(m), out
}

// indices makes small non-negative numbers.
func indices(a *ndarray.Array, seed int) *ndarray.Array {
	for i := range a.Len() {
		a.SetInt(i, int64((seed+i)%7))
	}
	return a
}

// byName turns a list of inputs into what Run takes.
func byName(m *berth.Model, in []ndarray.Value) map[string]ndarray.Value {
	out := map[string]ndarray.Value{}
	for i, p := range m.Inputs() {
		out[p.Name] = in[i]
	}
	return out
}

// together runs f in several goroutines and reports what they find wrong.
func together(t *testing.T, goroutines int, f func(g int) error) {
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(g); err != nil {
				errs[g] = fmt.Errorf("goroutine %d: %w", g, err)
			}
		}()
	}
	wg.Wait()
	err := errors.Join(errs...)
	if p := (*ops.PanicError)(nil); errors.As(err, &p) {
		t.Logf("%s", p.Stack)
	}
	require.NoError(t, err)
}

// answers runs a model or its program so many times in a goroutine, and compares the results.
func answers(m *berth.Model, times int, asked func(i int) askedFor, run func(in map[string]ndarray.Value) (map[string]ndarray.Value, error)) error {
	for i := range times {
		q := asked(i)
		got, err := run(byName(m, q.in))
		if err == nil {
			err = check(m, got, q.want)
		}
		if err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
	}
	return nil
}

func check(m *berth.Model, got map[string]ndarray.Value, want []ndarray.Value) error {
	list := make([]ndarray.Value, len(want))
	for i, o := range m.Outputs() {
		list[i] = got[o.Name]
	}
	if d := graphgen.Noise.Diff(list, want); d != "" {
		return errors.New(d)
	}
	return nil
}

// TestConcurrentProgram has two goroutines run one program many times, each with its
// own inputs, and looks at every result.
func TestConcurrentProgram(t *testing.T) {
	share := cpu.ShareNanos
	t.Cleanup(func() { cpu.ShareNanos = share })
	cpu.ShareNanos = 0 // small nodes use all threads, too
	for _, c := range []struct {
		model   string
		dims    map[string]int64
		threads int
		opts    []berth.Option
	}{
		{"mlp", nil, 1, nil},
		{"inception", nil, 2, nil},
		{"unet", nil, 2, nil},
		{"if-nested", nil, 1, nil},
		{"nested-swap", nil, 1, nil},
		{"lstm-loop", nil, 1, nil},
		{"encoder", map[string]int64{"N": 2, "S": 5}, 2, []berth.Option{berth.WithDim("N", 2), berth.WithDim("S", 5)}},
		{"loop-stack", nil, 1, nil},
		{"loop-grow", nil, 1, nil},
		{"heads", map[string]int64{"N": 2, "S": 3}, 1, nil}, // shapes found while running
	} {
		t.Run(c.model, func(t *testing.T) {
			m, asked := questions(t, c.model, c.dims, 6)
			p, err := m.Compile(t.Context(), append(c.opts, berth.WithThreads(c.threads))...)
			require.NoError(t, err)
			together(t, 2, func(g int) error {
				return answers(m, 20, func(i int) askedFor { return asked[(i*(g+1)+g)%len(asked)] },
					func(in map[string]ndarray.Value) (map[string]ndarray.Value, error) {
						return p.RunValues(t.Context(), in)
					})
			})
		})
	}
}

// TestConcurrentModel runs a model with changing shapes from several goroutines:
// programs are compiled, kept and dropped while others run.
func TestConcurrentModel(t *testing.T) {
	var asked []askedFor
	var m *berth.Model
	for n := range int64(5) {
		next, more := questions(t, "heads", map[string]int64{"N": 1 + n, "S": 2 + n%3}, 2)
		m, asked = next, append(asked, more...)
	}
	together(t, 3, func(g int) error {
		return answers(m, 15, func(i int) askedFor { return asked[(i+g*3)%len(asked)] },
			func(in map[string]ndarray.Value) (map[string]ndarray.Value, error) {
				return m.RunValues(t.Context(), in)
			})
	})
}

// TestConcurrentCompile compiles one model in several goroutines: graphs and
// weights are shared and must not be changed.
func TestConcurrentCompile(t *testing.T) {
	m, asked := questions(t, "decoder", map[string]int64{"N": 1, "P": 3}, 1)
	planners := berth.Planners()
	together(t, 3, func(g int) error {
		for i := range 3 {
			opt, _, err := m.Optimize(t.Context())
			if err != nil {
				return err
			}
			p, err := opt.Compile(t.Context(), berth.WithDim("N", 1), berth.WithDim("P", 3), berth.WithPlanner(planners[(g*3+i)%len(planners)]))
			if err != nil {
				return err
			}
			got, err := p.RunValues(t.Context(), byName(m, asked[0].in))
			if err == nil {
				err = check(m, got, asked[0].want)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TestConcurrentCancel cancels one goroutine's endless loops while the other goes on
// computing with the same program; afterwards the cancelled sessions are as good as
// new.
func TestConcurrentCancel(t *testing.T) {
	m, asked := questions(t, "nested-conv", map[string]int64{}, 4)
	for _, q := range asked {
		q.in[0], q.in[1] = ndarray.Scalar[int64](3), ndarray.Scalar[int64](2)
		want, err := ops.Interpret(t.Context(), m.Graph(), q.in, nil)
		require.NoError(t, err)
		copy(q.want, want)
	}
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	endless := byName(m, asked[0].in)
	endless["m"] = ndarray.Scalar[int64](math.MaxInt64) // the inner loop never ends
	together(t, 2, func(g int) error {
		for i := range 10 {
			if g == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				start := time.Now()
				_, err := p.RunValues(ctx, endless)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
					return fmt.Errorf("run %d ended after %v with %v", i, time.Since(start), err)
				}
			}
			q := asked[(i+g)%len(asked)]
			got, err := p.RunValues(t.Context(), byName(m, q.in))
			if err == nil {
				err = check(m, got, q.want)
			}
			if err != nil {
				return fmt.Errorf("goroutine %d, run %d: %w", g, i, err)
			}
		}
		return nil
	})
}

// TestCancelLoop cancels a Loop without a limit and a Scan, on both backends.
func TestCancelLoop(t *testing.T) {
	for _, backend := range []string{"cpu", "reference"} {
		for _, name := range []string{"loop-conv", "capture-loop", "loop-grow", "loop-best"} {
			m, asked := questions(t, name, nil, 1)
			p, err := m.Compile(t.Context(), berth.WithBackend(backend))
			require.NoError(t, err)
			in := byName(m, asked[0].in)
			in["n"] = ndarray.Scalar[int64](math.MaxInt64)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			start := time.Now()
			_, err = p.RunValues(ctx, in)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.Less(t, time.Since(start), 5*time.Second, name)
		}
	}
	m, asked := questions(t, "lstm-loop", nil, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.RunValues(ctx, byName(m, asked[0].in))
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Compile(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// TestCancelBetweenNodes cancels when the first node is done: the next one does not
// start.
func TestCancelBetweenNodes(t *testing.T) {
	p, err := builtin("unet").Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	s.Observe(func(berth.Step, []ndarray.Value) {
		ran++
		cancel()
	})
	in := []ndarray.Value{ndarray.Must(ndarray.Float32, 1, 3, 64, 64)}
	_, err = s.Run(ctx, in)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, ran)
	s.Observe(nil)
	_, err = s.Run(t.Context(), in)
	require.NoError(t, err)
}
