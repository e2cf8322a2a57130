package graphgen

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Agree runs two graphs with the same parameters on random operands, several
// times, and returns an error that names the first difference.
//
// How far floats may be apart is measured, not guessed: the first graph also runs
// on operands moved by about one part in a million, and where that moves a result,
// rounding noise may move it too.
func Agree(ctx context.Context, before, after *ssa.Graph, seed uint64, runs int) error {
	for run := range runs {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		bind := map[string]int64{"N": 1 + int64(rng.IntN(4)), "M": 1 + int64(rng.IntN(4))}
		in, err := Inputs(rng, before, bind)
		if err != nil {
			return err
		}
		want, err := ops.Interpret(ctx, before, in, nil)
		if err != nil {
			return fmt.Errorf("run %d, before: %w", run, err)
		}
		moved, err := ops.Interpret(ctx, before, nudged(in), nil)
		if err != nil {
			return fmt.Errorf("run %d, before, moved: %w", run, err)
		}
		got, err := ops.Interpret(ctx, after, in, nil)
		if err != nil {
			return fmt.Errorf("run %d, after: %w", run, err)
		}
		if len(got) != len(want) {
			return fmt.Errorf("run %d: %d results, want %d", run, len(got), len(want))
		}
		for i := range want {
			if s := agree(got[i], want[i], moved[i]); s != "" {
				return fmt.Errorf("run %d (%v): result %d, %s: %s", run, bind, i, before.Results[i].Name, s)
			}
		}
	}
	return nil
}

// nudged moves floats by one part in a million.
func nudged(in []ndarray.Value) []ndarray.Value {
	out := make([]ndarray.Value, len(in))
	for i, v := range in {
		a, ok := v.(*ndarray.Array)
		if !ok || !a.DType.IsFloat() {
			out[i] = v
			continue
		}
		b := a.Clone()
		for k := range b.Len() {
			b.SetFloat(k, b.Float(k)*(1+1e-6)+1e-9)
		}
		out[i] = b
	}
	return out
}

func agree(got, want, moved ndarray.Value) string {
	w, isArray := want.(*ndarray.Array)
	m, _ := moved.(*ndarray.Array)
	if !isArray || m == nil || !w.DType.IsFloat() || m.Len() != w.Len() {
		return Noise.value(got, want)
	}
	g, ok := got.(*ndarray.Array)
	if !ok || g.String() != w.String() {
		return fmt.Sprintf("is %v, want %s", got, w)
	}
	for i := range w.Len() {
		a, b := g.Float(i), w.Float(i)
		slack := 100 * math.Abs(m.Float(i)-b)
		switch {
		case a == b || a != a && b != b || math.Abs(b) > 1e20 || slack != slack:
		case !(math.Abs(a-b) <= Noise.Abs+Noise.Rel*math.Abs(b)+slack):
			return fmt.Sprintf("element %d of %s is %g, want %g", i, w, a, b)
		}
	}
	return ""
}
