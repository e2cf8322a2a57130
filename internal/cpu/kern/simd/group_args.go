package simd

import "unsafe"

// GroupArgs is the argument block of the kernels of grouped convolutions; the generated code knows the fields by their
// offsets: do not reorder.
type GroupArgs struct {
	In, W, Out, Bias unsafe.Pointer
	Taps             *int // distances in the input, in bytes
	K                int  // taps of all input channels, of which W has the weights of all output channels side by side
	OutRow           int  // from one output channel to the next, in bytes
	Lo, Hi           float32
}
