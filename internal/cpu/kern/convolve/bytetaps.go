package convolve

import (
	"context"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Depthwise convolution of bytes by words of taps (see byteRows): a task pads the planes of some
// channels, one after the other, in the cache, and sums up their windows.
type byteTaps struct {
	*byteRows
	c       *IntConv
	perTask int // output channels
}

// newByteTaps prepares the form; nil where it does not serve: other groups, or weights whose
// zero points are not zero as packed.
func newByteTaps(c *IntConv) *byteTaps {
	if c.icg != 1 || c.ocg > 2 || c.zw != nil {
		return nil
	}
	b := newByteRows(c.geometry, c.ints)
	if b == nil {
		return nil
	}
	const pixels = 1 << 13 // of a task
	return &byteTaps{b, c, max(1, pixels/c.outN)}
}

// packW packs the words of all channels.
func (b *byteTaps) packW(ctx context.Context, weights []byte) (*gemm.Packed, error) {
	c := b.c
	n := len(b.offs)
	if err := machine.AskPacked(ctx, 4*c.s.OutC*(n+1)); err != nil {
		return nil, err
	}
	out := &gemm.Packed{Order: c.WeightLayout(), Words: make([]uint32, c.s.OutC*n), Sums: make([]int32, c.s.OutC)}
	for oc := range c.s.OutC {
		out.Sums[oc] = b.pack(out.Words[oc*n:], weights[oc*c.taps:], c.s.Kernel[2], c.w)
	}
	return out, nil
}

func (b *byteTaps) tasks() int { return b.c.s.Batch * machine.CeilDiv(b.c.s.OutC, b.perTask) }

// perWorker is the workspace of one worker: a padded plane, the sums of one.
func (b *byteTaps) perWorker() int {
	return machine.ScratchBytes(b.size()+byteSlack, 4*(b.c.outN+16))
}

// task computes some channels of an image.
func (b *byteTaps) task(r *intConvRun, i, worker int) {
	c := b.c
	s := &c.s
	buf := machine.NewScratch(r.ws[worker*b.perWorker():])
	plane, sums := buf.Bytes(b.size()+byteSlack), buf.Int32s(c.outN+16)
	per := machine.CeilDiv(s.OutC, b.perTask)
	image, first := i/per, i%per*b.perTask
	b.border(plane, s, byte(r.zx))
	for oc := first; oc < min(first+b.perTask, s.OutC); oc++ {
		b.plane(c.ints, plane, r.x[(image*s.InC+oc/c.ocg)*c.inN:], s, c.x.Flip)
		c.ints.Ints.ByteTaps(&sums[0], unsafe.SliceData(plane), machine.CeilDiv(c.out[2], 16), c.out[1], 4*c.out[2], b.line, b.step,
			&b.offs[0], len(b.offs), &r.w.Words[oc*len(b.offs)], r.init[oc], &b.pick[0])
		r.deliver((image*s.OutC+oc)*c.outN, oc, sums[:c.outN])
	}
}
