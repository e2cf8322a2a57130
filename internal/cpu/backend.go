package cpu

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/forest"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/weights"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Backend prepares nodes for the CPU. Kernels prepared by backends with one
// store share their packed weights. It is safe for concurrent use.
type Backend struct {
	options Options
}

// Options chooses between speed, precision and memory.
type Options struct {
	// Weights is where packed weights are kept: those of one model in one store. Nil:
	// in a store of the backend's own.
	Weights *weights.Store
	// Memory avoids layouts of weights that take more than the weights do.
	Memory bool
	// Winograd is the form of Winograd's algorithm that 3×3 convolutions may use
	// where it is faster than the direct one: [convolve.WinogradOff], [convolve.Winograd2],
	// whose results are about as exact as direct ones, or [convolve.Winograd4], which is
	// the fastest and loses about one decimal digit.
	Winograd convolve.Winograd
	// Strict leaves out forms whose error bound is worse than that of the formula as it is
	// written: x·scale + shift in the place of (x − mean)·scale + beta.
	Strict bool
}

// New returns the backend with the fastest algorithms, at the level that package
// machine has chosen.
func New() *Backend { return NewWith(Options{Winograd: convolve.Winograd4}) }

// NewWith returns the backend with options of one's own.
func NewWith(o Options) *Backend {
	if o.Weights == nil {
		o.Weights = weights.New()
	}
	return &Backend{o}
}

// Name returns "cpu".
func (*Backend) Name() string { return "cpu" }

// entry is one operator of the table.
type entry struct {
	domain, op string
	prepare    func(p *prep) (ops.Kernel, error)
	// empties says that the prepare function takes empty operands, among them empty
	// lists of axes; without it such nodes go to the reference kernel.
	empties bool
}

// families lists the operators by family, a family per file.
var families = [][]entry{
	viewOps,
	moveOps,
	transposeOps,
	gatherOps,
	scatterOps,
	padOps,
	fillOps,
	unaryOps,
	binaryOps,
	variadicOps,
	compareOps,
	whereOps,
	castOps,
	productOps,
	einsumOps,
	nbitsOps,
	convOps,
	poolOps,
	normOps,
	skipOps,
	attentionOps,
	multiHeadOps,
	groupQueryOps,
	rotaryOps,
	softmaxOps,
	reduceOps,
	rankOps,
	recurrentOps,
	quantOps,
	intProductOps,
	intConvOps,
	qLinearOps,
	quantRecurrentOps,
	resizeOps,
	gridOps,
	roiOps,
	blockedOps,
	fusedOps,
}

var table = func() map[ops.Key]entry {
	t := map[ops.Key]entry{}
	for _, f := range families {
		for _, e := range f {
			k := ops.Key{Domain: e.domain, Name: e.op}
			if t[k].prepare != nil {
				panic("cpu: " + e.op + " is in the table twice")
			}
			t[k] = e
		}
	}
	return t
}()

// Operators returns the operators that have a fast kernel, in no order.
func Operators() []ops.Key { return slices.Collect(maps.Keys(table)) }

// Prepare makes the kernel of a node; see [backend.Backend]. A node with a string,
// a sequence or a size that is not known, and one no fast kernel serves, is left
// to the reference kernel. An error means that a constant could not be read, or that
// the context has ended.
func (b *Backend) Prepare(ctx context.Context, n *ssa.Node, threads int) (backend.Prepared, error) {
	if n.Opaque || len(n.Bodies) > 0 {
		return backend.Prepared{}, nil
	}
	if o := ops.Of(n); o != nil && o.Prepare != nil {
		prepare := o.Prepare
		if fast := forest.Kernels[ops.Key{Domain: n.Domain, Name: n.Op}]; fast != nil {
			prepare = fast
		}
		if k, err := prepare(n); err == nil {
			return backend.Prepared{Kernel: k}, nil
		}
		return backend.Prepared{}, nil // the reference kernel reports the error if the node runs
	}
	e := table[ops.Key{Domain: n.Domain, Name: n.Op}]
	if e.prepare == nil {
		return backend.Prepared{}, nil
	}
	p, ok := newPrep(n, threadsFor(n, threads))
	if !ok {
		return backend.Prepared{}, nil
	}
	p.ctx, p.weights, p.options = ctx, b.options.Weights, b.options
	if n.Domain == ops.Private && !p.seePlain() {
		return backend.Prepared{}, nil
	}
	if p.resultsAreEmpty() {
		return backend.Prepared{Kernel: nothing{}}, nil
	}
	if !e.empties && p.hasEmptyOperand() {
		return backend.Prepared{}, nil
	}
	k, err := prepareEntry(p, e)
	var refused *machine.SpecError
	if errors.As(err, &refused) {
		return backend.Prepared{}, nil // beyond the limits of the fast kernels
	}
	if err != nil {
		return backend.Prepared{}, ops.AtNode("prepare", n, err)
	}
	if k == nil {
		return backend.Prepared{}, nil
	}
	return backend.Prepared{Kernel: k, Scratch: p.scratch, Held: p.held, Tables: p.tables, Packs: p.packs, Absorbed: p.absorbed, Threads: p.threads}, nil
}

// nothing is the kernel of a node all of whose results are empty.
type nothing struct{}

func (nothing) Run(*ops.Call) error { return nil }

// Choice says how it is computed.
func (nothing) Choice() backend.Choice {
	return backend.Choice{Algorithm: "nothing", Reason: "all results are empty"}
}
