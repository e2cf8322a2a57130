package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// benchJSON is the object printed by bench.
type benchJSON struct {
	Model        string  `json:"model"`
	Threads      int     `json:"threads"`
	Runs         int     `json:"runs"`
	MedianNanos  int64   `json:"median_ns"`
	MinNanos     int64   `json:"min_ns"`
	P99Nanos     int64   `json:"p99_ns"`
	LoadNanos    int64   `json:"load_ns"`
	CompileNanos int64   `json:"compile_ns"`
	ArenaBytes   int64   `json:"arena_bytes"`
	WeightsBytes int64   `json:"weights_bytes"`
	PeakRSS      int64   `json:"peak_rss_bytes"`
	StartRSS     int64   `json:"start_rss_bytes"` // when the model was opened
	AllocsPerRun float64 `json:"allocs_per_run"`

	grownRSS int64 // largest resident size above StartRSS

	// PackedBytes are weights as kernels read them, by layout.
	PackedBytes map[string]int64 `json:"packed_bytes"`

	// With --profile: time by operator, by node, and what the machine reaches, by number of threads.
	Operators []profileRow `json:"operators,omitempty"`
	Nodes     []nodeRow    `json:"nodes,omitempty"`
	Limits    []limitsJSON `json:"limits,omitempty"`

	// Device is what kernels of a device do (--backend cuda, cuda-sim).
	Device *deviceJSON `json:"device,omitempty"`

	// Compare is the same model in another runtime (--compare).
	Compare *compareJSON `json:"compare,omitempty"`

	// Machines are those of Gorgonia (--tape-machine), with the model as an expression graph.
	Machines []machineJSON `json:"machines,omitempty"`
}

type benchFlags struct {
	seconds float64
	profile bool
	tape    bool
	backend string
	compare string
	python  string
	errors  bool
}

func (a *app) benchCmd() *cobra.Command {
	var f benchFlags
	c := modelCommand("bench MODEL", "Time a model",
		"Bench compiles the model, warms up, and times runs one after the other in one arena.\nload_ns is opening and compiling; arena_bytes is what one run holds, workspaces included.\n"+
			"--profile lists nodes by time, with the kernel's algorithm and its reason, 10⁹ operations and bytes a second, and the\n"+
			"part of what bounds them on this machine, arithmetic or memory, as measured at the end.\n"+
			"--backend cuda adds a table of kernels: launches, operations, bytes, time by the device's events and the part of what the device\n"+
			"can reach; cuda-sim runs once and counts instead, with the least times that the limits of two GPUs allow.\n"+
			"--compare ort runs the same in ONNX Runtime in a Python process (--python) and needs numpy and onnxruntime there;\n"+
			"ratios are berth's by the other's, and nodes that compute the same are in one row. README.md lists the fields of --json.\n"+
			"--errors runs the model once in float64 on reference kernels, a second for 4·10⁹ operations, and lists how far each output is\n"+
			"from that in berth and there: the largest difference and the root of the mean square, by the output's largest magnitude.\n"+
			"--tape-machine also makes the model one of Gorgonia's expression graphs and times passes in Gorgonia's\n"+
			"tapeMachine and in the planned machine, each alone; live is what a machine keeps reachable on the heap\n"+
			"beyond inputs and weights, at most.",
		"  berth bench model.onnx --shape x=1x3x224x224 --threads 2 --seconds 5 --profile",
		func(c *cobra.Command, model string) error { return a.bench(c.Context(), model, f) })
	c.Flags().Float64Var(&f.seconds, "seconds", 2, "how long to time")
	c.Flags().BoolVar(&f.profile, "profile", false, "add time per operator and per node, with each node's algorithm and how near it comes to what the machine reaches")
	c.Flags().StringVar(&f.compare, "compare", "", "ort: run the same in ONNX Runtime, in turns, and set the times of nodes side by side")
	c.Flags().StringVar(&f.python, "python", "", "with --compare ort: a Python with numpy and onnxruntime (default python3)")
	c.Flags().BoolVar(&f.errors, "errors", false, "with --compare ort: how far the outputs of both are from those of the model in float64, on reference kernels")
	c.Flags().BoolVar(&f.tape, "tape-machine", false, "add passes in Gorgonia's tapeMachine and in the planned machine")
	a.backendFlags(c, &f.backend)
	a.dataFlag(c)
	return c
}

func (a *app) bench(ctx context.Context, model string, f benchFlags) error {
	opts, err := a.benchOptions(f)
	if err != nil {
		return err
	}
	r, err := a.startRival(ctx, f)
	if err != nil {
		return err
	}
	defer r.Close()
	have, unread := a.inputsOf(model) // which are the caller's, as with other runtimes
	startRSS, grown := sysmem.ResidentNow(), growth()
	start := time.Now()
	m, err := a.model(model, false)
	if err != nil {
		return err
	}
	defer m.Close()
	opened := time.Since(start)
	sysmem.DropCode() // what opening ran
	if err = unread; err == nil {
		err = cmp.Or(a.checkGiven(m, have), a.checkSeed(m, have))
	}
	if err != nil {
		return err
	}
	p, sess, args, err := a.firstRun(ctx, m, have, opts)
	if err != nil {
		return err
	}
	res := benchJSON{Model: model, Threads: a.threads, LoadNanos: (opened + p.CompileTime()).Nanoseconds(), CompileNanos: p.CompileTime().Nanoseconds(),
		ArenaBytes: p.Plan().ArenaBytes, WeightsBytes: p.Plan().WeightBytes, PackedBytes: m.PackedBytes(), StartRSS: startRSS}
	if err := a.measure(ctx, f, subject{model, m, sess, args}, r, grown, &res); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(res)
	}
	a.printBench(res, p.Plan())
	return nil
}

// benchOptions are the options to compile with, where all flags make sense.
func (a *app) benchOptions(f benchFlags) ([]berth.Option, error) {
	opts, err := a.options()
	if err != nil {
		return nil, err
	}
	if err := a.checkBackend(f.backend); err != nil {
		return nil, err
	}
	if !(f.seconds >= 0 && f.seconds < 1e9) {
		return nil, usagef("--seconds %v: want a time from 0 on", f.seconds)
	}
	return append(opts, a.on(f.backend)...), f.checkCompare()
}

// measure fills in what the flags ask for. Resident memory is read before anything is measured that runs alone would not hold:
// the machine's limits, another runtime, another machine.
func (a *app) measure(ctx context.Context, f benchFlags, s subject, r *rival, grown func() int64, res *benchJSON) error {
	if !simulates(f.backend) {
		if err := a.timeRuns(ctx, s.sess, s.args, f.seconds, res); err != nil {
			return err
		}
	}
	if err := benchDevice(ctx, s.sess, s.args, f.backend, res); err != nil {
		return err
	}
	if f.profile {
		if err := profile(ctx, s.sess, s.args, res); err != nil {
			return err
		}
	}
	res.PeakRSS = max(sysmem.PeakResident(), res.StartRSS) // the kernel's counts are exact to a few pages a thread
	res.grownRSS = grown()
	if f.profile {
		if err := a.holdAgainstLimits(ctx, res); err != nil {
			return err
		}
	}
	if r != nil {
		if err := a.compareWith(ctx, r, s, f.seconds, res); err != nil {
			return err
		}
	}
	if f.tape {
		return a.benchMachines(ctx, s.m, s.args, f.seconds, res)
	}
	return nil
}

// growth returns what says how much more than now was resident since, at most; where that is less than what was resident
// before, it says how much more is at the end.
func growth() func() int64 {
	start, peak := sysmem.ResidentNow(), sysmem.PeakResident()
	return func() int64 {
		if p := sysmem.PeakResident(); p > peak {
			return p - start
		}
		return max(0, sysmem.ResidentNow()-start)
	}
}

// firstRun compiles a model, for sizes that it takes, and runs it once.
func (a *app) firstRun(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, opts []berth.Option) (p *berth.Program, s *berth.Session, args []ndarray.Value, err error) {
	err = a.withRealisticSizes(ctx, m, have, func(shapes map[string][]int, in map[string]ndarray.Value) (err error) {
		if p, err = m.Compile(ctx, append(shapeOptions(shapes), opts...)...); err != nil {
			return err
		}
		sysmem.DropCode() // what compiling ran
		if s, err = p.NewSessionContext(ctx); err != nil {
			return err
		}
		if args, err = p.Arguments(in); err != nil {
			return err
		}
		_, err = s.Run(ctx, args)
		return err
	})
	return p, s, args, err
}

// fewestAllocations calls f several times and counts the objects that the process allocates during each call. The least is what f itself
// allocates: what else the process does, as cleanups behind a collection, falls into some calls and not into all.
func fewestAllocations(calls int, f func() error) (float64, error) {
	fewest := uint64(math.MaxUint64)
	var before, after runtime.MemStats
	for range calls {
		runtime.ReadMemStats(&before)
		if err := f(); err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&after)
		fewest = min(fewest, after.Mallocs-before.Mallocs)
	}
	return float64(fewest), nil
}

func (a *app) timeRuns(ctx context.Context, s *berth.Session, args []ndarray.Value, seconds float64, res *benchJSON) error {
	warm := time.Now()
	for i := 0; i < 3 || i < 20 && time.Since(warm) < 200*time.Millisecond; i++ {
		if _, err := s.Run(ctx, args); err != nil {
			return err
		}
	}
	ts := make([]int64, 0, 1<<16)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := s.Run(ctx, args); err != nil {
		return err
	}
	if runtime.ReadMemStats(&after); after.Mallocs > before.Mallocs {
		a.collector.end() // what the runs leave comes on top of what compiling left
	}
	if runtime.ReadMemStats(&before); before.NumGC > 0 { // else the first collection is far away, see collector
		runtime.GC()
		runtime.ReadMemStats(&before)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for len(ts) < 5 || time.Now().Before(end) && len(ts) < cap(ts) {
		t := time.Now()
		if _, err := s.Run(ctx, args); err != nil {
			return err
		}
		ts = append(ts, time.Since(t).Nanoseconds())
	}
	runtime.ReadMemStats(&after)
	if after.Mallocs-before.Mallocs >= uint64(len(ts)) {
		var err error
		if res.AllocsPerRun, err = fewestAllocations(3, func() error { _, err := s.Run(ctx, args); return err }); err != nil {
			return err
		}
	}
	slices.Sort(ts)
	res.Runs, res.MedianNanos, res.MinNanos = len(ts), ts[len(ts)/2], ts[0]
	res.P99Nanos = ts[min(len(ts)-1, len(ts)*99/100)]
	return nil
}

// packedText lists packed weights by layout, the largest first.
func packedText(packed map[string]int64) string {
	var sum int64
	var parts []string
	kinds := slices.SortedFunc(maps.Keys(packed), func(a, b string) int {
		return cmp.Or(cmp.Compare(packed[b], packed[a]), cmp.Compare(a, b))
	})
	for _, k := range kinds {
		sum += packed[k]
		parts = append(parts, k+" "+bytesText(packed[k]))
	}
	if len(parts) < 2 {
		return strings.Join(append(parts, "none")[:1], "")
	}
	return bytesText(sum) + ": " + strings.Join(parts, ", ")
}

// timedRows are those that say nothing without timed runs.
var timedRows = []string{"median", "fastest", "p99", "runs", "allocations per run"}

func (a *app) printBench(r benchJSON, p berth.PlanInfo) {
	t := newTable(a.out, filepath.Base(r.Model), "")
	alignRight(t, 2)
	for _, row := range [][2]string{
		{"median", durationText(r.MedianNanos)}, {"fastest", durationText(r.MinNanos)}, {"p99", durationText(r.P99Nanos)},
		{"runs", fmt.Sprint(r.Runs)}, {"threads", fmt.Sprint(r.Threads)}, {"load and compile", durationText(r.LoadNanos)},
		{"arena", bytesText(r.ArenaBytes)}, {"weights", bytesText(r.WeightsBytes)}, {"weights, packed", packedText(r.PackedBytes)}, {"peak RSS", bytesText(r.PeakRSS) + ", of which " + bytesText(r.StartRSS) + " when the model was opened"},
		{"allocations per run", fmt.Sprintf("%.0f", r.AllocsPerRun)}, {"nodes on reference kernels", fmt.Sprint(p.ReferenceOps)},
	} {
		if r.Runs > 0 || !slices.Contains(timedRows, row[0]) {
			t.AppendRow([]any{row[0], row[1]})
		}
	}
	t.Render()
	a.printDevice(r.Device)
	a.printProfile(r)
	a.printCompare(r)
	a.printMachines(r.Machines)
}
