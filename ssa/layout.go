package ssa

// The channel-blocked layout of a tensor [N, C, spatial…]: B neighbouring channels of a pixel
// lie together. The type has the shape of what is in memory, so its elements and bytes are
// those that are stored, and beside it the number of channels:
//
//	plain     float32[N,30,7,7]
//	blocked   float32[N,4,7,7,8|30]     B = 8; channels 30 and 31 are padding
//
// Elements of the padding are zero, whatever writes the tensor. A block of all channels is the layout in which the channels
// of a pixel lie side by side, that of images of bytes:
//
//	blocked   uint8[N,1,7,7,32|32]      B = 32
//
// Whether operators take such
// operands is for package ops to say; parameters and results of graphs are plain.

// Blocked returns a plain type of rank 3 or more in blocks of b channels; ok is false where
// the channels are not known.
func (t Type) Blocked(b int) (_ Type, ok bool) {
	if t.Kind != KindTensor || t.IsBlocked() || t.Rank() < 3 || b < 1 {
		return t, false
	}
	c, known := t.Shape[1].Const()
	if !known || c < 1 || c > 1<<31-1 {
		return t, false
	}
	shape := append([]Dim{t.Shape[0], D((c + int64(b) - 1) / int64(b))}, t.Shape[2:]...)
	t.Shape, t.Channels = append(shape, D(int64(b))), int(c)
	return t, true
}

// IsBlocked reports that the tensor is channel-blocked.
func (t Type) IsBlocked() bool { return t.Channels != 0 }

// Block is the number of channels in a block, 0 for a plain tensor.
func (t Type) Block() int {
	if !t.IsBlocked() || t.Rank() < 4 {
		return 0
	}
	b, _ := t.Shape[len(t.Shape)-1].Const()
	return int(b)
}

// Plain returns the type of the same tensor in the plain layout.
func (t Type) Plain() Type {
	if !t.IsBlocked() {
		return t
	}
	shape := append([]Dim{t.Shape[0], D(int64(t.Channels))}, t.Shape[2:len(t.Shape)-1]...)
	t.Shape, t.Channels = shape, 0
	return t
}

// layoutProblem says what is wrong with the layout of a type, "" if nothing is.
func (t Type) layoutProblem() string {
	if !t.IsBlocked() {
		return ""
	}
	b := int64(t.Block())
	if t.Kind != KindTensor || t.Channels < 0 || b < 1 || !t.Shape[1].Is((int64(t.Channels)+b-1)/b) {
		return "is no channel-blocked tensor"
	}
	return ""
}
