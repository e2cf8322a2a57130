package kern

import "unsafe"

// Blocked kernels in plain Go, blocks of four channels.

type vec4 = [genericBlock]float32

func vec4At(p *float32, off int) *vec4 { return (*vec4)(unsafe.Add(unsafe.Pointer(p), off)) }

func blockTapsGeneric(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int, w, bias, res *float32, lo, hi float32) {
	list := unsafe.Slice(taps, 2*count)
	for i := range rows * n {
		y, x := i/n, i%n
		acc := *vec4At(bias, 0)
		for k := 0; k < len(list); k += 2 {
			v, wt := vec4At(src, off+y*srcRow+x*pixel+list[k]), vec4At(w, list[k+1])
			for l := range acc {
				acc[l] += v[l] * wt[l]
			}
		}
		at := y*dstRow + 4*genericBlock*x
		out := vec4At(dst, at)
		for l, v := range acc {
			if res != nil {
				v += vec4At(res, at)[l]
			}
			out[l] = clampNaN(v, lo, hi)
		}
	}
}

func blockMaxGeneric(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int) {
	list := unsafe.Slice(taps, 2*count)
	for i := range rows * n {
		y, x := i/n, i%n
		acc := vec4{negInf, negInf, negInf, negInf}
		for k := 0; k < len(list); k += 2 {
			v := vec4At(src, off+y*srcRow+x*pixel+list[k])
			for l := range acc {
				acc[l] = max(acc[l], v[l])
			}
		}
		*vec4At(dst, y*dstRow+4*genericBlock*x) = acc
	}
}

func blockSumGeneric(dst, src *float32, n int) {
	var acc vec4
	for i := range n {
		x := vec4At(src, 4*genericBlock*i)
		for l := range acc {
			acc[l] += x[l]
		}
	}
	*vec4At(dst, 0) = acc
}

func blockMulAddGeneric(dst, src *float32, n int, scale, shift *float32) {
	a, b := vec4At(scale, 0), vec4At(shift, 0)
	for i := range n {
		x, y := vec4At(src, 4*genericBlock*i), vec4At(dst, 4*genericBlock*i)
		for l := range y {
			y[l] = x[l]*a[l] + b[l]
		}
	}
}

// winoBT and winoAT are the input and output transforms as matrices; rows of Bᵀ
// are the coefficients of Π(x−q) over the other points, of Aᵀ the powers of the
// points.
var winoBT, winoAT = winoMatrices()

func winoMatrices() (bt, at map[int][][]float32) {
	bt, at = map[int][][]float32{}, map[int][][]float32{}
	for _, m := range []int{2, 4} {
		pts := winoPoints(m)
		n := m + 2
		rows := make([][]float32, 0, n)
		for i := range n {
			poly := []float64{1}
			for j, q := range pts {
				if i != j {
					poly = timesRoot(poly, q)
				}
			}
			row := make([]float32, n)
			for k, v := range poly {
				row[k] = float32(v)
			}
			rows = append(rows, row)
		}
		bt[m] = rows
		out := make([][]float32, m)
		for r := range out {
			out[r] = make([]float32, n)
			for i, q := range pts {
				v := 1.0
				for range r {
					v *= q
				}
				out[r][i] = float32(v)
			}
		}
		out[m-1][n-1] = 1
		at[m] = out
	}
	return bt, at
}

// timesRoot multiplies a polynomial, lowest coefficient first, by (x − q).
func timesRoot(p []float64, q float64) []float64 {
	out := make([]float64, len(p)+1)
	for i, v := range p {
		out[i+1] += v
		out[i] -= q * v
	}
	return out
}

// line4 is out[i] = Σ mat[i][j]·in[j] over vectors.
func line4(mat [][]float32, in []vec4, out []vec4) {
	for i, row := range mat {
		var s vec4
		for j, c := range row {
			if c != 0 {
				for l := range s {
					s[l] += c * in[j][l]
				}
			}
		}
		out[i] = s
	}
}

func winoInGeneric(m int, dst, src *float32, rowStride, dstStride int) {
	n := m + 2
	var t [36]vec4
	var in, out [6]vec4
	for j := range n {
		for i := range n {
			in[i] = *vec4At(src, i*rowStride+j*4*genericBlock)
		}
		line4(winoBT[m], in[:n], out[:n])
		for i := range n {
			t[i*n+j] = out[i]
		}
	}
	for i := range n {
		line4(winoBT[m], t[i*n:][:n], out[:n])
		for j := range n {
			*vec4At(dst, (i*n+j)*dstStride) = out[j]
		}
	}
}

func winoOutGeneric(m int, dst, src *float32, rowStride, srcStride int, bias, res *float32, lo, hi float32) {
	n := m + 2
	var t [24]vec4
	var in, out [6]vec4
	for j := range n {
		for i := range n {
			in[i] = *vec4At(src, (i*n+j)*srcStride)
		}
		line4(winoAT[m], in[:n], out[:m])
		for i := range m {
			t[i*n+j] = out[i]
		}
	}
	b := vec4At(bias, 0)
	for i := range m {
		line4(winoAT[m], t[i*n:][:n], out[:m])
		for j := range m {
			at := i*rowStride + j*4*genericBlock
			y := vec4At(dst, at)
			for l, v := range out[j] {
				v += b[l]
				if res != nil {
					v += vec4At(res, at)[l]
				}
				y[l] = clampNaN(v, lo, hi)
			}
		}
	}
}
