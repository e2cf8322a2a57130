package vm

import (
	"context"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/ndarray"
)

// Option changes how a graph is compiled or run.
type Option func(*config)

type config struct {
	lower   lower.Options
	threads int
	poison  bool
	ctx     context.Context
	memory  ndarray.Budget
}

// Keep makes the values of nodes readable after a pass, which need memory of their own then. [New] refuses a node that is nil,
// a statement, or of another graph.
func Keep(nodes ...*gorgonia.Node) Option {
	return func(c *config) { c.lower.Outputs.Nodes = append(c.lower.Outputs.Nodes, nodes...) }
}

// EvalMode compiles dropout and batch normalization as they are after training.
func EvalMode() Option { return func(c *config) { c.lower.Eval = true } }

// Seed begins the random numbers of dropout and of random nodes elsewhere. Machines of one
// seed draw the same, other ones in every pass.
func Seed(n uint64) Option { return func(c *config) { c.lower.Seed = n } }

// Threads bounds the threads of a kernel; below 1 is 1. The default is GOMAXPROCS.
func Threads(n int) Option { return func(c *config) { c.threads = max(n, 1) } }

// WithContext ends compiling and passes early when ctx ends.
func WithContext(ctx context.Context) Option {
	return func(c *config) {
		if ctx != nil {
			c.ctx = ctx
		}
	}
}

// WithMaxMemory limits the memory of the process, beyond what it had when it started, while the machine is made and in its
// passes, as berth.WithMaxMemory does. The default, and 0 or less, is [ops.DefaultMaxMemory].
func WithMaxMemory(bytes int64) Option {
	return func(c *config) { c.memory = ndarray.Budget(bytes) }
}

// Freeze compiles inputs as constants, from the values bound to them now: weights that are
// not learned any more, which kernels then pack. Values bound later do not count. [New] refuses a node that is nil, computed,
// of another graph, or without a value.
func Freeze(inputs ...*gorgonia.Node) Option {
	return func(c *config) { c.lower.Freeze.Nodes = append(c.lower.Freeze.Nodes, inputs...) }
}
