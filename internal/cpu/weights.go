package cpu

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/weights"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// arrangement is how a layout's rows and columns are found in a constant.
type arrangement struct {
	offset       int // first element
	trans        bool
	ld           int
	channelsLast bool // taps before channels, see rowConv
	turned       bool // input channels before output channels, taps in the opposite order, see [convolve.Columns]
	// The taps of a convolution that are kept, see window.cropped: the first one, their
	// number, the number of all.
	first, cropped, full [3]int

	zeros  ssa.Identity // of the zero points that were subtracted
	signed bool
}

// pack returns constant operand i in a layout, packed by f unless it was before; runs
// do not read the operand.
func (p *prep) pack(i int, layout gemm.Layout, taken arrangement, f func(c *ssa.Constant) (*gemm.Packed, error)) (*gemm.Packed, error) {
	c := p.in[i].value.Const
	id, err := c.IdentityContext(p.ctx, p.memory())
	if err != nil {
		return nil, err
	}
	packed, err := p.weights.Of(p.ctx, id, weights.Form{Arrangement: taken, Layout: layout}, func() (*gemm.Packed, error) {
		defer c.Release()
		return f(c)
	})
	if err != nil {
		return nil, err
	}
	p.packs = append(p.packs, backend.Pack{ID: packed, Layout: layout.Kind, Bytes: int64(packed.Bytes())})
	p.absorb(i, 0)
	return packed, nil
}

// packFloats is pack for float32 constants, from an element on.
func (p *prep) packFloats(i int, layout gemm.Layout, taken arrangement, f func(gemm.Source) (*gemm.Packed, error)) (*gemm.Packed, error) {
	return p.pack(i, layout, taken, func(c *ssa.Constant) (*gemm.Packed, error) {
		src, err := p.sourceOf(c)
		if err != nil {
			return nil, err
		}
		if !src.Splat {
			src.Data = src.Data[taken.offset:]
		}
		return f(src)
	})
}

// sourceOf is a float32 constant in its own memory.
func (p *prep) sourceOf(c *ssa.Constant) (gemm.Source, error) {
	data, err := c.BytesContext(p.ctx, p.memory())
	_, splat := c.Splat()
	return gemm.Source{Data: machine.FloatsOf(data), Splat: splat}, err
}

// packA packs constant operand i, from an element on, as the left side of a product.
func (p *prep) packA(g *gemm.Gemm, i, offset int) (*gemm.Packed, error) {
	s := g.Spec()
	return p.packFloats(i, g.LayoutA(), arrangement{offset: offset, trans: s.TransA, ld: s.LDA},
		func(src gemm.Source) (*gemm.Packed, error) { return g.PackA(p.ctx, src) })
}

// packB is packA for the right side.
func (p *prep) packB(g *gemm.Gemm, i, offset int) (*gemm.Packed, error) {
	s := g.Spec()
	return p.packFloats(i, g.LayoutB(), arrangement{offset: offset, trans: s.TransB, ld: s.LDB},
		func(src gemm.Source) (*gemm.Packed, error) { return g.PackB(p.ctx, src) })
}

// packBytes packs 8-bit integers as the right side of a product.
func (p *prep) packBytes(g *gemm.IntGemm, i, offset, n int) (*gemm.Packed, error) {
	return p.pack(i, g.LayoutB(), arrangement{offset: offset}, func(c *ssa.Constant) (*gemm.Packed, error) {
		data, err := p.bytesOf(c)
		if err != nil {
			return nil, err
		}
		return g.PackB(p.ctx, data[offset:][:n])
	})
}

// bytesOf are the elements of a constant of 8-bit integers.
func (p *prep) bytesOf(c *ssa.Constant) ([]byte, error) {
	data, err := c.BytesContext(p.ctx, p.memory())
	if _, splat := c.Splat(); !splat || err != nil {
		return data, err
	}
	var a *ndarray.Array
	if a, err = c.ArrayContext(p.ctx, p.memory()); err != nil {
		return nil, err
	}
	return a.Data, nil
}
