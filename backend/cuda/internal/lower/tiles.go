package lower

import (
	"errors"
	"fmt"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/emit"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Elementwise nodes are tile programs of one instruction or a few; package emit writes them as kernels.

func init() {
	add("", variadic, "Sum", "Mean", "Max", "Min")
	add("", castLike, "CastLike")
	add("", batchNorm, "BatchNormalization")
	add("", swiGLU, "SwiGLU")
	add("", pow, "Pow")
}

// elementwise lowers what is one instruction, or a fused group.
func elementwise(p *prep) (bool, error) {
	if fused.Is(p.node) {
		if fused.PlacesOf(p.node) != nil {
			return false, nil
		}
		program, err := fused.Of(p.node)
		if err != nil {
			return false, err
		}
		return p.program(program, p.shapes(), p.every()...)
	}
	t, shapes, ok := p.single()
	if !ok {
		return false, nil
	}
	return p.program(t, shapes, p.present()...)
}

// single is an elementwise node as a program of one instruction, with the shapes of its operands.
func (p *prep) single() (*tile.Program, [][]int, bool) {
	op, params, ok := fused.OpOf(p.node)
	if !ok || op.Reduces() || op.Normalizes() || len(p.out) != 1 {
		return nil, nil, false
	}
	b := builder{}
	x := tile.Instr{Op: op, Params: params, DType: p.out[0].dt}
	var shapes [][]int
	for _, o := range p.in {
		if !o.present {
			x.Args = append(x.Args, tile.None)
			continue
		}
		x.Args = append(x.Args, b.operand(o.dt))
		shapes = append(shapes, o.shape)
	}
	b.Store(b.Add(x))
	return &b.Program, shapes, true
}

// builder is a program that grows; its operands are added before instructions.
type builder struct{ tile.Program }

func (b *builder) operand(dt ndarray.DType) tile.Ref {
	b.Operands = append(b.Operands, dt)
	return tile.Ref(len(b.Operands) - 1)
}

func (b *builder) do(dt ndarray.DType, op tile.Op, args ...tile.Ref) tile.Ref {
	return b.Add(tile.Instr{Op: op, DType: dt, Args: args})
}

func (p *prep) shapes() (out [][]int) {
	for _, o := range p.in {
		out = append(out, o.shape)
	}
	return out
}

func (p *prep) every() (out []int) {
	for i := range p.in {
		out = append(out, i)
	}
	return out
}

func (p *prep) present() (out []int) {
	for i, o := range p.in {
		if o.present {
			out = append(out, i)
		}
	}
	return out
}

// program launches a tile program over some operands of the node; false if it cannot be written as a kernel.
func (p *prep) program(t *tile.Program, shapes [][]int, from ...int) (bool, error) {
	return p.programOver(t, shapes, func(c *Call) []Operand {
		in := make([]Operand, len(from))
		for i, k := range from {
			in[i] = c.In[k]
		}
		return in
	}, from...)
}

// programOver is program with operands that a function finds among those of the node and workspace; reads are those of the node.
func (p *prep) programOver(t *tile.Program, shapes [][]int, operands func(c *Call) []Operand, reads ...int) (bool, error) {
	text, err := p.text(t, shapes)
	if no := (*emit.UnsupportedError)(nil); errors.As(err, &no) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	k, err := p.host.Emitted(p.ctx, text, emit.Name)
	if err != nil {
		return false, err
	}
	n, results := p.out[0].n, len(t.Results)
	blocks, threads := (n+emit.Threads-1)/emit.Threads, emit.Threads
	if t.Inner != 0 {
		l, err := t.Bind(shapes)
		if err != nil {
			return false, err
		}
		blocks, threads = ndarray.Product(l.Dims[:len(l.Dims)-1]), emit.RowThreads
	}
	p.choice = fmt.Sprintf("emitted: %d instructions", len(t.Instrs))
	p.launch(func(c *Call) (*device.Launch, error) {
		return kernels.Emitted(k, blocks, threads, n, operands(c), c.Out[:results])
	}, reads...)
	return true, nil
}

// widened gives an operand of floats as float32: where it lies, or in workspace, where a launch casts it to; false if it has other elements.
func (p *prep) widened(i int) (of func(c *Call) Operand, ok bool, err error) {
	x := p.in[i]
	if x.dt == ndarray.Float32 {
		return func(c *Call) Operand { return c.In[i] }, true, nil
	}
	if _, isFloat := floatTypes[x.dt]; !isFloat || x.n == 0 {
		return nil, false, nil
	}
	var b builder
	b.Store(b.do(ndarray.Float32, "Cast", b.operand(x.dt)))
	l, err := b.Bind([][]int{{x.n}})
	if err != nil {
		return nil, false, err
	}
	text, err := emit.Program(&b.Program, l)
	if err != nil {
		return nil, false, err
	}
	k, err := p.host.Emitted(p.ctx, text, emit.Name)
	if err != nil {
		return nil, false, err
	}
	of = p.temporary(int64(x.n) * 4)
	p.launch(func(c *Call) (*device.Launch, error) {
		return kernels.Emitted(k, (x.n+emit.Threads-1)/emit.Threads, emit.Threads, x.n, []Operand{c.In[i]}, []Operand{of(c)})
	}, i)
	return of, true, nil
}

// text is a program as a kernel; what cannot be written is an [emit.UnsupportedError].
func (p *prep) text(t *tile.Program, shapes [][]int) (string, error) {
	no := &emit.UnsupportedError{What: "a program of other shapes than its result's"}
	if t.Check() != nil {
		return "", no
	}
	l, err := t.Bind(shapes)
	if err != nil {
		return "", no
	}
	for i, o := range p.out[:len(t.Results)] {
		if ndarray.Product(t.ResultShape(i, l.Shape)) != o.n {
			return "", no
		}
	}
	return emit.Program(t, l)
}

// variadic is a chain of binary operators.
func variadic(p *prep) (bool, error) {
	op, dt := tile.Op(p.node.Op), p.out[0].dt
	if op == "Sum" || op == "Mean" {
		op = "Add"
	}
	var b builder
	var args []tile.Ref
	for _, o := range p.in {
		args = append(args, b.operand(o.dt))
	}
	v := args[0]
	for _, a := range args[1:] {
		v = b.do(dt, op, v, a)
	}
	if p.node.Op == "Mean" {
		v = b.do(dt, "Div", v, b.Number(dt, float64(len(args))))
	}
	if len(b.Instrs) == 0 {
		return copyBytes(p)
	}
	b.Store(v)
	return p.program(&b.Program, p.shapes(), p.every()...)
}

// castLike reads the first operand alone.
func castLike(p *prep) (bool, error) {
	var b builder
	b.Store(b.do(p.out[0].dt, "Cast", b.operand(p.in[0].dt)))
	return p.program(&b.Program, [][]int{p.in[0].shape}, 0)
}

// batchNorm has its statistics as operands that are broadcast along channels. It computes in float32, and rounds the result alone.
func batchNorm(p *prep) (bool, error) {
	x := p.in[0].shape
	if _, ok := p.floats(); !ok || ops.Int(p.node, "training_mode") != 0 || p.wants(1) || p.wants(2) || len(x) == 0 {
		return false, nil
	}
	channel := []int{}
	for i := range x[1:] {
		if d := 1; i == 0 {
			channel = append(channel, x[1])
		} else {
			channel = append(channel, d)
		}
	}
	const f = ndarray.Float32
	var b builder
	var args []tile.Ref
	for _, o := range p.in {
		args = append(args, b.operand(o.dt))
	}
	for i, o := range p.in {
		if o.dt != f {
			args[i] = b.do(f, "Cast", args[i])
		}
	}
	deviation := b.do(f, "Sqrt", b.do(f, "Add", args[4], b.Number(f, float64(ops.Float(p.node, "epsilon")))))
	centered := b.do(f, "Sub", args[0], args[3])
	y := b.do(f, "Add", b.do(f, "Mul", b.do(f, "Div", centered, deviation), args[1]), args[2])
	if dt := p.out[0].dt; dt != f {
		y = b.do(dt, "Cast", y)
	}
	b.Store(y)
	return p.program(&b.Program, [][]int{x, channel, channel, channel, channel}, 0, 1, 2, 3, 4)
}

// swiGLU is a·sigmoid(alpha·a)·b.
func swiGLU(p *prep) (bool, error) {
	dt := p.out[0].dt
	var b builder
	x, y := b.operand(dt), b.operand(dt)
	gate := b.Add(tile.Instr{Op: "Swish", DType: dt, Args: []tile.Ref{x}, Params: []float64{float64(ops.Float(p.node, "alpha"))}})
	b.Store(b.do(dt, "Mul", gate, y))
	return p.program(&b.Program, p.shapes(), 0, 1)
}

// pow casts the exponent to the type of the base.
func pow(p *prep) (bool, error) {
	dt := p.in[0].dt
	if dt != ndarray.Float32 || p.in[1].dt == dt {
		return false, nil
	}
	var b builder
	x, y := b.operand(dt), b.operand(p.in[1].dt)
	b.Store(b.do(dt, "Pow", x, b.do(dt, "Cast", y)))
	return p.program(&b.Program, p.shapes(), 0, 1)
}
