package attend

import (
	"fmt"
	"testing"
)

func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct{ batch, s, t, d int }{{6, 128, 128, 64}, {3, 197, 197, 64}, {8, 625, 625, 32}, {2, 1500, 1500, 64}, {192, 49, 49, 32}} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			h := c.batch
			if h > 8 {
				h = 3
			}
			v := func(n int) View {
				return View{Batch: []int{n * h * c.d, c.d}, Row: h * c.d, Col: 1}
			}
			p, err := New(Spec{Batch: []int{c.batch / h, h}, S: c.s, T: c.t, D: c.d, E: c.d, Q: v(c.s), K: v(c.t), V: v(c.t), Y: v(c.s), Scale: 0.125, Left: -1, Right: -1})
			if err != nil {
				b.Fatal(err)
			}
			x := make([]float32, c.batch*max(c.s, c.t)*c.d)
			for i := range x {
				x[i] = float32(i%17)/17 - 0.5
			}
			y := make([]float32, len(x))
			ws := make([]byte, p.Workspace(1))
			for b.Loop() {
				p.Run(&Args{Q: x, K: x, V: x, Y: y}, ws, 1)
			}
			b.ReportMetric(float64(4*c.batch*c.s*c.t*c.d)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}
