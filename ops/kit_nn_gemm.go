package ops

// Matrix products of the reference kernels. They are plain Go, but keep the
// partial sums of a small tile in registers, because a product that goes through
// memory for every term is several times slower:
//
//	          B  . . [b0 b1 b2 b3] . .      packed so that one step of k
//	                                        reads four neighbours
//	  A  a0 →    c00 c01 c02 c03
//	     a1 →    c10 c11 c12 c13            eight sums stay in registers
//
// Source of the scheme: K. Goto, R. van de Geijn, "Anatomy of High-Performance
// Matrix Multiplication", ACM TOMS 34(3), 2008, section 4.

// number is what products are taken over.
type number interface{ float32 | float64 | int32 }

// matMulAdd computes C += A·B for row-major A [m,k], B [k,n], C [m,n] with row
// strides lda, ldb, ldc.
func matMulAdd[T number](m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	if m == 0 || n == 0 || k == 0 {
		return
	}
	if m < 4 {
		matMulRows(m, n, k, a, lda, b, ldb, c, ldc)
		return
	}
	panel := make([]T, 4*k)
	j := 0
	for ; j+4 <= n; j += 4 {
		for p := range k {
			copy(panel[4*p:4*p+4], b[p*ldb+j:p*ldb+j+4])
		}
		i := 0
		for ; i+2 <= m; i += 2 {
			tile2x4(a[i*lda:i*lda+k], a[(i+1)*lda:(i+1)*lda+k], panel, c[i*ldc+j:i*ldc+j+4], c[(i+1)*ldc+j:(i+1)*ldc+j+4])
		}
		if i < m {
			matMulRows(1, 4, k, a[i*lda:], lda, panel, 4, c[i*ldc+j:], ldc)
		}
	}
	if j < n {
		matMulRows(m, n-j, k, a, lda, b[j:], ldb, c[j:], ldc)
	}
}

// tile2x4 adds two rows of A times a packed panel of four columns to C.
func tile2x4[T number](a0, a1, panel, c0, c1 []T) {
	var s00, s01, s02, s03, s10, s11, s12, s13 T
	a1 = a1[:len(a0)]
	for p, x := range a0 {
		y := a1[p]
		b := panel[4*p : 4*p+4 : 4*p+4]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		s00 += x * b0
		s10 += y * b0
		s01 += x * b1
		s11 += y * b1
		s02 += x * b2
		s12 += y * b2
		s03 += x * b3
		s13 += y * b3
	}
	c0, c1 = c0[:4], c1[:4]
	c0[0] += s00
	c0[1] += s01
	c0[2] += s02
	c0[3] += s03
	c1[0] += s10
	c1[1] += s11
	c1[2] += s12
	c1[3] += s13
}

// matMulRows is the product row by row: good for few rows or a few columns.
func matMulRows[T number](m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		for p := range k {
			addScaled(row, a[i*lda+p], b[p*ldb:p*ldb+n])
		}
	}
}

// addScaled computes y += f*x.
func addScaled[T number](y []T, f T, x []T) {
	x = x[:len(y)]
	for i := range y {
		y[i] += f * x[i]
	}
}

// matMulAddT computes C += A·Bᵀ for row-major A [m,k], B [n,k], C [m,n].
func matMulAddT[T number](m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	for i := range m {
		row := a[i*lda : i*lda+k]
		j := 0
		for ; j+4 <= n; j += 4 {
			s0, s1, s2, s3 := dot4(row, b[j*ldb:], ldb)
			o := c[i*ldc+j : i*ldc+j+4]
			o[0] += s0
			o[1] += s1
			o[2] += s2
			o[3] += s3
		}
		for ; j < n; j++ {
			c[i*ldc+j] += dot(row, b[j*ldb:j*ldb+k])
		}
	}
}

// dot4 multiplies x with four rows of b.
func dot4[T number](x, b []T, ldb int) (s0, s1, s2, s3 T) {
	k := len(x)
	b0, b1, b2, b3 := b[:k], b[ldb:ldb+k], b[2*ldb:2*ldb+k], b[3*ldb:3*ldb+k]
	b0, b1, b2, b3 = b0[:k], b1[:k], b2[:k], b3[:k]
	for i, v := range x {
		s0 += v * b0[i]
		s1 += v * b1[i]
		s2 += v * b2[i]
		s3 += v * b3[i]
	}
	return s0, s1, s2, s3
}

// dot is the inner product of two vectors of one length.
func dot[T number](x, y []T) T {
	var s T
	y = y[:len(x)]
	for i, v := range x {
		s += v * y[i]
	}
	return s
}
