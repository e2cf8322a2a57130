package kit

import (
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ops"
)

// Products of float64, in which models are computed to judge results of float32, are large. They are computed in blocks that stay in the cache, two rows and four products
// of each element at a time, so that seven loads and stores serve sixteen operations:
//
//	c[i][j]   += a[i][p]·b[p][j]   + a[i][p+1]·b[p+1][j]   + a[i][p+2]·b[p+2][j]   + a[i][p+3]·b[p+3][j]
//	c[i+1][j] += a[i+1][p]·b[p][j] + …
//
// Each sum is added up from the left, in the order of p, whatever the blocks and the number of threads.

// Columns64 and Depth64 are the sizes of a block of B: 256 KiB, which a second-level cache keeps.
const Columns64, Depth64 = 128, 256

// rows64 are the rows of a task, worthShare the products that pay for another goroutine.
const rows64, worthShare = 32, 1 << 20

// Product64 is [MatMulAdd] for float64.
func Product64(call *ops.Call, m, n, k int, a []float64, lda int, b []float64, ldb int, c []float64, ldc int) {
	if m == 0 || n == 0 {
		return
	}
	blocks := (n + Columns64 - 1) / Columns64
	Share(call, float64(m)*float64(n)*float64(k), (m+rows64-1)/rows64*blocks, func(task int) {
		i, j := task/blocks*rows64, task%blocks*Columns64
		rows, columns := min(rows64, m-i), min(Columns64, n-j)
		for p := 0; p < k; p += Depth64 {
			Block64(call, rows, columns, min(Depth64, k-p), a[i*lda+p:], lda, b[p*ldb+j:], ldb, c[i*ldc+j:], ldc)
		}
	})
}

// Share calls f for every task, in several goroutines if there are so many products. f fails as kernels do.
func Share(call *ops.Call, products float64, tasks int, f func(task int)) {
	goroutines := 1
	if call != nil {
		goroutines = int(max(min(float64(call.Threads), float64(tasks), products/worthShare), 1))
	}
	if goroutines == 1 {
		for task := range tasks {
			f(task)
		}
		return
	}
	var next atomic.Int64
	Check(rescue.Share(goroutines, func() error {
		return Attempt(func() {
			for task := int(next.Add(1)) - 1; task < tasks; task = int(next.Add(1)) - 1 {
				f(task)
			}
		})
	}))
}

// Block64 is [MatMulAdd] for float64 in one goroutine, without blocks.
func Block64(call *ops.Call, m, n, k int, a []float64, lda int, b []float64, ldb int, c []float64, ldc int) {
	w := Watching(call)
	for i := 0; i < m; i += 2 {
		w.Did(2 * n * k)
		c0, a0 := c[i*ldc:][:n], a[i*lda:][:k]
		if i+1 == m {
			for p, f := range a0 {
				AddScaled(c0, f, b[p*ldb:])
			}
			break
		}
		c1, a1 := c[(i+1)*ldc:][:n], a[(i+1)*lda:][:k]
		p := 0
		for ; p+4 <= k; p += 4 {
			addFour(c0, c1, (*[4]float64)(a0[p:]), (*[4]float64)(a1[p:]), b[p*ldb:], b[(p+1)*ldb:], b[(p+2)*ldb:], b[(p+3)*ldb:])
		}
		for ; p < k; p++ {
			AddScaled(c0, a0[p], b[p*ldb:])
			AddScaled(c1, a1[p], b[p*ldb:])
		}
	}
}

// addFour adds four products to each element of two rows.
func addFour(c0, c1 []float64, f, g *[4]float64, b0, b1, b2, b3 []float64) {
	n := len(c0)
	c1, b0, b1, b2, b3 = c1[:n], b0[:n], b1[:n], b2[:n], b3[:n]
	f0, f1, f2, f3 := f[0], f[1], f[2], f[3]
	g0, g1, g2, g3 := g[0], g[1], g[2], g[3]
	for j := range c0 {
		w, x, y, z := b0[j], b1[j], b2[j], b3[j]
		c0[j] = c0[j] + f0*w + f1*x + f2*y + f3*z
		c1[j] = c1[j] + g0*w + g1*x + g2*y + g3*z
	}
}
