package simd

import (
	"math"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// genericBlock is the block of the generic level.
const genericBlock = 4

// Block returns the channels of a block: the lanes of a vector register, 4 at the
// generic level.
func (t *Table) Block() int {
	if t.Level == machine.LevelGeneric {
		return genericBlock
	}
	return t.lanes
}

// DirectArgs is the argument block of the direct kernels; the generated code
// knows the fields by their offsets: do not reorder.
type DirectArgs struct {
	In, W, Out, Bias, Res  unsafe.Pointer
	Ic, Kh, Kw             int // blocks (or channels) of input, taps
	Plane, Row, Tap, Pixel int // distances in the input, in bytes
	OutBlock               int // distance between blocks of the output, in bytes
	Flags                  int
	Lo, Hi                 float32
}

// Flags of a direct kernel.
const (
	DirectBias = 1 << iota
	DirectRes
	DirectCut
)

// directGeneric is the direct kernel in plain Go.
func directGeneric(t, blocks int, plain bool, a *DirectArgs) {
	n := genericBlock
	if plain {
		n = 1
	}
	for i := range t {
		for j := range blocks {
			var s [genericBlock]float32
			w := a.W
			k := 0
			for ic := range a.Ic {
				for kh := range a.Kh {
					for kw := range a.Kw {
						x := unsafe.Slice((*float32)(unsafe.Add(a.In, ic*a.Plane+kh*a.Row+kw*a.Tap+i*a.Pixel)), n)
						for _, v := range x {
							wv := (*[genericBlock]float32)(unsafe.Add(w, 4*genericBlock*(k*blocks+j)))
							for l := range s {
								s[l] += v * wv[l]
							}
							k++
						}
					}
				}
			}
			directFinish(a, i, j, &s)
		}
	}
}

func directFinish(a *DirectArgs, i, j int, s *[genericBlock]float32) {
	at := j*a.OutBlock + 4*genericBlock*i
	out := (*[genericBlock]float32)(unsafe.Add(a.Out, at))
	for l, v := range s {
		if a.Flags&DirectBias != 0 {
			v += *(*float32)(unsafe.Add(a.Bias, 4*(genericBlock*j+l)))
		}
		if a.Flags&DirectRes != 0 {
			v += *(*float32)(unsafe.Add(a.Res, at+4*l))
		}
		if a.Flags&DirectCut != 0 {
			v = ClampNaN(v, a.Lo, a.Hi)
		}
		out[l] = v
	}
}

// PosInf and NegInf are the bounds of a range that does not clip.
var PosInf, NegInf = float32(math.Inf(1)), float32(math.Inf(-1))
