package simd

import "unsafe"

// UkArgs is the argument block of a micro-kernel, which computes
//
//	C[i][j] = clamp(alpha·Σₖ a[k][i]·b[k][j] + beta·C[i][j] + bias + res[i][j])
//
// for i below the kernel's height and j below cols. The generated kernels know
// the fields by their offsets: do not reorder.
type UkArgs struct {
	A    unsafe.Pointer // packed rows: [k][height]
	B    unsafe.Pointer // k rows of nr columns, ldb bytes apart
	C    unsafe.Pointer // tile of the result, rows ldc bytes apart
	Bias unsafe.Pointer // height values (UkRow) or nr values (UkCol)
	Res  unsafe.Pointer // residual, rows ldr bytes apart

	K, Ldb, Ldc, Ldr int
	Flags            int
	Cols             int // columns of a narrow tile, with UkTail

	Alpha, Beta, Lo, Hi float32

	Pre unsafe.Pointer // memory to prefetch, one cache line for each k

	// Panels of B for a kernel of one row, 0 like 1: from the end of one to the next, and between their columns, in bytes.
	Panels, StepB, StepC int
}

// Flags of a micro-kernel call: which stages of the epilogue run.
const (
	UkAcc   = 1 << iota // add beta·C
	UkAlpha             // scale by alpha
	UkRow               // bias per row
	UkCol               // bias per column
	UkRes               // residual
	UkClamp             // clamp to lo, hi
	UkTail              // only cols columns
	UkFar               // B is read from far away
)

// farRows is up to how many rows there are kernels of their own for B far away.
const farRows = 8

const genericMR, genericNR = 4, 4

// panel is the arguments of panel i alone.
func (u *UkArgs) panel(i int) UkArgs {
	v := *u
	v.B, v.C = unsafe.Add(u.B, i*(u.K*u.Ldb+u.StepB)), unsafe.Add(u.C, i*u.StepC)
	if u.Flags&UkCol != 0 {
		v.Bias = unsafe.Add(u.Bias, i*u.StepC)
	}
	if u.Flags&UkRes != 0 {
		v.Res = unsafe.Add(u.Res, i*u.StepC)
	}
	return v
}

// microGeneric is the micro-kernel in plain Go.
func microGeneric(h int, u *UkArgs) {
	for i := range max(u.Panels, 1) {
		v := u.panel(i)
		panelGeneric(h, &v)
	}
}

// panelGeneric is microGeneric of one panel.
func panelGeneric(h int, u *UkArgs) {
	if h == genericMR {
		microGeneric4(u)
		return
	}
	for i := range h {
		var s [genericNR]float32
		for p := range u.K {
			a := *(*float32)(unsafe.Add(u.A, 4*(p*h+i)))
			b := (*[genericNR]float32)(unsafe.Add(u.B, p*u.Ldb))
			s[0] += a * b[0]
			s[1] += a * b[1]
			s[2] += a * b[2]
			s[3] += a * b[3]
		}
		finishRow(u, i, &s)
	}
}

// microGeneric4 computes a full tile two rows at a time: eight sums fit into sixteen
// registers.
func microGeneric4(u *UkArgs) {
	for i := 0; i < genericMR; i += 2 {
		var s0, s1, s2, s3, t0, t1, t2, t3 float32
		for p := range u.K {
			a := (*[2]float32)(unsafe.Add(u.A, 4*(p*genericMR+i)))
			b := (*[genericNR]float32)(unsafe.Add(u.B, p*u.Ldb))
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
func finishRow(u *UkArgs, i int, s *[genericNR]float32) {
	cols := genericNR
	if u.Flags&UkTail != 0 {
		cols = u.Cols
	}
	c := unsafe.Slice((*float32)(unsafe.Add(u.C, i*u.Ldc)), cols)
	for j := range c {
		x := s[j]
		if u.Flags&UkAlpha != 0 {
			x *= u.Alpha
		}
		if u.Flags&UkRow != 0 {
			x += *(*float32)(unsafe.Add(u.Bias, 4*i))
		}
		if u.Flags&UkCol != 0 {
			x += *(*float32)(unsafe.Add(u.Bias, 4*j))
		}
		if u.Flags&UkAcc != 0 {
			x += u.Beta * c[j]
		}
		if u.Flags&UkRes != 0 {
			x += *(*float32)(unsafe.Add(u.Res, i*u.Ldr+4*j))
		}
		if u.Flags&UkClamp != 0 {
			x = ClampNaN(x, u.Lo, u.Hi)
		}
		c[j] = x
	}
}

// ClampNaN is min(max(x, lo), hi), NaN staying NaN; where lo is above hi, hi wins.
func ClampNaN[T float32 | float64](x, lo, hi T) T {
	if x < lo {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return x
}
