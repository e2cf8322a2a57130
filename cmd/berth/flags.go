package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

// options turns the shared flags into options of the library. Files that the command is going to write, "" for none, are
// checked first, so that no work is in vain.
func (a *app) options(outputs ...string) ([]berth.Option, error) {
	if err := a.checkChoices(false); err != nil {
		return nil, err
	}
	if err := a.checkOutputs(append(outputs, a.dumpFile)...); err != nil {
		return nil, err
	}
	opts := append(a.kernels(), berth.WithPlanner(a.planner), berth.WithSchedule(a.schedule))
	if a.check {
		opts = append(opts, berth.WithCheck())
	}
	if a.parallelSafe {
		opts = append(opts, berth.WithParallelSafe())
	}
	if a.dumpFile != "" {
		a.dump = &berth.Dump{}
		opts = append(opts, berth.WithDump(a.dump))
	}
	opts = append(opts, shapeOptions(a.shapes)...)
	return append(opts, dimOptions(a.dims)...), nil
}

func dimOptions(dims map[string]int64) (opts []berth.Option) {
	for name, n := range dims {
		opts = append(opts, berth.WithDim(name, n))
	}
	return opts
}

// limits are what an operation may use, whatever it is.
func (a *app) limits() []berth.Option {
	return []berth.Option{berth.WithThreads(a.threads), berth.WithMaxMemory(int64(a.memory))}
}

// kernels are the limits, and what decides which kernels run.
func (a *app) kernels() []berth.Option {
	opts := a.limits()
	if a.optimizeFor == "memory" {
		opts = append(opts, berth.WithOptimizeFor(berth.Memory))
	}
	if a.accuracy == "strict" {
		opts = append(opts, berth.WithAccuracy(berth.Strict))
	}
	return opts
}

// memoryUnits are the suffixes of --max-memory and --device-memory, in bytes.
var memoryUnits = []struct {
	suffix string
	bytes  float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}

// readFlags checks the flags that every command has and reads those with a form of their own.
func (a *app) readFlags(set *pflag.FlagSet) (err error) {
	if b := a.channelBlock; b != 0 && b != 8 && b != 16 {
		return usagef("--channel-block %d is neither 8 nor 16", b)
	}
	var empty error
	set.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			empty = usagef("--%s is empty; give a value, or leave the flag out", f.Name)
		}
	})
	if empty != nil {
		return empty
	}
	a.seedGiven = set.Changed("seed")
	if a.timeout < 0 {
		return usagef("--timeout %v is negative", a.timeout)
	}
	a.shapes, a.dims = map[string][]int{}, map[string]int64{}
	for _, s := range a.shapeFlags {
		name, shape, err := parseShape(s)
		if err != nil {
			return err
		}
		if old, twice := a.shapes[name]; twice && !slices.Equal(old, shape) {
			return usagef("--shape gives %q the shapes %s and %s", name, dimsText(old), dimsText(shape))
		}
		a.shapes[name] = shape
	}
	for _, d := range a.dimFlags {
		i := strings.LastIndex(d, "=")
		n, err := strconv.ParseInt(d[i+1:], 10, 64)
		if i <= 0 || err != nil || n < 0 {
			return usagef("--dim %q: want NAME=NUMBER", d)
		}
		if old, twice := a.dims[d[:i]]; twice && old != n {
			return usagef("--dim gives %q the sizes %d and %d", d[:i], old, n)
		}
		a.dims[d[:i]] = n
	}
	if err := a.readLimits(); err != nil {
		return err
	}
	limit, err := parseMemory("max-memory", a.maxMemory)
	a.memory = ndarray.Budget(limit)
	return err
}

// limitNames are what --limit calls the fields of [onnximport.Limits].
var limitNames = map[string]func(l *onnximport.Limits, n int){
	"nodes": func(l *onnximport.Limits, n int) { l.Nodes = n }, "depth": func(l *onnximport.Limits, n int) { l.Depth = n },
	"call-depth": func(l *onnximport.Limits, n int) { l.CallDepth = n }, "name-bytes": func(l *onnximport.Limits, n int) { l.NameBytes = n },
	"expanded": func(l *onnximport.Limits, n int) { l.Expanded = int64(n) },
}

// readLimits reads --limit.
func (a *app) readLimits() error {
	given := map[string]bool{}
	for _, s := range a.limitFlags {
		name, number, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(number)
		set := limitNames[name]
		if set == nil || err != nil || n < 1 {
			return usagef("--limit %q: want NAME=NUMBER; the names are %s", s, strings.Join(slices.Sorted(maps.Keys(limitNames)), ", "))
		}
		if given[name] {
			return usagef("--limit gives %s twice", name)
		}
		given[name] = true
		set(&a.limitsGiven, n)
	}
	return nil
}

// parseMemory reads a flag of bytes: a number with a unit, or of bytes; 0 for "".
func parseMemory(flag, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := parseBytes(s)
	if err != nil {
		return 0, usagef("--%s %q: %w", flag, s, err)
	}
	return n, nil
}

// parseBytes reads a number of bytes, with one of memoryUnits or without.
func parseBytes(s string) (int64, error) {
	text, unit := strings.TrimSpace(s), 1.0
	for _, u := range memoryUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n*unit >= 1 && n*unit < 1<<62) {
		return 0, fmt.Errorf("no size; give bytes or a size like 512MiB or 8GB")
	}
	return int64(n * unit), nil
}

// checkChoices rejects what the flags with a fixed set of values can not be; some
// commands take "all" planners and orders.
func (a *app) checkChoices(all bool) error {
	for _, f := range []struct {
		what, value string
		known       []string
	}{{"planner", a.planner, berth.Planners()}, {"schedule", a.schedule, berth.Schedules()}} {
		if f.value != "" && !slices.Contains(f.known, f.value) && !(all && f.value == "all") {
			return usagef("there is no %s %q%s; there are %s", f.what, f.value, didYouMean(f.value, f.known), strings.Join(f.known, ", "))
		}
	}
	switch {
	case a.threads < 1:
		return usagef("--threads must be at least 1")
	case a.optimizeFor != "speed" && a.optimizeFor != "memory":
		return usagef("--optimize-for %s is neither speed nor memory", a.optimizeFor)
	case a.accuracy != "fast" && a.accuracy != "strict":
		return usagef("--accuracy %s is neither fast nor strict", a.accuracy)
	}
	return nil
}

// onceFlag is a flag that may be given once: of two values one would be ignored.
type onceFlag struct {
	pflag.Value
	given bool
}

// Set refuses a second value.
func (f *onceFlag) Set(s string) error {
	if f.given {
		return errors.New("the flag is given twice")
	}
	f.given = true
	return f.Value.Set(s)
}

// onlyOnce makes the flags of all commands [onceFlag]s, except lists.
func onlyOnce(c *cobra.Command) {
	once := func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list {
			f.Value = &onceFlag{Value: f.Value}
		}
	}
	c.PersistentFlags().VisitAll(once)
	c.LocalNonPersistentFlags().VisitAll(once)
	for _, sub := range c.Commands() {
		onlyOnce(sub)
	}
}

// didYouMean suggests the known name that is nearest to a wrong one, if one is near.
func didYouMean(name string, known []string) string {
	best, at := 1+max(len(name)/3, 1), ""
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < best && d < max(len(name), len(k)) {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", at)
}

// editDistance is the least number of bytes inserted, removed, replaced or exchanged with the next to make b of a.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}

// deviceFlags are --device and --device-memory.
type deviceFlags struct {
	index int
	limit string
	bytes int64 // read from limit
}

// backendFlags adds --backend, --device and --device-memory.
func (a *app) backendFlags(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "backend", "cpu", strings.Join(berth.Backends(), ", "))
	c.Flags().IntVar(&a.device.index, "device", 0, "with --backend cuda: the number of the GPU, as the driver lists them")
	c.Flags().StringVar(&a.device.limit, "device-memory", "", "with --backend cuda, cuda-sim: memory of the device that the process may take: 8GiB, 512MB, … (default all that is there)")
}

// checkBackend checks --backend, and reads what comes with it.
func (a *app) checkBackend(name string) (err error) {
	if !slices.Contains(berth.Backends(), name) {
		return usagef("there is no backend %q; there are %s", name, strings.Join(berth.Backends(), ", "))
	}
	a.device.bytes, err = parseMemory("device-memory", a.device.limit)
	return err
}

// on are the options for a backend and its device.
func (a *app) on(backend string) []berth.Option {
	return []berth.Option{berth.WithBackend(backend), berth.WithDevice(a.device.index), berth.WithDeviceMemory(a.device.bytes)}
}

// toleranceFlags adds --rtol and --atol.
func toleranceFlags(c *cobra.Command, tol *conformance.Tolerance, atol float64, what string) {
	tol.Rtol, tol.Atol = 1e-3, atol
	c.Flags().Var((*toleranceFlag)(&tol.Rtol), "rtol", "relative tolerance"+what)
	c.Flags().Var((*toleranceFlag)(&tol.Atol), "atol", "absolute tolerance"+what)
}

// toleranceFlag is a number that is not negative.
type toleranceFlag float64

func (f *toleranceFlag) String() string { return strconv.FormatFloat(float64(*f), 'g', -1, 64) }

func (f *toleranceFlag) Type() string { return "float" }

func (f *toleranceFlag) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 1) {
		return fmt.Errorf("want a number that is not negative, and no infinity, such as 0.001")
	}
	*f = toleranceFlag(v)
	return nil
}

func shapeOptions(shapes map[string][]int) []berth.Option {
	var opts []berth.Option
	for name, s := range shapes {
		opts = append(opts, berth.WithShape(name, s...))
	}
	return opts
}

// parseShape reads NAME=1x3x224x224 or NAME:1,3,224,224; NAME=[] and NAME= are scalars. Names
// may contain the separators: the last one that is followed by a shape counts.
func parseShape(s string) (name string, shape []int, err error) {
	for _, sep := range []string{"=", ":"} {
		if i := strings.LastIndex(s, sep); i > 0 {
			if shape, ok := parseDims(s[i+1:]); ok {
				return s[:i], shape, nil
			}
		}
	}
	return "", nil, usagef("--shape %q: want NAME=1x3x224x224", s)
}

func parseDims(s string) (shape []int, ok bool) {
	shape = []int{}
	if s == "" || s == "[]" {
		return shape, true
	}
	for _, part := range strings.Split(strings.NewReplacer("X", "x", ",", "x").Replace(s), "x") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 {
			return nil, false
		}
		shape = append(shape, n)
	}
	return shape, true
}

// checkNames makes sure that --shape and --dim name what the model has and agree
// with it.
func (a *app) checkNames(m *berth.Model) error {
	var inputs, symbols []string
	sizes := maps.Clone(a.dims)
	for _, in := range m.Inputs() {
		inputs = append(inputs, in.Name)
		shape, given := a.shapes[in.Name]
		for t := in.Type.Elem; t != nil; t = t.Elem {
			for _, d := range t.Shape {
				symbols = d.Symbols(symbols)
			}
		}
		if given && (in.Type.Kind != ssa.KindTensor || !fits(in, shape)) {
			return usagef("--shape %s: the input is %s", in.Name, in.Type)
		}
		for i, d := range in.Type.Shape {
			symbols = d.Symbols(symbols)
			s, named := d.SymbolName()
			if !given || !named {
				continue
			}
			if old, seen := sizes[s]; seen && old != int64(shape[i]) {
				return usagef("--shape %s makes %q %d, another --shape or --dim makes it %d", in.Name, s, shape[i], old)
			}
			sizes[s] = int64(shape[i])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.shapes)) {
		if !slices.Contains(inputs, name) {
			return usagef("there is no input %q%s; the inputs are %s", name, didYouMean(name, inputs), strings.Join(inputs, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.dims)) {
		if len(symbols) == 0 {
			return usagef("there is no dimension %q: the inputs have no symbolic dimensions; use --shape", name)
		}
		if !slices.Contains(symbols, name) {
			return usagef("there is no dimension %q%s; the dimensions are %s", name, didYouMean(name, symbols), strings.Join(symbols, ", "))
		}
	}
	return nil
}

// fits reports that an input may have a shape.
func fits(in berth.Port, shape []int) bool {
	if !in.Type.Ranked {
		return true
	}
	if len(in.Type.Shape) != len(shape) {
		return false
	}
	for i, d := range in.Type.Shape {
		if n, ok := d.Const(); ok && n != int64(shape[i]) {
			return false
		}
	}
	return true
}
