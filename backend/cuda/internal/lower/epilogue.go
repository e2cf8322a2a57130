package lower

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/emit"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Products with an epilogue: the kernel of the product, with the program written into it where it has an element of the result.

func init() {
	add(fused.Domain, withEpilogue(conv), "Conv")
	add(fused.Domain, withEpilogue(matMul), "MatMul")
	add(fused.Domain, withEpilogue(gemm), "Gemm")
}

// Fuses reports that a product, a node in no graph, has a kernel with its epilogue.
func Fuses(n *ssa.Node) bool {
	p := newPrep(context.Background(), n, nil)
	base := map[string]rule{"Conv": conv, "MatMul": matMul, "Gemm": gemm}[n.Op]
	if p == nil || base == nil || n.Domain != fused.Domain {
		return false
	}
	_, text, err := p.spliced(base)
	return err == nil && text != ""
}

// Groups reports that a node can be part of a kernel that package emit writes.
func Groups(n *ssa.Node) bool {
	p := newPrep(context.Background(), n, nil)
	if p == nil {
		return false
	}
	if op, _, ok := fused.OpOf(n); ok && emit.Rows(op) {
		return p.in[0].dt == ndarray.Float32 && p.out[0].dt == ndarray.Float32
	}
	t, shapes, ok := p.single()
	if !ok {
		return false
	}
	_, err := p.text(t, shapes)
	return err == nil
}

// withEpilogue is the rule of a product and a program behind it.
func withEpilogue(base rule) rule {
	return func(p *prep) (bool, error) {
		q, text, err := p.spliced(base)
		if text == "" || err != nil {
			return false, err
		}
		k, err := p.host.Emitted(p.ctx, text, q.entry)
		if err != nil {
			return false, err
		}
		step, first := q.steps[0], len(q.in)
		p.choice = fmt.Sprintf("%s with an emitted epilogue", q.entry)
		reads := q.reads
		for i := first; i < len(p.in); i++ {
			reads = append(reads, i)
		}
		p.launch(func(c *Call) (*device.Launch, error) {
			l, err := step(c)
			if err != nil {
				return nil, err
			}
			return kernels.WithEpilogue(l, k, c.In[first:])
		}, reads...)
		return true, nil
	}
}

// spliced lowers the product and writes the program into its kernel; the text is empty where there is none.
func (p *prep) spliced(base rule) (q *prep, text string, err error) {
	if !fused.HasEpilogue(p.node) {
		return nil, "", nil
	}
	product := fused.Product(p.node)
	t, extra := fused.Epilogue(p.node)
	first := len(p.in) - len(extra)
	q = &prep{ctx: p.ctx, node: product, host: p.host, in: p.in[:first], out: p.out}
	if t == nil || len(t.Operands) != len(extra)+1 || t.Check() != nil {
		return q, "", nil
	}
	if ok, err := base(q); !ok || err != nil || q.entry == "" || len(q.steps) != 1 || q.scratch != 0 {
		return q, "", err
	}
	shapes := [][]int{p.out[0].shape}
	for _, o := range p.in[first:] {
		if !o.present {
			return q, "", nil
		}
		shapes = append(shapes, o.shape)
	}
	l, err := t.Bind(shapes)
	if err != nil || !sameElements(l, p.out[0].n) {
		return q, "", nil
	}
	if text, err = kernels.Text(q.entry); err != nil {
		return q, "", err
	}
	text, err = emit.Epilogue(text, t, l)
	if no := (*emit.UnsupportedError)(nil); errors.As(err, &no) {
		return q, "", nil
	}
	return q, text, err
}

// sameElements reports that loops go over as many elements as a result has.
func sameElements(l *tile.Loops, n int) bool {
	count := 1
	for _, d := range l.Dims {
		count *= d
	}
	return count == n
}
