package onnxwire

// Extra is embedded in every message. It holds what the named fields cannot say, so that a message can be written back as
// it was read. Code that builds messages leaves it zero.
type Extra struct {
	Unknown  []byte   // fields this package does not know: tags and values as they stood, in order; may alias the input, as Tensor.RawData does
	Explicit FieldSet // scalar fields that were present although they hold their default value
}

// FieldSet is a set of field numbers from 1 to 31.
type FieldSet uint32

// Has reports whether field num is in the set.
func (s FieldSet) Has(num int) bool {
	return s&(1<<uint(num)) != 0
}

// note records whether scalar field num was seen holding its default. The last occurrence of a field wins, as its value does.
func (x *Extra) note(num int, isDefault bool) {
	if isDefault {
		x.Explicit |= 1 << uint(num)
	} else {
		x.Explicit &^= 1 << uint(num)
	}
}

// extra is how the codec finds the Extra of any message.
func (x *Extra) extra() *Extra {
	return x
}

// finish is called when a message has been read. Messages with something to complete then define their own.
func (x *Extra) finish() {}
