package kern

import "unsafe"

// ukArgs is the argument block of a micro-kernel, which computes
//
//	C[i][j] = clamp(alpha·Σₖ a[k][i]·b[k][j] + beta·C[i][j] + bias + res[i][j])
//
// for i below the kernel's height and j below cols. The generated kernels know
// the fields by their offsets: do not reorder.
type ukArgs struct {
	a    unsafe.Pointer // packed rows: [k][height]
	b    unsafe.Pointer // k rows of nr columns, ldb bytes apart
	c    unsafe.Pointer // tile of the result, rows ldc bytes apart
	bias unsafe.Pointer // height values (ukRow) or nr values (ukCol)
	res  unsafe.Pointer // residual, rows ldr bytes apart

	k, ldb, ldc, ldr int
	flags            int
	cols             int // columns of a narrow tile, with ukTail

	alpha, beta, lo, hi float32

	pre unsafe.Pointer // memory to fetch meanwhile, one cache line for each k
}

// Flags of a micro-kernel call: which stages of the epilogue run.
const (
	ukAcc   = 1 << iota // add beta·C
	ukAlpha             // scale by alpha
	ukRow               // bias per row
	ukCol               // bias per column
	ukRes               // residual
	ukClamp             // clamp to lo, hi
	ukTail              // only cols columns
)

const genericMR, genericNR = 4, 4

// microGeneric is the micro-kernel in plain Go.
func microGeneric(h int, u *ukArgs) {
	if h == genericMR {
		microGeneric4(u)
		return
	}
	for i := range h {
		var s [genericNR]float32
		for p := range u.k {
			a := *(*float32)(unsafe.Add(u.a, 4*(p*h+i)))
			b := (*[genericNR]float32)(unsafe.Add(u.b, p*u.ldb))
			s[0] += a * b[0]
			s[1] += a * b[1]
			s[2] += a * b[2]
			s[3] += a * b[3]
		}
		finishRow(u, i, &s)
	}
}

// microGeneric4 computes a full tile two rows at a time: eight sums, which fit
// the sixteen registers of the poorest machine.
func microGeneric4(u *ukArgs) {
	for i := 0; i < genericMR; i += 2 {
		var s0, s1, s2, s3, t0, t1, t2, t3 float32
		for p := range u.k {
			a := (*[2]float32)(unsafe.Add(u.a, 4*(p*genericMR+i)))
			b := (*[genericNR]float32)(unsafe.Add(u.b, p*u.ldb))
			x, y := a[0], a[1]
			s0 += x * b[0]
			t0 += y * b[0]
			s1 += x * b[1]
			t1 += y * b[1]
			s2 += x * b[2]
			t2 += y * b[2]
			s3 += x * b[3]
			t3 += y * b[3]
		}
		finishRow(u, i, &[genericNR]float32{s0, s1, s2, s3})
		finishRow(u, i+1, &[genericNR]float32{t0, t1, t2, t3})
	}
}

// finishRow runs the epilogue on one row of sums.
func finishRow(u *ukArgs, i int, s *[genericNR]float32) {
	cols := genericNR
	if u.flags&ukTail != 0 {
		cols = u.cols
	}
	c := unsafe.Slice((*float32)(unsafe.Add(u.c, i*u.ldc)), cols)
	for j := range c {
		x := s[j]
		if u.flags&ukAlpha != 0 {
			x *= u.alpha
		}
		if u.flags&ukRow != 0 {
			x += *(*float32)(unsafe.Add(u.bias, 4*i))
		}
		if u.flags&ukCol != 0 {
			x += *(*float32)(unsafe.Add(u.bias, 4*j))
		}
		if u.flags&ukAcc != 0 {
			x += u.beta * c[j]
		}
		if u.flags&ukRes != 0 {
			x += *(*float32)(unsafe.Add(u.res, i*u.ldr+4*j))
		}
		if u.flags&ukClamp != 0 {
			x = clampNaN(x, u.lo, u.hi)
		}
		c[j] = x
	}
}

// clampNaN is min(max(x, lo), hi), NaN staying NaN.
func clampNaN(x, lo, hi float32) float32 {
	if x < lo {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return x
}
