package movement

import "github.com/berth-onnx/berth/ssa"

// onesBefore reports that every dimension before axis is 1: a range of indices
// along axis is then contiguous in memory.
func onesBefore(t ssa.Type, axis int) bool {
	for _, d := range t.Shape[:axis] {
		if !d.Is(1) {
			return false
		}
	}
	return true
}

// bytesAfter returns the bytes of one index step along axis of a static type.
func bytesAfter(t ssa.Type, axis int) int64 {
	n := int64(t.DType.Size())
	for _, d := range t.Shape[axis+1:] {
		k, _ := d.Const()
		n *= k
	}
	return n
}
