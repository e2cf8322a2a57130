package ops

import "testing"

func TestNNGolden(t *testing.T) { runGolden(t, "nn") }

func BenchmarkMatMulAdd(b *testing.B) {
	m, n, k := 128, 784, 1152
	x, y, z := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for b.Loop() {
		matMulAdd(m, n, k, x, k, y, n, z, n)
	}
	b.ReportMetric(float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}

func BenchmarkMatMulAddT(b *testing.B) {
	m, n, k := 128, 784, 1152
	x, y, z := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for b.Loop() {
		matMulAddT(m, n, k, x, k, y, k, z, n)
	}
	b.ReportMetric(float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
