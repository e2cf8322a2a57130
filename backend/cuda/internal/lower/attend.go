package lower

import (
	"context"
	"math"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Attentions that models write out in products, and that a pass makes one node of: operands are read where they lie.

func init() { add(fused.Domain, attend, "Attention") }

// Attends reports that an attention, a node in no graph, has a kernel.
func Attends(n *ssa.Node) bool {
	p := newPrep(context.Background(), n, nil)
	if p == nil {
		return false
	}
	_, ok := p.attention()
	return ok
}

func attend(p *prep) (bool, error) {
	g, ok := p.attention()
	if !ok {
		return false, nil
	}
	p.choice = "streaming softmax"
	reads := make([]int, len(p.in))
	for i := range reads {
		reads[i] = i
	}
	p.launch(func(c *Call) (*device.Launch, error) {
		var masks [kernels.AttendMasks]Operand
		copy(masks[:], c.In[3:])
		return p.host.Kernels().Attend(g, c.In[0], c.In[1], c.In[2], masks, c.Out[0])
	}, reads...)
	return true, nil
}

// attention reads the form of an attention; false if the kernel does not compute it.
func (p *prep) attention() (g kernels.Attend, ok bool) {
	f := fused.FormOf(p.node)
	if f == nil || len(f.Masks) > kernels.AttendMasks || f.D > kernels.AttendSize || f.E > kernels.AttendSize || f.S*f.T == 0 ||
		int64(ndarray.Product(f.Batch))*int64(f.S) > math.MaxInt32 {
		return g, false
	}
	for i, o := range p.in {
		want := ndarray.Float32
		if i > 2 && f.Masks[i-3].Kind != fused.AddMask {
			want = ndarray.Bool
		}
		if !o.present || o.n == 0 || o.dt != want {
			return g, false
		}
	}
	g = kernels.Attend{Queries: int32(f.S), Keys: int32(f.T), Size: int32(f.D), ValueSize: int32(f.E), Scale: f.Scale, Masks: int32(len(f.Masks))}
	if f.NaNToZero {
		g.NaNToZero = 1
	}
	dims := []int{} // of the batch, by number
	for i, n := range f.Batch {
		if n != 1 {
			dims = append(dims, i)
		}
	}
	if len(dims) > len(g.Batch) {
		return g, false
	}
	lies := func(s *fused.Strided) kernels.Lies {
		l := kernels.Lies{At: int32(s.At), Row: int32(s.Row), Column: int32(s.Col)}
		for k, i := range dims {
			l.Batch[k] = int32(s.Batch[i])
		}
		return l
	}
	g.Batch = [kernels.AttendBatch]int32{1, 1, 1, 1}
	for k, i := range dims {
		g.Batch[k] = int32(f.Batch[i])
	}
	g.Q, g.K, g.V, g.Y = lies(&f.Q), lies(&f.K), lies(&f.V), lies(&f.Y)
	for i := range f.Masks {
		m := &f.Masks[i]
		g.Steps[i] = kernels.MaskStep{Kind: int32(m.Kind), Number: m.Number, Lies: lies(&m.Lies)}
	}
	return g, true
}
