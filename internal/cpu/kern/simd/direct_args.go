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
	Chain                  int // blocks (or channels) of input whose products are added up one after the other; 0: all

	Half, HalfRes unsafe.Pointer // with DirectHalf and DirectHalfRes, in the place of Out and Res; Out then has room for the sums of a call
	HalfBlock     int            // distance between their blocks, in bytes

	left, flags int // what kernels keep while they run
	sum         uintptr
}

// Flags of a direct kernel.
const (
	DirectBias = 1 << iota
	DirectRes
	DirectCut
	DirectHalf    // the result is binary16; not for plain images, nor at the generic level
	DirectHalfRes // so is the residual
)

// directGeneric is the direct kernel in plain Go.
func directGeneric(t, blocks int, plain bool, a *DirectArgs) {
	c, chain := *a, a.Chain
	if chain == 0 {
		chain = a.Ic
	}
	width := genericBlock
	if plain {
		width = 1
	}
	for first := 0; first < a.Ic; first += chain {
		c.Ic = min(chain, a.Ic-first)
		c.In, c.W = unsafe.Add(a.In, first*a.Plane), unsafe.Add(a.W, 4*genericBlock*first*a.Kh*a.Kw*width*blocks)
		if c.Flags = a.Flags; first > 0 {
			c.Flags, c.Res = DirectRes|a.Flags&DirectCut, a.Out
		}
		if first+c.Ic < a.Ic {
			c.Flags &^= DirectCut
		}
		chainGeneric(t, blocks, width, &c)
	}
}

// chainGeneric computes one chain; blocks of input have so many channels.
func chainGeneric(t, blocks, width int, a *DirectArgs) {
	for i := range t {
		for j := range blocks {
			var s [genericBlock]float32
			k := 0
			for ic := range a.Ic {
				for kh := range a.Kh {
					for kw := range a.Kw {
						x := unsafe.Slice((*float32)(unsafe.Add(a.In, ic*a.Plane+kh*a.Row+kw*a.Tap+i*a.Pixel)), width)
						for _, v := range x {
							wv := (*[genericBlock]float32)(unsafe.Add(a.W, 4*genericBlock*(k*blocks+j)))
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
