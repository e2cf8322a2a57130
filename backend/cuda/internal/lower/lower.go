// Package lower makes launches of CUDA kernels from ONNX nodes: it reads types, attributes and constants, chooses kernels and their
// geometry. What it has no rule for stays on the host. It knows nothing of sessions and of where values lie.
package lower

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Host is what nodes are lowered for: a device that holds constants and kernels.
type Host interface {
	// Kernels are those that were compiled ahead.
	Kernels() *kernels.Set
	// Emitted compiles a module that has one kernel, or finds it.
	Emitted(ctx context.Context, text, name string) (device.Kernel, error)
	// Weight is where the elements of a constant lie on the device.
	Weight(ctx context.Context, c *ssa.Constant) (kernels.Operand, error)
}

// Operand is where a tensor lies on the device.
type Operand = kernels.Operand

// Call has the operands and results of a node, absent ones zero, and workspace. Launches that check indices note them in Status under
// the number Launch.
type Call struct {
	In, Out []Operand
	Scratch Operand
	Status  Operand
	Launch  uint32
}

// Step makes one launch.
type Step func(c *Call) (*device.Launch, error)

// Plan is a node on the device.
type Plan struct {
	Steps    []Step
	Reads    []int     // operands that are read at run time, constants included
	Weights  []Operand // by operand: where a constant lies
	Absorbed []int     // constant operands that no run needs from the host
	Scratch  int64     // bytes of workspace
	Choice   string
	Outside  func(index int64) error // the error of an index that a launch has noted; nil if none does
}

// rule lowers a node; false leaves it to the host.
type rule func(p *prep) (bool, error)

// microsoft is the domain of ONNX Runtime's operators.
const microsoft = "com.microsoft"

// rules are found by domain and operator.
var rules = map[[2]string]rule{}

func add(domain string, r rule, names ...string) {
	for _, name := range names {
		rules[[2]string{domain, name}] = r
	}
}

// Node lowers a node of known types. The plan is nil if the node stays on the host.
func Node(ctx context.Context, n *ssa.Node, host Host) (*Plan, error) {
	p := newPrep(ctx, n, host)
	if p == nil {
		return nil, nil
	}
	for _, r := range []rule{rules[[2]string{n.Domain, n.Op}], elementwise, byTable, byLooking} {
		if r == nil {
			continue
		}
		done, err := r(p)
		if done && err == nil {
			done, err = p.fits()
		}
		if done || err != nil {
			return p.finish(err)
		}
		p.steps, p.reads, p.scratch, p.choice, p.entry, p.outside = nil, nil, 0, "", "", nil
	}
	return nil, nil
}

// prep is a node while it is lowered.
type prep struct {
	ctx     context.Context
	node    *ssa.Node
	host    Host
	in, out []operand
	steps   []Step
	reads   []int
	scratch int64
	choice  string
	entry   string // the kernel of the only step, if it has a place for an epilogue
	outside func(index int64) error
}

// newPrep reads a node; nil if it has no tensors of known sizes that a device can hold.
func newPrep(ctx context.Context, n *ssa.Node, host Host) *prep {
	if n.Opaque || len(n.Bodies) > 0 || !n.IsStatic() {
		return nil
	}
	p := &prep{ctx: ctx, node: n, host: host}
	var ok bool
	if p.in, ok = operands(n.In); !ok {
		return nil
	}
	if p.out, ok = operands(n.Out); !ok || len(p.out) == 0 {
		return nil
	}
	for _, o := range p.out {
		if o.present && o.n == 0 {
			return nil
		}
	}
	return p
}

// operand is a tensor of known type.
type operand struct {
	present bool
	dt      ndarray.DType
	shape   []int
	n       int
	value   *ssa.Value
}

// operands reads types; false unless all are tensors of known shapes with elements that a device has.
func operands(values []*ssa.Value) ([]operand, bool) {
	return kit.StaticOperands(values, func(v *ssa.Value, shape []int, n int) (operand, bool) {
		return operand{true, v.Type.DType, shape, n, v}, v.Type.Kind == ssa.KindTensor && !v.Type.IsBlocked() && n <= most
	})
}

// most is the largest number of elements that kernels count.
const most = 1<<31 - 1

func (p *prep) has(i int) bool   { return i < len(p.in) && p.in[i].present }
func (p *prep) wants(i int) bool { return i < len(p.out) && p.out[i].present }

// floatTypes are the types of floats that kernels have.
var floatTypes = map[ndarray.DType]kernels.Floats{
	ndarray.Float32: kernels.Float32, ndarray.Float16: kernels.Float16, ndarray.BFloat16: kernels.BFloat16,
}

// floats is the type of floats of all operands and results; false if there is no single one.
func (p *prep) floats() (kernels.Floats, bool) {
	dt := p.out[0].dt
	f, ok := floatTypes[dt]
	return f, ok && !slices.ContainsFunc(slices.Concat(p.in, p.out), func(o operand) bool { return o.present && o.dt != dt })
}

// ints are the elements of a constant operand.
func (p *prep) ints(i int) ([]int64, bool) {
	if !p.has(i) {
		return nil, false
	}
	return ops.ConstInts(p.node, i)
}

// array is the constant that an operand is, nil if it is none.
func (p *prep) array(i int) (*ndarray.Array, error) {
	if !p.has(i) || p.in[i].value.Const == nil {
		return nil, nil
	}
	return p.in[i].value.Const.ArrayContext(p.ctx, ndarray.BudgetOf(p.ctx))
}

// axis is the attribute axis of a tensor of some rank.
func (p *prep) axis(rank int) (int, bool) {
	k, err := ops.NormAxis(ops.Int(p.node, "axis"), rank)
	return k, err == nil
}

// launch adds a launch that reads some operands.
func (p *prep) launch(s Step, reads ...int) {
	p.steps = append(p.steps, s)
	for _, i := range reads {
		if p.has(i) && !slices.Contains(p.reads, i) {
			p.reads = append(p.reads, i)
		}
	}
}

// fits reports that a GPU has grids for all launches. It makes them, for operands that are nowhere.
func (p *prep) fits() (bool, error) {
	c := &Call{In: make([]Operand, len(p.in)), Out: make([]Operand, len(p.out))}
	for _, s := range p.steps {
		_, err := s(c)
		if tooLarge := (*kernels.GridError)(nil); errors.As(err, &tooLarge) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// mostLaunches bounds the launches of one product or convolution.
const mostLaunches = 64

// launchParts adds a launch for each so many of a batch; false if those would be too many.
func (p *prep) launchParts(batch, each int64, launch func(c *Call, from, n int64) (*device.Launch, error), reads ...int) bool {
	if batch > each*mostLaunches {
		return false
	}
	for from := int64(0); from < batch; from += each {
		p.launch(func(c *Call) (*device.Launch, error) { return launch(c, from, min(each, batch-from)) }, reads...)
	}
	return true
}

// workspace asks for bytes of workspace and gives where they begin in it.
func (p *prep) workspace(bytes int64) int64 {
	at := (p.scratch + 255) &^ 255
	p.scratch = at + bytes
	return at
}

// temporary is a piece of the workspace.
func (p *prep) temporary(bytes int64) func(c *Call) Operand {
	from := p.workspace(bytes)
	return func(c *Call) Operand { return part(c.Scratch, from, bytes) }
}

// part is a piece of an operand.
func part(o Operand, from, bytes int64) Operand {
	return Operand{Base: o.Base + device.Pointer(from), Bytes: bytes}
}

// behind is an operand without its first bytes.
func behind(o Operand, bytes int64) Operand { return part(o, bytes, o.Bytes-bytes) }

// at is an operand that may be absent.
func at(list []Operand, i int) Operand {
	if i < len(list) {
		return list[i]
	}
	return Operand{}
}

// finish uploads the constants that are read.
func (p *prep) finish(err error) (*Plan, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.node, err)
	}
	plan := &Plan{Steps: p.steps, Reads: p.reads, Weights: make([]Operand, len(p.in)), Scratch: p.scratch, Choice: p.choice, Outside: p.outside}
	for i, o := range p.in {
		if !o.present || o.value.Const == nil {
			continue
		}
		if !moves[p.node.Op] { // a program may make a view of such a node, and no kernel runs
			plan.Absorbed = append(plan.Absorbed, i)
		}
		if slices.Contains(p.reads, i) {
			if plan.Weights[i], err = p.host.Weight(p.ctx, o.value.Const); err != nil {
				return nil, err
			}
		}
	}
	return plan, nil
}

// around is a shape as what lies outside an axis, the axis, and what lies inside it.
func around(shape []int, axis int) (outer, dim, inner int) {
	return ndarray.Product(shape[:axis]), shape[axis], ndarray.Product(shape[axis+1:])
}

// viewOf is a view with neighbouring dimensions merged; false if it has more than eight.
func viewOf(start int, dims, strides []int) (v kernels.View, ok bool) {
	var ds, ss []int
	for i, d := range dims {
		if d == 1 {
			continue
		}
		if k := len(ds) - 1; k >= 0 && ss[k] == d*strides[i] {
			ds[k], ss[k] = ds[k]*d, strides[i]
			continue
		}
		ds, ss = append(ds, d), append(ss, strides[i])
	}
	if len(ds) > len(v.Dims) {
		return v, false
	}
	v.Rank, v.Start = int32(len(ds)), int32(start)
	for i := range ds {
		v.Dims[i], v.Strides[i] = int32(ds[i]), int32(ss[i])
	}
	return v, true
}
