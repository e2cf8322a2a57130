package simd

import (
	"math"
	"unsafe"
)

// Blocked kernels in plain Go, blocks of four channels.

type vec4 = [genericBlock]float32

func vec4At(p *float32, off int) *vec4 { return (*vec4)(unsafe.Add(unsafe.Pointer(p), off)) }

func blockTapsGeneric(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int, w, bias, res *float32, lo, hi float32) {
	list := unsafe.Slice(taps, 2*count)
	for i := range rows * n {
		y, x := i/n, i%n
		var acc vec4
		for k := 0; k < len(list); k += 2 {
			v, wt := vec4At(src, off+y*srcRow+x*pixel+list[k]), vec4At(w, list[k+1])
			for l := range acc {
				acc[l] += v[l] * wt[l]
			}
		}
		at := y*dstRow + 4*genericBlock*x
		out := vec4At(dst, at)
		for l, v := range acc {
			v += vec4At(bias, 0)[l]
			if res != nil {
				v += vec4At(res, at)[l]
			}
			out[l] = ClampNaN(v, lo, hi)
		}
	}
}

func blockMaxGeneric(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int) {
	list := unsafe.Slice(taps, 2*count)
	for i := range rows * n {
		y, x := i/n, i%n
		acc := vec4{NegInf, NegInf, NegInf, NegInf}
		for k := 0; k < len(list); k += 2 {
			v := vec4At(src, off+y*srcRow+x*pixel+list[k])
			for l := range acc {
				acc[l] = max(acc[l], v[l])
			}
		}
		*vec4At(dst, y*dstRow+4*genericBlock*x) = acc
	}
}

// winoBT and winoAT are the input and output transforms of F(m,3) as matrices, by m.
// Rows of Bᵀ are the coefficients of Π(x−q) over the other points, of Aᵀ the powers
// of the points.
var (
	winoBT = map[int][][]float32{2: inputMatrix(2), 4: inputMatrix(4)}
	winoAT = map[int][][]float32{2: outputMatrix(2), 4: outputMatrix(4)}
)

// inputMatrix is Bᵀ of F(m,3).
func inputMatrix(m int) [][]float32 {
	rows := make([][]float32, m+2)
	for i := range rows {
		poly := []float64{1}
		for j, q := range WinoPoints(m) {
			if i != j {
				poly = timesRoot(poly, q)
			}
		}
		rows[i] = make([]float32, m+2)
		for k, v := range poly {
			rows[i][k] = float32(v)
		}
	}
	return rows
}

// outputMatrix is Aᵀ of F(m,3).
func outputMatrix(m int) [][]float32 {
	rows := make([][]float32, m)
	for r := range rows {
		rows[r] = make([]float32, m+2)
		for i, q := range WinoPoints(m) {
			rows[r][i] = float32(math.Pow(q, float64(r)))
		}
	}
	rows[m-1][m+1] = 1
	return rows
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

// winoInGeneric makes the input transform of F(m,3).
//
//go:noinline
func winoInGeneric(m int) winoIn {
	n := m + 2
	return func(dst, src, _ *float32, rowStride, dstStride int) {
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
}

// winoOutGeneric makes the output transform of F(m,3).
//
//go:noinline
func winoOutGeneric(m int) winoOut {
	n := m + 2
	return func(dst, src, _ *float32, rowStride, srcStride int, bias, res *float32, lo, hi float32) {
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
		for i := range m {
			line4(winoAT[m], t[i*n:][:n], out[:m])
			for j := range m {
				at := i*rowStride + j*4*genericBlock
				blockEpilogue(vec4At(dst, at), &out[j], vec4At(bias, 0), res, at, lo, hi)
			}
		}
	}
}

// blockEpilogue adds a bias and the residual at an offset, unless nil, and clamps.
func blockEpilogue(dst, x, bias *vec4, res *float32, at int, lo, hi float32) {
	for l, v := range x {
		v += bias[l]
		if res != nil {
			v += vec4At(res, at)[l]
		}
		dst[l] = ClampNaN(v, lo, hi)
	}
}

// WinoPoints are the finite interpolation points.
func WinoPoints(m int) []float64 {
	if m == 2 {
		return []float64{0, 1, -1}
	}
	return []float64{0, 11.0 / 16, -11.0 / 16, 25.0 / 16, -25.0 / 16}
}

// WinoFilterRows are what WinoFilter takes of the filter transform G of F(m,3): one number of
// the point 0, a row of three of each pair of points ±p. Rows of G are (1, p, p²)/Π(p−q), and
// (0, 0, 1) for infinity.
func WinoFilterRows(m int) (rows []float64) {
	points := WinoPoints(m)
	for i, p := range points {
		d := 1.0
		for j, q := range points {
			if i != j {
				d *= p - q
			}
		}
		switch {
		case i == 0:
			rows = append(rows, 1/d)
		case p > 0: // the row of −p has the middle element's sign changed
			rows = append(rows, 1/d, p/d, p*p/d)
		}
	}
	return rows
}

// winoFilterGeneric is V = G·g·Gᵀ for a block of filters.
//
//go:noinline
func winoFilterGeneric(m int) winoFilter {
	n := m + 2
	return func(dst, taps *float32, _, rows *float64, stride int) {
		g := unsafe.Slice(rows, 3*m/2+1)
		for l := range genericBlock {
			var columns [6][3]float64 // of G·g, transposed
			for q := range 3 {
				at := func(i int) float64 { return float64(vec4At(taps, 4*genericBlock*(3*i+q))[l]) }
				winoFilterLine(g, [3]float64{at(0), at(1), at(2)}, func(i int, v float64) { columns[i][q] = v })
			}
			for y := range n {
				winoFilterLine(g, columns[y], func(i int, v float64) { vec4At(dst, (y*n+i)*stride)[l] = float32(v) })
			}
		}
	}
}

// winoFilterLine multiplies three taps by the rows of G.
func winoFilterLine(g []float64, d [3]float64, put func(i int, v float64)) {
	put(0, g[0]*d[0])
	n := 1
	for row := g[1:]; len(row) > 0; row = row[3:] {
		even, odd := row[0]*d[0]+row[2]*d[2], row[1]*d[1]
		put(n, even+odd)
		put(n+1, even-odd)
		n += 2
	}
	put(n, d[2])
}
