package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/npy"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// examples are the arrays that a model is trained with; their first dimensions count examples.
type examples struct {
	arrays map[string]*ndarray.Array
	count  int
	batch  int

	from []*ndarray.Array // in the order of the inputs of a step
	in   []ndarray.Value  // of one step
}

// examples reads the archive, and decides how many of them a step takes.
func (a *app) examples(m *berth.Model, f trainFlags) (*examples, error) {
	d := &examples{batch: f.batch, count: -1}
	r, size, err := a.openInput(f.data)
	if err != nil {
		return nil, inFile("--data "+f.data, err)
	}
	defer r.Close()
	all, left, err := npy.ReadArchive(a.within(), r, size, func(name string) func(npy.Header) error {
		port, err := inputPort(m, name)
		if err != nil && name != train.Target {
			return nil
		}
		return func(h npy.Header) error { return d.check(port, name, h) }
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.data, err)
	}
	if len(left) > 0 {
		a.note("berth: warning: %s: neither an input nor the target takes the arrays %s", f.data, someOf(left))
	}
	d.arrays = all
	for _, p := range m.Inputs() {
		if d.arrays[p.Name] == nil {
			return nil, fmt.Errorf("%s has no array %q, which the model takes", f.data, p.Name)
		}
		if n, flag := a.boundBatch(p); flag != "" {
			if f.batch > 0 && n != f.batch {
				return nil, usagef("--batch %d: %s gives a step %d examples", f.batch, flag, n)
			}
			d.batch = n
		}
		if shape, ok := p.Type.Static(); ok && len(shape) > 0 && d.batch == 0 {
			d.batch = shape[0]
		}
	}
	if d.count == 0 {
		return nil, fmt.Errorf("%s has no examples: the first dimension of its arrays is 0", f.data)
	}
	if d.batch == 0 {
		d.batch = min(32, d.count)
	}
	if d.batch < 1 || d.batch > d.count {
		return nil, fmt.Errorf("%s has %d examples, fewer than the %d of a step; give more, or a smaller --batch", f.data, d.count, d.batch)
	}
	return d, nil
}

// boundBatch is what --shape or --dim make of the first dimension of an input, and which of them; "" is neither.
func (a *app) boundBatch(p berth.Port) (n int, flag string) {
	if shape := a.shapes[p.Name]; len(shape) > 0 {
		return shape[0], "--shape " + p.Name
	}
	if !p.Type.Ranked || len(p.Type.Shape) == 0 {
		return 0, ""
	}
	symbol, named := p.Type.Shape[0].SymbolName()
	if n, bound := a.dims[symbol]; named && bound {
		return int(n), "--dim " + symbol
	}
	return 0, ""
}

// check refuses an array by its header, before its elements are read: another number of examples than in those before, or examples
// that an input does not take. The target is checked against the step.
func (d *examples) check(p berth.Port, name string, h npy.Header) error {
	if len(h.Shape) == 0 || d.count >= 0 && h.Shape[0] != d.count {
		return fmt.Errorf("the first dimension of every array must count the same examples; %q has shape %s", name, dimsText(h.Shape))
	}
	d.count = h.Shape[0]
	t := p.Type
	if p.Name == "" || t.Kind != ssa.KindTensor || !t.Ranked || len(t.Shape) == 0 {
		return nil
	}
	t.Shape = append([]ssa.Dim{ssa.D(int64(d.count))}, t.Shape[1:]...)
	if p.Type = t; h.DType != t.DType || !fits(p, h.Shape) {
		return fmt.Errorf("array %q is %s of shape %s, examples for the input are %s", name, h.DType, dimsText(h.Shape), t)
	}
	return nil
}

// batches is how many steps a pass over the examples has.
func (d *examples) batches() int { return d.count / d.batch }

// one is the shape of an array in a step.
func (d *examples) one(a *ndarray.Array) []int { return append([]int{d.batch}, a.Shape[1:]...) }

// shapes bind the model's inputs.
func (d *examples) shapes(m *berth.Model) (opts []berth.Option) {
	for _, p := range m.Inputs() {
		opts = append(opts, berth.WithShape(p.Name, d.one(d.arrays[p.Name])...))
	}
	return opts
}

// fit brings the arrays in the order of a step's inputs, and refuses labels before the first step.
func (d *examples) fit(t *train.Trainer) error {
	for _, p := range t.Inputs() {
		a := d.arrays[p.Name]
		if a == nil {
			return fmt.Errorf("the data has no array %q of type %s", p.Name, p.Type)
		}
		shape, _ := p.Type.Static()
		if a.DType != p.Type.DType || !slices.Equal(shape, d.one(a)) {
			return fmt.Errorf("array %q is %s of examples of shape %s; a step takes %s", p.Name, a.DType, dimsText(a.Shape[1:]), p.Type)
		}
		if err := t.CheckLabels(p.Name, a); err != nil {
			return err
		}
		x, err := ndarray.New(a.DType, shape...)
		if err != nil {
			return err
		}
		d.from, d.in = append(d.from, a), append(d.in, x)
	}
	return nil
}

// draw gives the inputs of steps but for those done, in the same memory each time. Each pass has an order of its own.
func (d *examples) draw(seed int64, done, steps int) iter.Seq2[[]ndarray.Value, error] {
	return func(yield func([]ndarray.Value, error) bool) {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		var order []int
		for step := range steps {
			if step%d.batches() == 0 {
				order = r.Perm(d.count)
			}
			if step < done {
				continue
			}
			picked := order[step%d.batches()*d.batch:][:d.batch]
			for i, from := range d.from {
				to := d.in[i].(*ndarray.Array)
				size := len(to.Data) / d.batch
				for k, at := range picked {
					copy(to.Data[k*size:(k+1)*size], from.Data[at*size:])
				}
			}
			if !yield(d.in, nil) {
				return
			}
		}
	}
}
