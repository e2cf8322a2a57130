package expr_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/expr"
)

// chain is a number of operators one behind the other, cheap ones.
func chain(x *expr.Tensor[float32], operators int) expr.Expr[float32] {
	e := x.Mul(num(0.5))
	for i := 1; i < operators; i++ {
		switch i % 4 {
		case 1:
			e = e.Add(x)
		case 2:
			e = expr.Max[float32](e, num(0.25))
		case 3:
			e = e.Mul(e)
		default:
			e = e.Sub(num(1))
		}
	}
	return e
}

// BenchmarkChains reads a tensor and writes another, through chains of operators: bytes are those read and
// written. "copy" is what memory allows.
func BenchmarkChains(b *testing.B) {
	for _, mb := range []int{1, 16, 64} {
		elems := mb << 18
		x, y := filled(b, 1e9, elems), filled(b, 1, elems)
		for _, operators := range []int{4, 10} {
			b.Run(fmt.Sprintf("%d-of-%dMB", operators, mb), func(b *testing.B) {
				p, err := expr.NewEngine(expr.Options{Threads: 1}).Prepare(b.Context(), expr.Into(y, chain(x, operators)))
				require.NoError(b, err)
				require.Len(b, p.Kernels(), 1)
				b.SetBytes(int64(8 * elems))
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Execute(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("copy-of-%dMB", mb), func(b *testing.B) {
			b.SetBytes(int64(8 * elems))
			for b.Loop() {
				copy(y.Data(), x.Data())
			}
		})
	}
}

// BenchmarkAssign is the time of an assignment of few elements: what is spent beside computing.
func BenchmarkAssign(b *testing.B) {
	for _, elems := range []int{1, 1000} {
		b.Run(fmt.Sprint(elems), func(b *testing.B) {
			x, y := filled(b, 1, elems), filled(b, 1, elems)
			e := x.Mul(num(0.5)).Add(x)
			b.ReportAllocs()
			for b.Loop() {
				if err := expr.Assign(b.Context(), y, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
