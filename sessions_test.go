package berth_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	wrapped "github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

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
