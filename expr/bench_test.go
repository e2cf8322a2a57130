package expr_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

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

// chains are of cheap operators, of one between bounds, of a product and a sum over two tensors, and around a function of tens of
// instructions.
var chains = []struct {
	name    string
	streams int // read and written
	of      func(x, z *expr.Tensor[float32]) expr.Expr[float32]
}{
	{"4", 2, func(x, _ *expr.Tensor[float32]) expr.Expr[float32] { return chain(x, 4) }},
	{"6", 2, func(x, _ *expr.Tensor[float32]) expr.Expr[float32] { return chain(x, 6) }},
	{"10", 2, func(x, _ *expr.Tensor[float32]) expr.Expr[float32] { return chain(x, 10) }},
	{"bounds", 2, func(x, _ *expr.Tensor[float32]) expr.Expr[float32] {
		return expr.Min[float32](expr.Max[float32](expr.Relu[float32](x.Sub(num(0.5))).Mul(num(2)), num(0.25)), num(0.75)).Add(num(1))
	}},
	{"products", 3, func(x, z *expr.Tensor[float32]) expr.Expr[float32] {
		return x.Mul(z).Add(x).Mul(z).Add(num(0.5)).Mul(z).Add(num(0.5))
	}},
	{"exp", 2, func(x, _ *expr.Tensor[float32]) expr.Expr[float32] {
		return expr.Exp(x.Mul(num(0.5)).Sub(num(1))).Add(num(1)).Mul(num(2))
	}},
}

// copied copies memory in as many parts as there are threads.
func copied(to, from []float32, threads int) {
	if threads == 1 {
		copy(to, from)
		return
	}
	var parts sync.WaitGroup
	for i := range threads {
		first, end := len(from)*i/threads, len(from)*(i+1)/threads
		parts.Go(func() { copy(to[first:end], from[first:end]) })
	}
	parts.Wait()
}

// leastOf is the least time of four runs in a row.
func leastOf(run func()) time.Duration {
	least := time.Hour
	for range 4 {
		at := time.Now()
		run()
		least = min(least, time.Since(at))
	}
	return least
}

// BenchmarkChains computes chains of operators and copies the same tensor by as many threads, in turn, each several times in a row: the
// first of a row also writes back what the other left in the caches. It takes the least times of both. Bytes are those read and written;
// "of-copy" is their speed in that of the copy.
func BenchmarkChains(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, mb := range []int{1, 4, 16, 64} {
			elems := mb << 18
			x, y, z, to := filled(b, 1e9, elems), filled(b, 1, elems), filled(b, 1, elems), filled(b, 1, elems)
			for _, c := range chains {
				b.Run(fmt.Sprintf("%s-of-%dMB-by-%d", c.name, mb, threads), func(b *testing.B) {
					p, err := expr.NewEngine(expr.Options{Threads: threads}).Prepare(b.Context(), expr.Into(y, c.of(x, z)))
					require.NoError(b, err)
					require.Len(b, p.Kernels(), 1)
					ours, theirs := time.Hour, time.Hour
					for b.Loop() {
						theirs = min(theirs, leastOf(func() { copied(to.Data(), x.Data(), threads) }))
						ours = min(ours, leastOf(func() { require.NoError(b, p.Execute(b.Context())) }))
					}
					speed, of := float64(4*c.streams*elems)/ours.Seconds(), float64(8*elems)/theirs.Seconds()
					b.ReportMetric(speed/1e9, "GB/s")
					b.ReportMetric(of/1e9, "copy-GB/s")
					b.ReportMetric(speed/of, "of-copy")
				})
			}
		}
	}
}

// BenchmarkCached computes chains of operators over tensors that stay in the caches of one processor: what machine code made for a chain
// would have to beat. It reports the least time.
func BenchmarkCached(b *testing.B) {
	for _, kb := range []int{16, 64, 256} {
		x, y := filled(b, 1e9, kb<<8), filled(b, 1, kb<<8)
		for _, operators := range []int{1, 4, 6, 10} {
			b.Run(fmt.Sprintf("%d-of-%dKB", operators, kb), func(b *testing.B) {
				p, err := expr.NewEngine(expr.Options{Threads: 1}).Prepare(b.Context(), expr.Into(y, chain(x, operators)))
				require.NoError(b, err)
				least := time.Hour
				for b.Loop() {
					at := time.Now()
					require.NoError(b, p.Execute(b.Context()))
					least = min(least, time.Since(at))
				}
				b.ReportMetric(float64(least.Nanoseconds()), "least-ns")
			})
		}
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
