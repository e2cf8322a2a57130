package program

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// overwriteCases are graphs of an input x, a state w and its next value, which is the last result.
var overwriteCases = []struct {
	name, text string
	over       bool
}{
	{"last reader", `%p = Mul(%x, %w) %next = Sub(%w, %p) out %p, %next`, true},
	{"an earlier place in the order", `%s = Exp(%x) %next = Sub(%w, %s) %p = Mul(%x, %w) out %p, %next`, true},
	{"two other readers", `%next = Sub(%w, %x) %p = Mul(%x, %w) %q = Add(%w, %p) out %q, %next`, true},
	{"its next value is read", `%p = Mul(%x, %w) %next = Sub(%w, %p) %q = Neg(%next) out %q, %next`, true},
	{"its next value is read before another reader", `%next = Sub(%w, %x) %q = Neg(%next) %p = Mul(%q, %w) out %p, %next`, false},
	{"a result shows it", `%p = Reshape(%w, %flat) %next = Sub(%w, %x) out %p, %next`, false},
	{"it is a result", `%next = Sub(%w, %x) out %w, %next`, false},
	{"a view is read", `%v = Reshape(%w, %flat) %s = ReduceSum(%v) [keepdims=0] %next = Sub(%w, %s) out %s, %next`, true},
	{"a transposed copy is read by the node that overwrites it", `%v = Transpose(%w) %next = Sub(%w, %v) out %v, %next`, true},
	{"its node reads all for each element", `%next = MatMul(%w, %x) %p = Neg(%x) out %p, %next`, false},
	{"read in a loop", `%p = Loop(%trips, %go, %x | %w) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float32[4,4] in %w: float32[4,4] %m = MatMul(%h, %w) %on = Identity(%c) out %on, %m } } %next = Sub(%w, %p) out %p, %next`, true},
	{"passed on by a branch", `%p = If(%go | %w, %x) { then_branch: graph "t" { in %w: float32[4,4] in %x: float32[4,4] out %w } else_branch: graph "e" { in %w: float32[4,4] in %x: float32[4,4] out %x } } %next = Sub(%w, %p) out %p, %next`, false},
	{"its next value is shown by another result", `%next = Sub(%w, %x) %p = Reshape(%next, %flat) out %p, %next`, false},
}

func overwriting(t *testing.T, text string, over bool) (*Program, *ssa.Graph) {
	g := parsed(t, `graph "g" { in %x: float32[4,4] in %w: float32[4,4] const %flat: int64[1] = [16] const %trips: int64[] = 2 const %go: bool[] = true `+text+` }`)
	st := State{Param: 1, Result: 1}
	if over {
		st.Overwrite = CanOverwrite
	}
	p, err := Compile(t.Context(), g, Options{States: []State{st}})
	require.NoError(t, err)
	return p, g
}

// TestOverwrite: states that may be overwritten have one place and no byte is copied; runs give what they give with two places, over
// poisoned memory, also where the caller gives the state.
func TestOverwrite(t *testing.T) {
	for _, c := range overwriteCases {
		t.Run(c.name, func(t *testing.T) {
			p, _ := overwriting(t, c.text, true)
			plain, _ := overwriting(t, c.text, false)
			assert.Equal(t, c.over, p.States()[0].Bytes() < plain.States()[0].Bytes())
			assert.LessOrEqual(t, p.ArenaBytes, plain.ArenaBytes+64)
			a, err := p.NewSession()
			require.NoError(t, err)
			b, err := plain.NewSession()
			require.NoError(t, err)
			a.Poison, b.Poison = true, true
			x := counted(4, 4)
			for range 3 {
				got, err := a.Run(t.Context(), []ndarray.Value{x, nil})
				require.NoError(t, err)
				want, err := b.Run(t.Context(), []ndarray.Value{x, nil})
				require.NoError(t, err)
				assert.Equal(t, want[0].(*ndarray.Array).Data, got[0].(*ndarray.Array).Data)
				assert.Nil(t, got[1])
				if c.over {
					assert.Zero(t, a.Moved())
				}
				one, err := a.CacheCopy(0)
				require.NoError(t, err)
				two, err := b.CacheCopy(0)
				require.NoError(t, err)
				assert.Equal(t, two.Data, one.Data)
			}
			given := counted(4, 4)
			got, err := a.RunFresh(t.Context(), []ndarray.Value{x, given})
			require.NoError(t, err)
			want, err := b.RunFresh(t.Context(), []ndarray.Value{x, given})
			require.NoError(t, err)
			for i := range want {
				assert.Equal(t, want[i].(*ndarray.Array).Data, got[i].(*ndarray.Array).Data)
			}
			assert.Equal(t, counted(4, 4).Data, given.Data, "the caller's array stays as it was")
		})
	}
}

// TestOverwriteSeveral: of states whose next values read each other's, as many are overwritten as some order of the nodes allows.
func TestOverwriteSeveral(t *testing.T) {
	for _, c := range []struct {
		name, text string
		next       [2]int // results that are the next values of w and v
		over       int
	}{
		{"apart", `%a = Add(%w, %x) %b = Sub(%v, %x) out %a, %b`, [2]int{0, 1}, 2},
		{"one reads the other", `%a = Add(%w, %v) %b = Sub(%v, %x) out %a, %b`, [2]int{0, 1}, 2},
		{"each reads the other", `%a = Add(%w, %v) %b = Sub(%v, %w) out %a, %b`, [2]int{0, 1}, 1},
		{"each reads the other through a product", `%p = MatMul(%v, %x) %a = Add(%w, %p) %q = MatMul(%w, %x) %b = Sub(%v, %q) out %a, %b`, [2]int{0, 1}, 2},
		{"exchanged", `%a = Add(%w, %x) %b = Sub(%v, %x) out %b, %a`, [2]int{0, 1}, 1},
		{"exchanged, each reads both", `%a = Add(%w, %v) %b = Sub(%v, %w) out %b, %a`, [2]int{0, 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parsed(t, `graph "g" { in %x: float32[4,4] in %w: float32[4,4] in %v: float32[4,4] `+c.text+` }`)
			var results [2][]*ndarray.Array
			for k, overwrite := range []func(*Positions, State) bool{nil, CanOverwrite} {
				p, err := Compile(t.Context(), g, Options{States: []State{{Param: 1, Result: c.next[0], Overwrite: overwrite}, {Param: 2, Result: c.next[1], Overwrite: overwrite}}})
				require.NoError(t, err)
				over := 0
				for _, st := range p.recurrent {
					if st.overwritten {
						over++
					}
				}
				assert.Equal(t, c.over*k, over)
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				for i := range 2 {
					require.NoError(t, s.SetCache(i, counted(4, 4)))
				}
				for range 3 {
					_, err = s.Run(t.Context(), []ndarray.Value{counted(4, 4), nil, nil})
					require.NoError(t, err)
				}
				for i := range 2 {
					a, err := s.CacheCopy(i)
					require.NoError(t, err)
					results[k] = append(results[k], a)
				}
			}
			assert.Equal(t, results[0], results[1])
		})
	}
}

// counted is 1, 2, … over a power of two.
func counted(shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64(i+1)/32)
	}
	return a
}

// TestOverwriteCheck: a program whose nodes read a state behind the node that overwrites it does not pass the verifier.
func TestOverwriteCheck(t *testing.T) {
	p, _ := overwriting(t, overwriteCases[1].text, true)
	require.NoError(t, Check(t.Context(), p))
	last := len(p.Main.Instrs) - 1
	p.Main.Instrs[last-1], p.Main.Instrs[last] = p.Main.Instrs[last], p.Main.Instrs[last-1]
	assert.ErrorContains(t, Check(t.Context(), p), "overwritten")
}

// TestTorn: a run that fails before it overwrites leaves states as they were; one that fails behind that is refused further runs until
// the state is set; a context that ends meanwhile is too late.
func TestTorn(t *testing.T) {
	g := parsed(t, `graph "g" { in %x: float32[2] in %a: int32[2] in %b: int32[2] in %w: float32[2] %early = Div(%a, %b) %next = Sub(%w, %x) %late = Div(%b, %a) %q = Add(%early, %late) out %q, %next }`)
	p, err := Compile(t.Context(), g, Options{States: []State{{Param: 3, Result: 1, Overwrite: CanOverwrite}}})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	x := ndarray.Of([]float32{1, 2}, 2)
	ints := func(v ...int32) *ndarray.Array { return ndarray.Of(v, len(v)) }
	state := func() []float32 {
		a, err := s.CacheCopy(0)
		require.NoError(t, err)
		return ndarray.Slice[float32](a)
	}
	_, err = s.Run(t.Context(), []ndarray.Value{x, ints(1, 1), ints(1, 0), nil})
	require.Error(t, err)
	assert.Equal(t, []float32{0, 0}, state())
	_, err = s.Run(t.Context(), []ndarray.Value{x, ints(1, 1), ints(1, 1), nil})
	require.NoError(t, err)
	assert.Equal(t, []float32{-1, -2}, state())
	_, err = s.Run(t.Context(), []ndarray.Value{x, ints(1, 0), ints(1, 1), nil})
	require.Error(t, err)
	var torn *TornError
	_, err = s.Run(t.Context(), []ndarray.Value{x, ints(1, 1), ints(1, 1), nil})
	require.ErrorAs(t, err, &torn)
	assert.Equal(t, "w", torn.State)
	_, err = s.CacheCopy(0)
	require.ErrorAs(t, err, &torn, "what is partly new is no state to go on from")
	require.NoError(t, s.SetCache(0, ndarray.Of([]float32{5, 5}, 2)))
	_, err = s.Run(t.Context(), []ndarray.Value{x, ints(1, 1), ints(1, 1), nil})
	require.NoError(t, err)
	assert.Equal(t, []float32{4, 3}, state())

	ctx, cancel := context.WithCancel(t.Context())
	s.Observe = func(in *Instr, _ []ndarray.Value) {
		if in.Node.Op == "Sub" {
			cancel()
		}
	}
	_, err = s.Run(ctx, []ndarray.Value{x, ints(1, 1), ints(1, 1), nil})
	require.NoError(t, err)
	assert.Equal(t, []float32{3, 1}, state())
	_, err = s.Run(ctx, []ndarray.Value{x, ints(1, 1), ints(1, 1), nil})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []float32{3, 1}, state())
	s.Observe = func(in *Instr, _ []ndarray.Value) {
		if in.Node.Op == "Sub" {
			runtime.Goexit() // as t.FailNow does
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Run(t.Context(), []ndarray.Value{x, ints(1, 1), ints(1, 1), nil})
	}()
	<-ended
	s.Observe = nil
	_, err = s.Run(t.Context(), []ndarray.Value{x, ints(1, 1), ints(1, 1), nil})
	require.ErrorAs(t, err, &torn)
	_, err = s.Run(t.Context(), []ndarray.Value{x, ints(1, 1), ints(1, 1), ndarray.Of([]float32{7, 7}, 2)})
	require.NoError(t, err, "an input becomes the state")
	assert.Equal(t, []float32{6, 5}, state())
	require.NoError(t, s.Reset())
	assert.Equal(t, []float32{0, 0}, state())
}
