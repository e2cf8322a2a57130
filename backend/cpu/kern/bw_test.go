package kern

import (
	"fmt"
	"testing"
)

func BenchmarkBW(b *testing.B) {
	x := alignedFloats(128 * 4096)
	d := alignedFloats(128 * 4096)
	for _, c := range [][3]int{{13, 256, 256}, {14, 256, 256}, {16, 256, 256}, {13, 256, 768}, {13, 256, 784}, {13, 256, 1024}, {16, 256, 784}} {
		h, k, ld := c[0], c[1], c[2]
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			sec := bestOf(b, func() { packTransposeAVX512(&d[0], &x[0], k, h*4, ld*4, h) })
			b.ReportMetric(sec*3.7e9/float64(k*h), "cycles/el")
		})
		b.Run(fmt.Sprint(c)+"rot", func(b *testing.B) {
			sec := bestOf(b, func() {
				for i := 0; i+h <= 128; i += h {
					packTransposeAVX512(&d[i*k], &x[i*ld], k, h*4, ld*4, h)
				}
			})
			b.ReportMetric(sec*3.7e9/float64(k*(128/h*h)), "cycles/el")
		})
		h = 6
		b.Run(fmt.Sprint(c)+"avx2", func(b *testing.B) {
			sec := bestOf(b, func() {
				for i := 0; i+h <= 128; i += h {
					packTransposeAVX2(&d[i*k], &x[i*ld], k, h*4, ld*4, h)
				}
			})
			b.ReportMetric(sec*3.7e9/float64(k*(128/h*h)), "cycles/el")
		})
	}
}
