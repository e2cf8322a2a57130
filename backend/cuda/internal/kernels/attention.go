package kernels

import (
	"fmt"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// Strides are those of heads, in elements; the elements of a row are contiguous.
type Strides struct{ Batch, Head, Row int32 }

// Attention is softmax(cap(scale·q·kᵀ) + mask)·v. The strides of the mask are 0 where it is broadcast, Left and Right are windows of keys
// around a query (-1: none). Stage says which scores are kept: 0 scaled, 1 capped, 2 masked, 3 normalized, -1 none.
type Attention struct {
	Heads, KVHeads, Queries, Keys, Size, ValueSize int32
	Q, K, V, Y                                     Strides
	MaskBatch, MaskHead, MaskRow, MaskColumn       int32
	HasMask, IsBool                                int32
	Past, IsCausal, Left, Right, Stage             int32
	Scale, Cap                                     float32
}

// Attention makes the launch of an attention. Scores is workspace for a float32 for each query of each head and each key. Mask, valid (how
// many keys there are, by batch) and kept may be absent.
func (s *Set) Attention(batch int64, p Attention, q, k, v, mask, valid, y, kept, scores Operand) (*device.Launch, error) {
	return s.launch("attention", [3]int64{int64(p.Queries), int64(p.Heads), batch}, perRow, q, k, v, mask, valid, written(y), written(kept),
		scratch(scores), p)
}

// Most of what Attend takes: dimensions of the batch, masks, elements of keys and values.
const (
	AttendBatch = 4
	AttendMasks = 4
	AttendSize  = 256
)

// Lies is where a stack of matrices lies, in elements: the first one, strides of the batch, of rows (queries or keys) and of columns.
type Lies struct {
	At          int32
	Batch       [AttendBatch]int32
	Row, Column int32
}

// MaskStep is a step of the scores: a mask is added (kind 0), or chooses the number where it is false (1) or true (2).
type MaskStep struct {
	Kind   int32
	Number float32
	Lies   Lies
}

// Attend is softmax(steps(Scale·q·kᵀ))·v for a batch of matrices; dimensions of the batch that are not there are 1.
type Attend struct {
	Batch                          [AttendBatch]int32
	Queries, Keys, Size, ValueSize int32
	Scale                          float32
	NaNToZero, Masks               int32
	Q, K, V, Y                     Lies
	Steps                          [AttendMasks]MaskStep
}

// Attend makes the launch of an attention over operands where they lie; absent masks are zero.
func (s *Set) Attend(p Attend, q, k, v Operand, masks [AttendMasks]Operand, y Operand) (*device.Launch, error) {
	if p.Size > AttendSize || p.ValueSize > AttendSize || p.Masks > AttendMasks {
		return nil, fmt.Errorf("an attention of %d elements a key, %d a value, and %d masks", p.Size, p.ValueSize, p.Masks)
	}
	blocks := pieces(int64(p.Queries), 4)
	for _, n := range p.Batch {
		blocks *= int64(n)
	}
	return s.launch("attend", [3]int64{blocks, 1, 1}, perRow, q, k, v, masks[0], masks[1], masks[2], masks[3], written(y), p)
}
