package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
)

// The exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitDiffers = 3
	exitModel   = 4
)

// exitError is an error with the exit code it asks for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func differs(err error) error { return &exitError{exitDiffers, err} }

// app is one invocation: its streams and the flags every command has.
type app struct {
	out, errOut io.Writer
	json        bool
	verbose     bool
	shapeFlags  []string
	dimFlags    []string
	limitFlags  []string
	limitsGiven onnximport.Limits // read from limitFlags
	shapes      map[string][]int  // read from shapeFlags
	dims        map[string]int64  // read from dimFlags
	threads     int
	planner     string
	schedule    string
	seed        int64
	seedGiven   bool
	check       bool
	dumpFile    string
	data        string
	has         map[string]bool // flags of the command
	guessed     bool            // sizes of open dimensions were
	maxMemory   string
	device      deviceFlags
	memory      ndarray.Budget // read from maxMemory, 0 without it
	optimizeFor string         // speed or memory
	accuracy    string         // fast or strict
	timeout     time.Duration
	ctx         context.Context // of the command, for opening models
	models      []string        // the files that it was given
	cancel      func()          // ends watching the context, and the timeout's timer
	temporary   *folders
	collector   *collector
	drawing     drawing
	told        bool                                   // what was drawn
	ending      *ending                                // of all copies
	roles       map[*berth.Model]map[string]trial.Role // what models use their inputs for

	dataRoot string
	several  bool     // models: flags of opening may concern any of them
	outputs  []string // files that flags name and that will be written
	replaces string   // the one of them that may be the model itself
	read     []string // files that were read

	parallelSafe bool
	channelBlock int

	dump *berth.Dump
}

// grace is how long a command goes on after its timeout or a signal until the process is ended: everything looks at the
// context more often, but nothing that takes longer may keep a process alive.
const grace = 60 * time.Millisecond

// printingGrace is how much longer it goes on to print results: a slow reader or disk has the rest of them.
const printingGrace = 640 * time.Millisecond

// ending is what a command and who ends it in its place agree on.
type ending struct {
	said      sync.Once  // whyEnded was printed
	finishing sync.Mutex // locked while work goes on after the context that is not to be cut short
	printing  sync.Mutex // locked while results are printed that were there before the context ended
}

// printed waits until no results are printed, but not for ever: nobody may read them.
func (e *ending) printed() {
	for end := time.Now().Add(printingGrace); !e.printing.TryLock() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// saidEnded reports that a command ended with its context, by a signal or its timeout.
var saidEnded atomic.Bool

// endProcess is os.Exit in the command, nil in tests.
var endProcess func(code int)

// watch ends the process when the command is still busy after its context and the grace. What is written is written completely
// or not at all, whenever that is. stop ends watching.
func (a *app) watch(ctx context.Context) (stop func() bool) {
	if endProcess == nil {
		return func() bool { return false }
	}
	return context.AfterFunc(ctx, func() {
		time.Sleep(grace)
		a.ending.finishing.Lock()
		a.ending.printed()
		defer safefile.Abandon()() // where the process goes on, as in tests
		a.temporary.removeAll(ctx)
		said := make(chan struct{})
		rescue.Go(func() {
			a.sayEnded()
			close(said)
		})
		select {
		case <-said:
		case <-time.After(grace): // nobody reads standard error
		}
		endProcess(exitFailed)
	})
}

// within is the context of one operation of the command, within --max-memory. The next one has another: what takes too much memory ends
// itself alone, and less may be tried.
func (a *app) within() context.Context { return a.memory.In(a.ctx) }

// sayEnded prints whyEnded once.
func (a *app) sayEnded() {
	saidEnded.Store(true)
	a.ending.said.Do(func() { fmt.Fprintln(a.errOut, "berth:", a.whyEnded()) })
}

// whyEnded is the message of a command that its context ended.
func (a *app) whyEnded() string {
	why := "interrupted"
	if a.timeout > 0 && a.ctx != nil && errors.Is(a.ctx.Err(), context.DeadlineExceeded) {
		why = fmt.Sprintf("stopped after %v (--timeout)", a.timeout)
	}
	if len(a.models) == 0 {
		return why
	}
	return brief(plain(strings.Join(slices.Compact(slices.Clone(a.models)), " and "))) + ": " + why
}

// folders are temporary ones.
type folders struct {
	mu    sync.Mutex
	paths []string
}

// make makes a folder. remove removes it, and waits for large files only before a context ends.
func (f *folders) make(ctx context.Context) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "berth-*"); err != nil {
		return "", nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = append(f.paths, dir)
	return dir, func() { safefile.RemoveFolder(ctx, dir) }, nil
}

func (f *folders) removeAll(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dir := range f.paths {
		safefile.RemoveFolder(ctx, dir)
	}
}

// execute runs a command line and returns its exit code. Errors are printed on errOut.
func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	stdout := &checkedWriter{Writer: out}
	a := &app{out: stdout, errOut: errOut, temporary: new(folders), ending: new(ending)}
	err := a.execute(ctx, args)
	if err == nil {
		err = stdout.err
	}
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil && errors.Is(err, ctx.Err()), a.timeout > 0 && errors.Is(err, context.DeadlineExceeded):
		a.sayEnded()
		return exitFailed
	}
	fmt.Fprintln(errOut, "berth:", brief(plain(textOf(err))))
	return codeOf(err)
}

// optionFlags are the flags that become options of the library.
var optionFlags = map[string]string{"WithBackend": "--backend", "WithBound": "--bound", "WithDim": "--dim", "WithLimits": "--limit", "WithMaxMemory": "--max-memory",
	"WithMaxOpset": "--max-opset", "WithPlanner": "--planner", "WithSchedule": "--schedule", "WithShape": "--shape", "WithThreads": "--threads", "WithChannelBlock": "--channel-block",
	"Options.Rate": "--rate", "Options.ClipNorm": "--clip", "Options.Learn": "--learn", "Options.Output": "--of", "SGD decay": "--decay", "Momentum decay": "--decay", "Nesterov decay": "--decay", "Adam decay": "--decay",
	"AdamW decay": "--decay", "Adagrad decay": "--decay"}

// flagOf is the flag by which an option was set that the library refuses, "" for other errors.
func flagOf(err error) string {
	var option *berth.OptionError
	if !errors.As(err, &option) {
		return ""
	}
	return optionFlags[option.Option]
}

// textOf says what is wrong with an option by its flag.
func textOf(err error) string {
	flag := flagOf(err)
	if flag == "" {
		return err.Error()
	}
	var option *berth.OptionError
	errors.As(err, &option)
	said := *option
	said.Option = flag
	return strings.Replace(err.Error(), option.Error(), strings.Replace(said.Error(), flag+"("+option.Got+")", flag+" "+option.Got, 1), 1)
}

func (a *app) execute(ctx context.Context, args []string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v; please report it with the command line and, if you can, the model", r)
		}
	}()
	debug.SetPanicOnFault(true) // a file that is cut short while it is read is an error
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	a.collector = new(collector)
	defer a.collector.delay()()
	a.cancel = func() {}
	defer func() { a.cancel() }()
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	if err := root.ExecuteContext(ctx); err != nil {
		return err
	}
	return a.writeDump()
}

// codeOf maps an error to the exit code promised for it.
func codeOf(err error) int {
	var e *exitError
	var imp *onnximport.ImportError
	var exp *berth.ExportError
	switch {
	case errors.As(err, &e):
		return e.code
	case flagOf(err) != "":
		return exitUsage
	case errors.As(err, &imp), errors.As(err, &exp), errors.Is(err, ops.ErrUnsupported):
		return exitModel
	}
	return exitFailed
}

const rootHelp = `berth takes an ONNX model, rewrites it, plans a place for every tensor in one
arena, verifies the plan, writes the optimized model back, and runs it.

MODEL is a path to an .onnx file, or builtin:NAME (see 'berth models').

Exit codes: 0 done, 1 the model or the run failed, 2 usage, 3 a check compared
and differed, 4 the file is not a valid or supported model.`

func (a *app) root() *cobra.Command {
	var root *cobra.Command
	root = &cobra.Command{Use: "berth", Version: berth.Version() + " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")", Short: "Optimize, plan and run ONNX models in pure Go", Long: rootHelp,
		SilenceUsage: true, SilenceErrors: true, Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(root, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w%s; '%s --help' lists the flags", err, suggestFlag(c, err), c.CommandPath())
	})
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON object, nothing else, on standard output")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say more")
	f.StringArrayVar(&a.shapeFlags, "shape", nil, "fix an input's shape: NAME=1x3x224x224 (repeatable)")
	f.StringArrayVar(&a.dimFlags, "dim", nil, "fix a symbolic dimension: N=4 (repeatable)")
	f.IntVar(&a.threads, "threads", 1, "threads one run may use")
	f.StringVar(&a.planner, "planner", "", "memory planner: "+strings.Join(berth.Planners(), ", ")+" (default "+berth.DefaultPlanner()+")")
	f.StringVar(&a.schedule, "schedule", "", "execution order: "+strings.Join(berth.Schedules(), ", ")+" (default "+berth.Schedules()[0]+")")
	f.BoolVar(&a.parallelSafe, "parallel-safe", false, "plan memory for every order of the nodes at once, also for independent nodes that run at the same time")
	f.IntVar(&a.channelBlock, "channel-block", 0, "block of channels of a file that ONNX Runtime wrote at its highest optimization level: 16 if that machine had AVX-512, 8 if not (default what the file shows)")
	f.StringVar(&a.dataRoot, "data-root", "", "folder besides the model's in which its external data may lie, links and hard links included")
	f.StringArrayVar(&a.limitFlags, "limit", nil, "what a model that is trusted may cost, NAME=N (repeatable): "+strings.Join(slices.Sorted(maps.Keys(limitNames)), ", "))
	f.Int64Var(&a.seed, "seed", 0, "seed of random inputs")
	f.StringVar(&a.maxMemory, "max-memory", "", "memory that the process may take, the program itself included, which has some 31 MiB, and pages of model files, which are read again where they do not fit: 8GiB, 512MB, … (default three quarters of the machine's or container's, or GOMEMLIMIT if that is less)")
	f.StringVar(&a.optimizeFor, "optimize-for", "speed", "what kernels are chosen for: speed, or memory (no layout of weights that takes more than they do, tensors as the model has them)")
	f.StringVar(&a.accuracy, "accuracy", "fast", "which kernels may run: fast, or strict (none whose error bound is worse than that of direct summation)")
	f.DurationVar(&a.timeout, "timeout", 0, "stop after this long: 30s, 5m, … (default never)")
	f.BoolVar(&a.check, "check", false, "verify the graph after every pass")
	f.StringVar(&a.dumpFile, "dump", "", "write an HTML page with the graph after every pass")
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		a.models = args
		a.has = map[string]bool{}
		c.Flags().VisitAll(func(f *pflag.Flag) { a.has[f.Name] = true })
		if err := a.readFlags(c.Flags()); err != nil {
			return err
		}
		if err := cmp.Or(checkIdle(c), a.checkRoot()); err != nil {
			return err
		}
		if a.timeout > 0 {
			var ctx context.Context
			ctx, a.cancel = context.WithTimeout(c.Context(), a.timeout)
			c.SetContext(ctx)
		}
		a.ctx = c.Context()
		stop, cancel := a.watch(c.Context()), a.cancel
		a.cancel = func() { stop(); cancel() }
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), a.memory.Heap())) // garbage is collected before it fills the budget
		return nil
	}
	root.AddCommand(a.optimizeCmd(), a.runCmd(), a.verifyCmd(), a.compareCmd(), a.inspectCmd(), a.benchCmd(), a.diffCmd(), a.trainCmd(), a.modelsCmd())
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = helpArgs
	onlyOnce(root)
	return root
}

// helpArgs is a usage error where help is asked for a command that there is not.
func helpArgs(help *cobra.Command, args []string) error {
	if _, rest, err := help.Root().Find(args); len(rest) > 0 || err != nil {
		return noCommand(help.Root(), strings.Join(args, " "))
	}
	return nil
}

// noCommand is the error of a name that is no command.
func noCommand(root *cobra.Command, name string) error {
	var known []string
	for _, c := range root.Commands() {
		known = append(known, c.Name())
	}
	return usagef("there is no command %q%s; 'berth --help' lists them", name, didYouMean(name, known))
}

// suggestFlag is the flag that an unknown one was probably meant to be.
func suggestFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	return didYouMean("--"+unknown.GetSpecifiedName(), known)
}

// exactArgs is a usage error unless a command gets n positional arguments.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s, got %d arguments", c.Name(), what, len(args))
		}
		return nil
	}
}

// dataFlag adds --data to commands that take inputs or shapes from a test set.
func (a *app) dataFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.data, "data", "", "take inputs (or their shapes) from a test_data_set_* folder")
}

// printJSON prints one object on a line of its own.
func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.out, string(b))
	return err
}

// note prints progress and warnings on standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.errOut, brief(plain(fmt.Sprintf(format, args...))))
}

// printf prints on standard output. Texts among the arguments may come from files.
func (a *app) printf(format string, args ...any) {
	for i, x := range args {
		if s, ok := x.(string); ok {
			args[i] = plain(s)
		}
	}
	fmt.Fprintf(a.out, format, args...)
}

func (a *app) writeDump() error {
	if a.dump == nil {
		return nil
	}
	return safefile.Write(a.dumpFile, a.dump.WriteHTML)
}
