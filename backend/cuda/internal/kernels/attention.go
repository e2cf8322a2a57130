package kernels

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

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
