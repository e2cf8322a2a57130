package program

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// idle is a backend whose kernels do nothing, so that what is left is the cost of
// a trip itself.
type idle struct{}

func (idle) Name() string { return "idle" }

func (idle) Prepare(context.Context, *ssa.Node, int) (backend.Prepared, error) {
	return backend.Prepared{Kernel: ops.KernelFunc(func(*ops.Call) error { return nil })}, nil
}

// tripLoop is a Loop with n products in its body: rotating, each reads the value
// that the iteration before left, so that its result needs a second place;
// otherwise each reads the captured value and nothing is carried.
func tripLoop(n int, rotating bool) string {
	var carried, params, lines, results, outs strings.Builder
	for i := range n {
		operand := "v"
		if rotating {
			operand = fmt.Sprintf("p%d", i)
			carried.WriteString(", %x")
			fmt.Fprintf(&params, "in %%p%d: float32[4,4]\n", i)
			fmt.Fprintf(&results, ", %%y%d", i)
			fmt.Fprintf(&outs, ", %%o%d", i)
		}
		fmt.Fprintf(&lines, "%%y%d: float32[4,4] = MatMul(%%%s, %%v)\n", i, operand)
	}
	if !rotating {
		carried.WriteString(", %x")
		params.WriteString("in %p: float32[4,4]\n")
		results.WriteString(", %p")
		outs.WriteString(", %o")
	}
	o := strings.TrimPrefix(outs.String(), ", ")
	return fmt.Sprintf("graph \"g\" {\nin %%n: int64[]\nin %%x: float32[4,4]\nconst %%t: bool[] = true\n%s = Loop(%%n, %%t%s | %%x) {\nbody: graph \"body\" {\nin %%i: int64[]\nin %%k: bool[]\n%sin %%v: float32[4,4]\n%sout %%k%s\n}\n}\nout %s\n}",
		o, carried.String(), params.String(), lines.String(), results.String(), o)
}

// BenchmarkTrip is one iteration of a loop whose body has eight instructions that
// do nothing: alone, and with eight rotating values. The difference is what
// rotation costs.
func BenchmarkTrip(b *testing.B) {
	for _, c := range []struct {
		name     string
		rotating bool
	}{{"eight-instructions", false}, {"eight-rotating", true}} {
		b.Run(c.name, func(b *testing.B) {
			g, err := ssa.ParseGraph(tripLoop(8, c.rotating))
			require.NoError(b, err)
			require.NoError(b, ops.InferGraph(g))
			p, err := Compile(b.Context(), g, Options{Backend: idle{}})
			require.NoError(b, err)
			s, err := p.NewSession()
			require.NoError(b, err)
			x, err := ndarray.New(ndarray.Float32, 4, 4)
			require.NoError(b, err)
			const trips = 10000
			in := []ndarray.Value{ndarray.Of([]int64{trips}), x}
			for b.Loop() {
				if _, err := s.Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/trips, "ns/trip")
		})
	}
}
