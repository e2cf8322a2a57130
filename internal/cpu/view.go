package cpu

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ops"
)

// Views hold the bytes of their operand under another shape. The planner lets them
// alias their operand; where it could not, they are copied.

var viewOps = []entry{
	{op: "Identity", prepare: prepareView, empties: true},
	{op: "Reshape", prepare: prepareView, empties: true},
	{op: "Flatten", prepare: prepareView, empties: true},
	{op: "Squeeze", prepare: prepareView, empties: true},
	{op: "Unsqueeze", prepare: prepareView, empties: true},
	{op: "Dropout", prepare: prepareDropout},
}

// copyTo is the kernel of a view: the bytes of operand 0 as result 0.
type copyTo struct{ m *mover }

func prepareView(p *prep) (ops.Kernel, error) {
	if !p.has(0) || !ops.TargetKnown(p.node) || len(p.out) != 1 || p.in[0].n != p.out[0].n || p.in[0].dt.Size() != p.out[0].dt.Size() {
		return nil, nil
	}
	return newCopy(p.in[0])
}

// newCopy is the kernel that copies operand 0 as it is.
func newCopy(x operand) (*copyTo, error) {
	m, err := newMover(x.dt.Size(), []int{x.n}, []int{1}, []int{1}, 0, 0)
	return &copyTo{m}, err
}

// Run copies the operand unless the result is in place.
func (k *copyTo) Run(c *ops.Call) error {
	return k.m.run(c, arrayOf(c.Out[0]), arrayOf(c.In[0]))
}

// Choice says how it is computed.
func (k *copyTo) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copy", Reason: "the plan gives the result bytes of its own"}
}

// prepareDropout serves inference, where Dropout passes its operand on and the
// mask is all true.
func prepareDropout(p *prep) (ops.Kernel, error) {
	if p.has(2) {
		mode, err := p.constant(2)
		if err != nil || mode == nil || mode.Len() != 1 || mode.Int(0) != 0 {
			return nil, err
		}
	}
	if !p.wants(0) || p.in[0].dt != p.out[0].dt {
		return nil, nil
	}
	k, err := newCopy(p.in[0])
	return &dropout{copyTo: k, mask: p.wants(1)}, err
}

type dropout struct {
	*copyTo
	mask bool
}

// Run passes the operand on and fills the mask.
func (k *dropout) Run(c *ops.Call) error {
	if k.mask {
		fill(arrayOf(c.Out[1]).Data, 1)
	}
	return k.copyTo.Run(c)
}
