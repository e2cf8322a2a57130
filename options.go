package berth

import (
	"fmt"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cpu"
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/rewrite"
)

// Option changes how a model is optimized or compiled. Options that do not
// concern a call are ignored by it.
type Option func(*config)

type config struct {
	shapes    map[string][]int
	dims      map[string]int64
	bounds    map[string]int64
	threads   int
	planner   string
	schedule  string
	backend   string
	check     bool
	noPasses  bool
	noInPlace bool
	noMerge   bool // alternatives of control flow do not share either
	copyViews bool
	dump      *rewrite.Dump
	off       []string
	maxOpset  int
	unroll    bool
	maxMemory int64

	parallelSafe bool
	channelBlock int
	optimizeFor  Aim
	weights      *cpu.Weights
}

func newConfig(opts []Option) config {
	c := config{shapes: map[string][]int{}, dims: map[string]int64{}, bounds: map[string]int64{}, threads: 1, backend: "cpu"}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// WithShape fixes the shape of one input.
func WithShape(input string, shape ...int) Option {
	return func(c *config) { c.shapes[input] = shape }
}

// WithDim fixes a symbolic dimension ("N", "batch", …) everywhere.
func WithDim(symbol string, n int64) Option { return func(c *config) { c.dims[symbol] = n } }

// WithBound leaves a symbolic dimension open, but says how large it gets at most.
// An input that some result continues along it, Concat(past, new), is a cache then:
// a [Session] keeps it and writes only the new rows; see [Program.Caches]. A bound
// below 1, or for what is no dimension of an input, is an error when compiling.
func WithBound(symbol string, most int64) Option {
	return func(c *config) { c.bounds[symbol] = most }
}

// WithThreads sets how many threads one run may use; the default is 1.
func WithThreads(n int) Option { return func(c *config) { c.threads = max(n, 1) } }

// WithMaxMemory limits what the Go heap of the process may hold while a compiled
// model runs: arenas, results whose size only data tells, weights that are not in
// mapped files. A run that would need more fails with an [ops.MemoryError] before
// it takes the memory. The default, and 0, is [ops.DefaultMaxMemory].
func WithMaxMemory(bytes int64) Option { return func(c *config) { c.maxMemory = bytes } }

// WithPlanner chooses the memory planner by name; see [Planners].
func WithPlanner(name string) Option { return func(c *config) { c.planner = name } }

// WithSchedule chooses the execution order by name; see [Schedules]. The default
// is the first of them: the least memory at once, the model's own order where that
// is as good.
func WithSchedule(name string) Option { return func(c *config) { c.schedule = name } }

// WithParallelSafe plans memory for every order of the nodes at once, and for
// branches of the graph that run at the same time, instead of for one order. It takes
// more memory wherever the graph branches.
func WithParallelSafe() Option { return func(c *config) { c.parallelSafe = true } }

// WithBackend chooses what computes the nodes: "cpu" (the default) or "reference".
func WithBackend(name string) Option { return func(c *config) { c.backend = name } }

// Aim is what kernels are chosen for.
type Aim uint8

// The aims.
const (
	Speed  Aim = iota // the fastest algorithm, whatever its layout of the weights takes
	Memory            // no layout of weights that takes more than they do (Winograd's: 1.8 to 4 times)
)

// WithOptimizeFor chooses between speed, the default, and memory.
func WithOptimizeFor(a Aim) Option { return func(c *config) { c.optimizeFor = a } }

// WithCheck verifies the graph after every pass and runs each pass on a shuffled
// node order.
func WithCheck() Option { return func(c *config) { c.check = true } }

// WithoutPasses compiles the model as it is, shapes folded only.
func WithoutPasses() Option { return func(c *config) { c.noPasses = true } }

// WithoutPass leaves one rewriting pass out.
func WithoutPass(name string) Option { return func(c *config) { c.off = append(c.off, name) } }

// WithoutInPlace gives every result memory of its own, for comparisons.
func WithoutInPlace() Option { return func(c *config) { c.noInPlace = true } }

// WithoutViews gives reshapes and the like memory of their own, for comparisons.
func WithoutViews() Option { return func(c *config) { c.copyViews = true } }

// WithMaxOpset lets rewriting use operators up to that version of the default
// operator set; the default is the version the model imports.
func WithMaxOpset(v int) Option { return func(c *config) { c.maxOpset = v } }

// WithUnrolledLoops lets [Model.Optimize] write out loops of a known number of
// iterations, for runtimes that are slow at loops.
func WithUnrolledLoops() Option { return func(c *config) { c.unroll = true } }

// WithChannelBlock tells [Open] for which block of channels, 8 or 16, ONNX Runtime
// wrote a model at its highest optimization level; such a file does not always show
// it. See [onnximport.Options].
func WithChannelBlock(n int) Option { return func(c *config) { c.channelBlock = n } }

// WithDump records the graph after every pass; see [Dump.WriteHTML].
func WithDump(d *Dump) Option { return func(c *config) { c.dump = &d.d } }

// Planners lists the memory planners, from the simplest to the default.
func Planners() []string { return planner.Names() }

// DefaultPlanner is the planner used unless another is asked for.
func DefaultPlanner() string { return planner.Names()[len(planner.Names())-1] }

func (c *config) plannerOf() (planner.Planner, error) {
	if c.planner == "" {
		return planner.Get(DefaultPlanner())
	}
	return planner.Get(c.planner)
}

func (c *config) backendOf() (backend.Backend, error) {
	switch c.backend {
	case "", "cpu":
		if err := kern.StartError(); err != nil {
			return nil, fmt.Errorf("environment variable BERTH_CPU: %w", err)
		}
		return cpu.NewWith(cpu.Options{Winograd: kern.Winograd4, Weights: c.weights, Memory: c.optimizeFor == Memory}), nil
	case "reference":
		return backend.Reference{}, nil
	}
	return nil, fmt.Errorf("there is no backend %q; there are cpu and reference", c.backend)
}

func importOptions(lenient bool, opts []Option) onnximport.Options {
	c := newConfig(opts)
	return onnximport.Options{Lenient: lenient, ChannelBlock: c.channelBlock}
}
