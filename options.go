package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/weights"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/layout"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// Option changes how a model is optimized or compiled. Options that do not
// concern a call are ignored by it.
type Option func(*config)

type config struct {
	compileOptions
	bindings

	// Of opening and optimizing.
	noMapping    bool
	maxOpset     int
	unroll       bool
	dataRoot     string
	channelBlock int
	limits       onnximport.Limits
	ctx          context.Context
	data         func(location string) ([]byte, error) // of external data
	programs     int                                   // that the model keeps

	weights  *weights.Store
	conflict *OptionError // of an argument that is refused at once: a nil context, or two sizes of one input or dimension, or two devices
	onDevice bool         // WithDevice is given
}

// compileOptions are what a program depends on besides its model and the bindings. They are
// compared: programs that [Model.RunValues] keeps are found by them.
type compileOptions struct {
	memory       ndarray.Budget
	idle         IdleLimits
	threads      int
	planner      string
	schedule     string
	backend      string
	device       int
	deviceMemory int64
	check        bool
	noPasses     bool
	noInPlace    bool
	noMerge      bool // branches of control flow do not share memory either
	copyViews    bool
	parallelSafe bool
	optimizeFor  Aim
	accuracy     Accuracy
	hook         *Hook
	dump         *rewrite.Dump
}

// bindings are the options of which a program may have several.
type bindings struct {
	shapes    map[string][]int
	dims      map[string]int64
	bounds    map[string]int64
	states    []statePair
	overwrite func(o *program.Positions, st program.State) bool // whether a run writes a next value over the state
	off       []string                                          // passes that are left out
}

// key is a form of the bindings that can be compared.
func (b bindings) key() string {
	if len(b.shapes)+len(b.dims)+len(b.bounds)+len(b.states)+len(b.off) == 0 {
		return ""
	}
	return fmt.Sprintf("%#v", b)
}

// NewestOpset is the newest version of the default operator set that berth knows.
const NewestOpset = onnxexport.NewestOpset

// OptionError reports an option with an invalid argument.
type OptionError struct {
	Option string // the function that makes it: "WithDim"
	Got    string // its argument
	Want   string // what it takes; "" where Err says what is wrong
	Err    error  // the cause, such as a [*planner.UnknownPlannerError] or a [*StateError]; nil if there is no other
}

// Error names the option, its argument and what it takes, or the cause.
func (e *OptionError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s(%s): %v", e.Option, e.Got, e.Err)
	}
	return fmt.Sprintf("%s(%s): want %s", e.Option, e.Got, e.Want)
}

// Unwrap returns the cause.
func (e *OptionError) Unwrap() error { return e.Err }

// maxThreads is more than any machine has.
const maxThreads = 1 << 14

// validate reports an option whose argument is invalid for every model.
func (c *config) validate() error {
	bad := func(option string, got any, want string) error {
		return &OptionError{Option: option, Got: fmt.Sprint(got), Want: want}
	}
	switch {
	case c.conflict != nil:
		return c.conflict
	case c.threads < 0:
		return bad("WithThreads", c.threads, "a number of threads, or 0 for one")
	case c.threads > maxThreads:
		return bad("WithThreads", c.threads, fmt.Sprintf("at most %d threads", maxThreads))
	case c.programs < 0:
		return bad("WithPrograms", c.programs, "a number of programs, or 0 to keep none")
	case c.idle.Sessions < 0 || c.idle.Bytes < 0 || c.idle.After < 0:
		return bad("WithIdleLimits", fmt.Sprintf("%+v", c.idle), "limits that are not negative")
	case c.memory < 0:
		return bad("WithMaxMemory", int64(c.memory), "a number of bytes, or 0 for the default")
	case c.deviceMemory < 0:
		return bad("WithDeviceMemory", c.deviceMemory, "a number of bytes, or 0 for all that the device has")
	case c.accuracy > Strict:
		return bad("WithAccuracy", c.accuracy, "Fast or Strict")
	case c.optimizeFor > Memory:
		return bad("WithOptimizeFor", c.optimizeFor, "Speed or Memory")
	case min(int64(min(c.limits.Nodes, c.limits.Depth, c.limits.CallDepth, c.limits.NameBytes)), c.limits.Expanded) < 0:
		return bad("WithLimits", fmt.Sprintf("%+v", c.limits), "counts, or 0 for the defaults")
	case c.maxOpset < 0 || c.maxOpset > NewestOpset:
		return bad("WithMaxOpset", c.maxOpset, fmt.Sprintf("an operator set up to %d, or 0 for the model's own", NewestOpset))
	case c.channelBlock != 0 && c.channelBlock != 8 && c.channelBlock != 16:
		return bad("WithChannelBlock", c.channelBlock, "8 or 16, or 0 for what the file shows")
	}
	return cmp.Or(c.validateNames(), c.validateSizes())
}

// validateNames reports a planner, a schedule or a pass that does not exist.
func (c *config) validateNames() error {
	if _, err := c.plannerOf(); err != nil {
		return &OptionError{Option: "WithPlanner", Got: strconv.Quote(c.planner), Err: err}
	}
	if c.schedule != "" && !slices.Contains(Schedules(), c.schedule) {
		return &OptionError{Option: "WithSchedule", Got: strconv.Quote(c.schedule), Want: "one of " + strings.Join(Schedules(), ", ")}
	}
	for _, name := range c.rewritesOff() {
		if rewrite.Find(name) == nil {
			return &OptionError{Option: "WithoutPass", Got: strconv.Quote(name), Want: "the name of a pass; PassStat.Pass of an OptimizeReport has those that ran"}
		}
	}
	return nil
}

// validateSizes reports negative sizes.
func (c *config) validateSizes() error {
	for _, symbol := range slices.Sorted(maps.Keys(c.dims)) {
		if n := c.dims[symbol]; n < 0 {
			return &OptionError{Option: "WithDim", Got: fmt.Sprintf("%q, %d", symbol, n), Want: "a size that is not negative"}
		}
	}
	for _, input := range slices.Sorted(maps.Keys(c.shapes)) {
		if shape := c.shapes[input]; len(shape) > 0 && slices.Min(shape) < 0 {
			return &OptionError{Option: "WithShape", Got: fmt.Sprintf("%q, %v", input, shape), Want: "dimensions that are not negative"}
		}
	}
	return nil
}

// validateFor is validate, and that every dimension that [WithDim] fixes and every input that [WithShape] names is there.
func (c *config) validateFor(params []*ssa.Value) error {
	if err := c.validate(); err != nil {
		return err
	}
	for _, input := range slices.Sorted(maps.Keys(c.shapes)) {
		if !slices.ContainsFunc(params, func(v *ssa.Value) bool { return v.Name == input }) {
			return &OptionError{Option: "WithShape", Got: fmt.Sprintf("%q, %v", input, c.shapes[input]), Want: "an input; the inputs are " + program.Ports(params)}
		}
	}
	for _, symbol := range slices.Sorted(maps.Keys(c.dims)) {
		named := func(d ssa.Dim) bool { return slices.Contains(d.Symbols(nil), symbol) }
		if !slices.ContainsFunc(params, func(v *ssa.Value) bool { return hasDim(&v.Type, named) }) {
			return &OptionError{Option: "WithDim", Got: fmt.Sprintf("%q, %d", symbol, c.dims[symbol]), Want: "a dimension of an input; the inputs are " + program.Ports(params)}
		}
	}
	return nil
}

// hasDim reports a dimension of a type, or of its members.
func hasDim(t *ssa.Type, is func(ssa.Dim) bool) bool {
	return t != nil && (slices.ContainsFunc(t.Shape, is) || hasDim(t.Elem, is))
}

// atInput names the option that gave an input a type that it can not have.
func (c *config) atInput(err error) error {
	var bad *ops.BindingError
	if !errors.As(err, &bad) {
		return err
	}
	if shape, given := c.shapes[bad.Input]; given {
		return &OptionError{Option: "WithShape", Got: fmt.Sprintf("%q, %v", bad.Input, shape), Err: err}
	}
	if len(c.dims) == 0 {
		return err
	}
	var sizes []string
	for _, symbol := range slices.Sorted(maps.Keys(c.dims)) {
		sizes = append(sizes, fmt.Sprintf("%q, %d", symbol, c.dims[symbol]))
	}
	return &OptionError{Option: "WithDim", Got: strings.Join(sizes, "; "), Err: err}
}

// checkGiven reports shapes, dimensions and bounds that contradict the inputs of a run.
func (c *config) checkGiven(params []*ssa.Value, inputs map[string]ndarray.Value) error {
	for _, p := range params {
		a, ok := inputs[p.Name].(*ndarray.Array)
		if !ok || a == nil {
			continue
		}
		if shape, given := c.shapes[p.Name]; given && !slices.Equal(shape, a.Shape) {
			return &program.InputError{Name: p.Name, Want: fmt.Sprintf("of shape %v, as WithShape says", shape), Got: a.String()}
		}
		if err := program.CheckBounds(p.Name, p.Type, a, c.bounds); err != nil {
			return err
		}
		for i, d := range p.Type.Shape {
			symbol, named := d.SymbolName()
			if n, fixed := c.dims[symbol]; named && fixed && i < len(a.Shape) && int64(a.Shape[i]) != n {
				return &program.InputError{Name: p.Name, Want: fmt.Sprintf("%s with %s = %d, as WithDim says", p.Type, symbol, n), Got: a.String()}
			}
		}
	}
	return nil
}

func newConfig(opts []Option) config {
	c := config{compileOptions: compileOptions{idle: defaultIdle()},
		bindings: bindings{shapes: map[string][]int{}, dims: map[string]int64{}, bounds: map[string]int64{}}, programs: defaultPrograms}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	c.threads, c.backend = cmp.Or(c.threads, 1), cmp.Or(c.backend, "cpu") // equal options are found to be equal
	return c
}

// WithShape fixes the shape of one input. Two shapes of one input are an [OptionError].
func WithShape(input string, shape ...int) Option {
	shape = slices.Clone(shape)
	return func(c *config) {
		if old, twice := c.shapes[input]; twice && !slices.Equal(old, shape) && c.conflict == nil {
			c.conflict = &OptionError{Option: "WithShape", Got: fmt.Sprintf("%q, %v", input, shape), Want: fmt.Sprintf("one shape for an input; another option says %v", old)}
		}
		c.shapes[input] = shape
	}
}

// WithDim fixes a symbolic dimension ("N", "batch", …) everywhere. A symbol that is no dimension of an input, and two sizes of one
// symbol, are an [OptionError].
func WithDim(symbol string, n int64) Option { return setDim("WithDim", symbol, n, bindings.fixed) }

// setDim notes a number for a symbol in one of the tables of numbers.
func setDim(option, symbol string, n int64, table func(bindings) map[string]int64) Option {
	return func(c *config) {
		sizes := table(c.bindings)
		if old, twice := sizes[symbol]; twice && old != n && c.conflict == nil {
			c.conflict = &OptionError{Option: option, Got: fmt.Sprintf("%q, %d", symbol, n), Want: fmt.Sprintf("one size for a dimension; another option says %d", old)}
		}
		sizes[symbol] = n
	}
}

func (b bindings) fixed() map[string]int64   { return b.dims }
func (b bindings) bounded() map[string]int64 { return b.bounds }

// WithBound declares the maximum of a symbolic dimension, which stays open. A run with an input
// that is longer along it is an [InputError]. An input that some result continues along it,
// Concat(past, new), is a cache: a [Session] keeps it and writes only the new rows; see
// [Program.Caches]. A bound below 1, of a symbol that is no dimension of an input, or below the size that
// [WithDim] or [WithShape] fixes, is an [OptionError].
func WithBound(symbol string, most int64) Option {
	return setDim("WithBound", symbol, most, bindings.bounded)
}

// WithState has each [Session] keep a recurrent state: the input is what the result was in the
// run before, zeros (or the input's default) at first. It is left out of a run then, and the
// result is not delivered; see [Program.Caches]. Types and shapes of both must be the
// same; bind open dimensions by [WithShape] or [WithDim]. Where the result's is known only while running, a run whose result does
// not fit fails. Several states may be named.
func WithState(input, result string) Option {
	return func(c *config) { c.states = append(c.states, statePair{input, result}) }
}

// WithStatesOverwritten keeps a state in one place instead of two where the node that makes its next value is the last to read it and
// may write over it, as updates of weights are. A run that has begun to overwrite ignores its context and goes on to its end; if it
// fails, later runs and [Session.Cache] fail with a [TornError] until all states are set ([Session.SetCache]), given or reset. An input that is given for a
// state that is overwritten becomes the state; for one in two places, as all are on a device, it is what that run alone reads ([WithState]).
func WithStatesOverwritten() Option { return func(c *config) { c.overwrite = program.CanOverwrite } }

// WithoutMapping has [Open] read files into memory instead of mapping them, for files that
// may be written to while the model is in use.
func WithoutMapping() Option { return func(c *config) { c.noMapping = true } }

// WithIdleLimits bounds the sessions that a program keeps between runs of [Program.RunValues] and [Model.RunValues].
func WithIdleLimits(l IdleLimits) Option { return func(c *config) { c.idle = l } }

// WithThreads sets how many threads one run may use; the default, and 0, is 1.
func WithThreads(n int) Option { return func(c *config) { c.threads = n } }

// WithMaxMemory limits the memory of the process, beyond what it had when it started, while an
// operation is in progress: opening, rewriting, compiling, running, comparing. Arenas, results
// and temporaries, packed weights, decoded images count. What would need more fails with an
// [ops.MemoryError] before it allocates the memory. Pages of mapped files are dropped where they
// do not fit beside that, and read again: where runs read weights in the file, as tables of a
// Gather, they may be larger than the limit, and runs are slower then, two to three times where
// each reads other rows. Most weights of products and convolutions are packed, and that takes
// memory. The limit is that of the call; a [Program] and its sessions keep the one that they were
// compiled with. The default, and 0, is [ops.DefaultMaxMemory].
//
// The garbage collector lets the heap grow to twice what is alive unless it is told a limit:
// set GOMEMLIMIT or [runtime/debug.SetMemoryLimit], too, as the command does, where small
// allocations of other code matter.
func WithMaxMemory(bytes int64) Option {
	return func(c *config) { c.memory = ndarray.Budget(bytes) }
}

// WithPrograms sets how many programs a model keeps for [Model.RunValues], 8 without it; 0 keeps
// none. It is an option of what makes the model: [Open], [Parse], [FromModule] …; see [Model.RunValues].
func WithPrograms(n int) Option { return func(c *config) { c.programs = n } }

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

// WithHook has a hook told of every node of every run, whether of a [Model], a [Program] or a
// [Session] of it. It costs two calls of the clock per node; without a hook, runs cost nothing
// more. The functions must not run the same session. Programs that [Model.RunValues] keeps are told apart by it: share one hook among
// calls, and tell them apart by the context that it gets.
func WithHook(h *Hook) Option { return func(c *config) { c.hook = h } }

// WithExternalData tells [Parse] and [Read] the files in which the model keeps weights outside
// its own, by the locations that it names, and [Open] and [OpenFS] to look there instead of
// beside the model. The bytes must not change while the model is in use. Two names of one file, "weights.bin" and "./weights.bin",
// are an [OptionError].
func WithExternalData(files map[string][]byte) Option {
	return func(c *config) {
		byPath := make(map[string][]byte, len(files))
		for _, name := range slices.Sorted(maps.Keys(files)) {
			at := path.Clean(name)
			if _, twice := byPath[at]; twice && c.conflict == nil {
				c.conflict = &OptionError{Option: "WithExternalData", Got: fmt.Sprintf("several names of %q", at), Want: "one name for a file"}
			}
			byPath[at] = files[name]
		}
		c.data = dataIn(byPath)
	}
}

// WithBackend chooses what computes the nodes: "cpu" (the default), "reference", or one of a package that the program
// imports: "gorgonia" of backend/gorgonia, "cuda" and "cuda-sim" of backend/cuda; see [Backends].
func WithBackend(name string) Option { return func(c *config) { c.backend = name } }

// WithDevice chooses the device of a backend that has several, such as "cuda", by its number, counted from 0 as the driver lists them; the
// default is the first. A number that there is no device of, two numbers, and any but 0 for a backend without devices, are an [OptionError];
// the first of them wraps the backend's own error, which lists the devices.
func WithDevice(index int) Option {
	return func(c *config) {
		if c.onDevice && c.device != index && c.conflict == nil {
			c.conflict = &OptionError{Option: "WithDevice", Got: strconv.Itoa(index), Want: fmt.Sprintf("one device; another option says %d", c.device)}
		}
		c.device, c.onDevice = index, true
	}
}

// WithDeviceMemory limits the memory that the process takes on the device of a backend such as "cuda", as [WithMaxMemory] does for that of
// the host: weights, arenas with their workspaces, inputs and tensors of all sessions and programs count together, whatever limit they
// have, but no code of kernels and no graphs, of which a driver does not tell the size. What would need more fails with the backend's own
// error before it takes the memory, and a program that can never have a session before any of it is uploaded. A program and its sessions
// keep the limit that they were compiled with. The default, and 0, is what the device has. Backends without devices take none.
func WithDeviceMemory(bytes int64) Option { return func(c *config) { c.deviceMemory = bytes } }

// Aim is what kernels are chosen for.
type Aim uint8

// The aims.
const (
	Speed  Aim = iota // the fastest algorithm, however large its layout of the weights is
	Memory            // no layout of weights that takes more than they do (Winograd's: 1.8 to 4 times), tensors in the model's own layout
)

// WithOptimizeFor chooses between speed, the default, and memory.
func WithOptimizeFor(a Aim) Option { return func(c *config) { c.optimizeFor = a } }

// Accuracy is which algorithms kernels may use.
type Accuracy uint8

// The accuracies. By either, a NaN, infinite or huge value reaches only the results that the
// operators' formulas say.
const (
	// Fast allows Winograd's algorithm for 3×3 convolutions, whose errors are relative to the
	// largest input of a tile: on data of networks about four times those of a direct sum.
	Fast Accuracy = iota
	// Strict allows only kernels whose errors are within the bound of direct summation,
	// (K+2)·2⁻²⁴·Σ|aᵢbᵢ| for a sum of K products; 3×3 convolutions take up to four times as long.
	Strict
)

// WithAccuracy chooses between fast, the default, and strict algorithms.
func WithAccuracy(a Accuracy) Option { return func(c *config) { c.accuracy = a } }

// WithCheck verifies the graph after every pass and runs each pass on a shuffled
// node order.
func WithCheck() Option { return func(c *config) { c.check = true } }

// WithoutPasses compiles the model as it is, shapes folded only.
func WithoutPasses() Option { return func(c *config) { c.noPasses = true } }

// WithoutPass leaves one rewriting pass out, or a choice of the CPU backend: "attention" (one node for it), "epilogues" (what
// products compute beside them), "layout" (of channels) or "groups" (of elementwise nodes).
func WithoutPass(name string) Option { return func(c *config) { c.off = append(c.off, name) } }

// leavesOut reports that a pass is left out.
func (c *config) leavesOut(pass string) bool { return c.noPasses || slices.Contains(c.off, pass) }

// rewritesOff are the rewriting passes that are left out.
func (c *config) rewritesOff() []string {
	return slices.DeleteFunc(slices.Clone(c.off), func(name string) bool {
		return name == layout.Pass || name == fuse.Pass || name == fuse.EpiloguePass || name == fuse.AttentionPass
	})
}

// WithoutInPlace gives every result memory of its own, for comparisons.
func WithoutInPlace() Option { return func(c *config) { c.noInPlace = true } }

// WithoutViews gives reshapes and the like memory of their own, for comparisons.
func WithoutViews() Option { return func(c *config) { c.copyViews = true } }

// WithMaxOpset sets the newest version of the default operator set that an optimized model may import: rewriting uses
// operators up to that version, and where the model imports a newer one, its nodes are written in that one; with package
// ops/all linked, those without such a form by their formulas. If a node has neither, [Model.Optimize] fails with an [*ExportError]. The default is the version the model imports.
func WithMaxOpset(v int) Option { return func(c *config) { c.maxOpset = v } }

// WithUnrolledLoops lets [Model.Optimize] write out loops of a known number of
// iterations, for runtimes that are slow at loops.
func WithUnrolledLoops() Option { return func(c *config) { c.unroll = true } }

// WithChannelBlock tells [Open] the number of channels in a block, 8 or 16, of a model
// that ONNX Runtime wrote at its highest optimization level; the file does not always
// determine it. See [onnximport.Options].
func WithChannelBlock(n int) Option { return func(c *config) { c.channelBlock = n } }

// WithLimits raises, for models that are trusted, or lowers what [Open], [OpenFS], [OpenLenient], [Parse] and [Read] let a model
// cost: nodes, nesting, names. Fields that are 0 stay at their defaults.
func WithLimits(l onnximport.Limits) Option { return func(c *config) { c.limits = l } }

// WithContext lets a context end [Open], [OpenFS], [OpenLenient], [Parse] and [Read] early. Operations that
// take a context of their own do not look at it.
func WithContext(ctx context.Context) Option {
	return func(c *config) {
		if ctx == nil && c.conflict == nil {
			c.conflict = &OptionError{Option: "WithContext", Got: "nil", Err: errNilContext}
		}
		c.ctx = ctx
	}
}

// WithDataRoot tells [Open] a folder in which external data may lie, after links are followed, besides the folder of the
// model and, where the model's path is a symbolic link, that of the file it leads to. Files with several hard links are read
// there only.
func WithDataRoot(folder string) Option { return func(c *config) { c.dataRoot = folder } }

// WithDump records the graph after every pass; see [Dump.WriteHTML].
func WithDump(d *Dump) Option {
	return func(c *config) {
		if d != nil {
			c.dump = &d.d
		}
	}
}

// Planners lists the memory planners, from the simplest to the default.
func Planners() []string { return planner.Names() }

// DefaultPlanner is the planner used unless another is asked for.
func DefaultPlanner() string { return planner.Names()[len(planner.Names())-1] }

func (c *config) plannerOf() (planner.Planner, error) {
	return planner.Get(cmp.Or(c.planner, DefaultPlanner()))
}

// Backends lists the backends by name: those that are built in, then those that the program links by importing their packages.
func Backends() []string { return append([]string{"cpu", "reference"}, backend.Names()...) }

func (c *config) backendOf() (backend.Backend, error) {
	be, err := c.backendNamed()
	if err != nil {
		return nil, err
	}
	remote, ok := be.(backend.Remote)
	if ok {
		err = remote.Use(c.device, c.deviceMemory)
	}
	if err != nil || !ok && c.device != 0 {
		return nil, &OptionError{Option: "WithDevice", Got: strconv.Itoa(c.device), Want: "0: the backend " + c.backend + " has no devices", Err: err}
	}
	return be, nil
}

func (c *config) backendNamed() (backend.Backend, error) {
	if c.backend == "reference" {
		return backend.Reference{}, nil
	}
	if err := machine.StartError(); err != nil {
		return nil, fmt.Errorf("environment variable BERTH_CPU: %w", err)
	}
	o := cpu.Options{Winograd: convolve.Winograd4, Weights: c.weights, Memory: c.optimizeFor == Memory}
	if c.accuracy == Strict {
		o.Winograd, o.Strict = convolve.WinogradOff, true
	}
	fast := cpu.NewWith(o)
	if c.backend == "cpu" {
		return fast, nil
	}
	if b := backend.Registered(c.backend, fast); b != nil {
		return b, nil
	}
	return nil, &OptionError{Option: "WithBackend", Got: strconv.Quote(c.backend), Want: "one of " + strings.Join(Backends(), ", ") + "; others are linked by importing their packages"}
}

// importOptions are those of reading a model. The error is an [OptionError].
func importOptions(lenient bool, opts []Option) (onnximport.Options, error) {
	c := newConfig(opts)
	return onnximport.Options{Context: c.memory.In(cmp.Or(c.ctx, context.Background())), Lenient: lenient, ChannelBlock: c.channelBlock, NoMapping: c.noMapping, Data: c.data, DataRoot: c.dataRoot, Limits: c.limits}, c.validate()
}
