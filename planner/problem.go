package planner

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Range is a half-open run of time points [Lo, Hi). It is empty when Lo == Hi.
type Range struct{ Lo, Hi int }

// Buffer is one block of memory that needs an offset in the arena.
type Buffer struct {
	// Name is used in messages and files only.
	Name string
	// Size in bytes. A buffer of size zero interferes with nothing.
	Size int64
	// Align: the offset is a multiple of it. 0 and 1 ask for nothing; it need not be a power of two.
	Align int64
	// Lo, Hi is the half-open live range [Lo, Hi) in time points; a step that reads a and writes b keeps both alive
	// at its point. Used when Problem.Order is nil, and as the birth order of `pool` and of tie-breaks.
	Lo, Hi int
	// Holes are runs inside [Lo, Hi) where the buffer holds nothing: ascending, disjoint. A value that lives
	// before an If and in its second branch only has the first branch's points as a hole.
	Holes []Range
}

// Problem asks for an offset per buffer so that no two interfering buffers share a byte.
type Problem struct {
	Name    string
	Buffers []Buffer
	// Order says which buffers may be live together. Nil: the buffers' own live ranges, [Lo, Hi) less Holes.
	Order Order
	// Align is asked of every buffer, on top of its own Align. 0 and 1 ask for nothing.
	Align int64
}

// maxBytes bounds the sum of all padded sizes, so that no arithmetic on offsets can overflow.
const maxBytes = math.MaxInt64 / 4

// Check tells whether the problem is well formed: sizes, alignments and live ranges. The error is a *ProblemError.
func (p *Problem) Check() (err error) {
	defer rescue.Into(&err)
	if p == nil {
		return &ProblemError{Buffer: -1, Reason: "is nil"}
	}
	if p.Align < 0 || p.Align > maxBytes {
		return &ProblemError{Buffer: -1, Reason: "has an alignment out of range"}
	}
	if s, ok := p.Order.(sized); ok && s.Len() != len(p.Buffers) {
		return &ProblemError{Buffer: -1, Reason: "has an order over a different number of buffers"}
	}
	if o, ok := p.Order.(Intervals); ok && len(o.Buffers) > 0 && &o.Buffers[0] != &p.Buffers[0] {
		return &ProblemError{Buffer: -1, Reason: "has an interval order over other buffers; leave Order nil"}
	}
	step := int64(1) // least common multiple of all alignments: what all offsets may have to satisfy
	for i := range p.Buffers {
		if reason := p.checkBuffer(i); reason != "" {
			return p.errorAt(i, reason)
		}
		if step = lcm(step, p.align(i)); step < 0 || step > maxBytes {
			return p.errorAt(i, "has an alignment that overflows together with the others'")
		}
	}
	var total int64
	for i := range p.Buffers {
		b := &p.Buffers[i]
		room := b.Size + min(step, maxBytes-b.Size)
		if room > maxBytes-total {
			return p.errorAt(i, "makes the sum of all sizes overflow")
		}
		total += room
	}
	return nil
}

// checkBuffer returns what is wrong with buffer i taken alone, or "".
func (p *Problem) checkBuffer(i int) string {
	b := &p.Buffers[i]
	switch {
	case b.Size < 0:
		return "has a negative size"
	case b.Size > maxBytes:
		return "has " + strconv.FormatInt(b.Size, 10) + " bytes, more than any memory"
	case b.Align < 0:
		return "has a negative alignment"
	case b.Lo > b.Hi:
		return "ends before it begins"
	case b.Lo < -maxPoint || b.Hi > maxPoint:
		return "has a live range outside the supported range of time points"
	case b.Align > maxBytes || p.align(i) < 0 || p.align(i) > maxBytes:
		return "has an alignment out of range"
	}
	at := b.Lo
	for _, h := range b.Holes {
		if h.Lo < at || h.Hi < h.Lo || h.Hi > b.Hi {
			return "has holes that are not ascending runs inside its live range"
		}
		at = h.Hi
	}
	return ""
}

// maxPoint bounds time points, so that differences of two fit an int on every platform.
const maxPoint = math.MaxInt32

// align is the alignment asked of buffer i, at least 1.
func (p *Problem) align(i int) int64 { return lcm(max(p.Buffers[i].Align, 1), max(p.Align, 1)) }

func (p *Problem) errorAt(i int, reason string) *ProblemError {
	return &ProblemError{Buffer: i, Name: p.Buffers[i].Name, Reason: reason}
}

// order is the problem's order, never nil.
func (p *Problem) order() Order {
	if p.Order != nil {
		return p.Order
	}
	return Intervals{Buffers: p.Buffers}
}

// alignUp is the smallest multiple of a that is >= x; x >= 0, a >= 1.
func alignUp(x, a int64) int64 {
	if a&(a-1) == 0 {
		return (x + a - 1) &^ (a - 1)
	}
	if r := x % a; r != 0 {
		return x + a - r
	}
	return x
}

// gcd of two non-negative numbers; gcd(0, x) = x.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// lcm of two positive numbers, -1 when it overflows.
func lcm(a, b int64) int64 {
	q := a / gcd(a, b)
	hi, lo := bits.Mul64(uint64(q), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return -1
	}
	return int64(lo)
}
