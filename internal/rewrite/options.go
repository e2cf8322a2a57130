package rewrite

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"
	"unsafe"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Options steer [Run]. The zero value runs [Portable] with default limits.
type Options struct {
	List *List    // what to run; nil means Portable
	Off  []string // passes left out, by name; required ones stay on
	Only []string // if not empty, run these passes and the required ones

	// Unroll writes out loops of a known number of iterations; see [Unroll].
	Unroll bool

	// MaxOfBytes lets maxima of windows of quantized tensors stay bytes, for backends that have a kernel for them.
	MaxOfBytes bool

	// Check runs ops.Check after every pass that changed something; Shuffle brings the
	// nodes into another legal order before every pass, drawn by Seed.
	Check   bool
	Shuffle bool
	Seed    uint64

	// Compute runs the kernel that a program would have for a node; its result lies in call.Out. Without it nothing that is long is
	// computed ahead but by reference kernels.
	Compute func(call *ops.Call) error

	// Inferred says that the types of the graph given are those that inference gives.
	Inferred bool

	// MaxOpset is the newest version of the default operator set that new nodes may
	// need; negative is no limit, 0 is no limit for lists with AnyOpset and else the
	// version the model imports.
	MaxOpset int

	// Growth bounds what folding may add to the weights; see [Growth].
	Growth Growth

	// Brief leaves out of the report all patches but the last ones.
	Brief bool

	// Dump, if not nil, records the graph after every pass for an HTML page.
	Dump *Dump
}

// Growth bounds constant folding: a result is stored only if it takes no more bytes than
// the constants that it makes superfluous and a fixed allowance. Splats take one element.
// A zero field takes the list's value, and if that is zero too, the default.
type Growth struct {
	// PerNode is how many bytes one folded node may add, and a chain of nodes as many times; default 1 KiB and 1/1024 of
	// the model's constants, negative none.
	PerNode int64
	// Total is how many bytes all of them together may add; default 64 KiB and
	// 1/64 of the model's constants, negative none.
	Total int64
	// Ops is the largest number of arithmetic operations one folded node may take;
	// default 1e9.
	Ops int64
}

// or fills in zero fields: the list's first, then the defaults for a model with
// so many bytes of weights.
func (g Growth) or(list Growth, weights int64) Growth {
	g.PerNode = max(cmp.Or(g.PerNode, list.PerNode, 1<<10+weights/1024), 0)
	g.Total = max(cmp.Or(g.Total, list.Total, 64<<10+weights/64), 0)
	g.Ops = cmp.Or(g.Ops, list.Ops, 1e9)
	return g
}

// Report says what a run did.
type Report struct {
	Passes  []PassStat
	Patches []Patch // the last ones where the options are brief
	Before  Stats
	After   Stats
	// Withheld lists what a newer operator set would allow to fuse.
	Withheld []Withheld
}

// Withheld counts patterns that are one operator in an operator set newer than the model may use.
type Withheld struct {
	Op    string
	Opset int
	Count int
}

// PassStat is one run of one pass over the whole model.
type PassStat struct {
	Stage, Pass string
	Round       int // 0 in stages that do not repeat
	Patches     int
	Before      int // nodes, bodies included
	After       int
	Time        time.Duration
}

// Patch is one change.
type Patch struct {
	Pass  string
	Graph string // name of the graph
	Node  string // operator and name of the node it replaced
	What  string // the rule
}

// Stats counts what is in a model, bodies included.
type Stats struct {
	Nodes      int
	Graphs     int
	Constants  int   // distinct
	ConstBytes int64 // as stored: a splat is one element
}

// Count returns the statistics of a graph and its bodies.
func Count(g *ssa.Graph) Stats {
	var s Stats
	var read []*ssa.Constant
	g.Walk(func(b *ssa.Graph) {
		s.Graphs++
		s.Nodes += len(b.Nodes)
		read = slices.Grow(read, max(0, b.NumValues()-len(b.Nodes)))
		for _, v := range b.Values() {
			if v.Const != nil && isRead(b, v) {
				read = append(read, v.Const)
			}
		}
	})
	width := bits.Len(uint(2 * len(read)))
	seen := make([]*ssa.Constant, 1<<width) // at a hash of their addresses, or at the next free place
	for _, k := range read {
		at := int(uint64(uintptr(unsafe.Pointer(k))) * 0x9e3779b97f4a7c15 >> (64 - width))
		for seen[at] != nil && seen[at] != k {
			at = (at + 1) & (len(seen) - 1)
		}
		if seen[at] == nil {
			seen[at] = k
			s.Constants++
			s.ConstBytes += k.StoredBytes()
		}
	}
	return s
}

// Further changes a graph that is compiled, in place, once it is rewritten and before products take epilogues and an order is searched, or one
// whose constants are folded and that is only shown, before it is ordered. leavesOut
// reports passes and choices that the options leave out, as which it may count its own. The graph is valid and has its types before and after.
type Further func(ctx context.Context, g *ssa.Graph, leavesOut func(pass string) bool) error

// furtherKey is the key of a Further in a context.
type furtherKey struct{}

// In returns a context that carries it to where a model is compiled, as the budget of memory is.
func (f Further) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, furtherKey{}, f)
}

// RunFurther does what the context carries, if it does.
func RunFurther(ctx context.Context, g *ssa.Graph, leavesOut func(pass string) bool) error {
	if f, ok := ctx.Value(furtherKey{}).(Further); ok {
		return f(ctx, g, leavesOut)
	}
	return nil
}
