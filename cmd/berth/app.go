package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/rewrite"
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
	shapes      []string
	dims        []string
	threads     int
	planner     string
	schedule    string
	seed        int64
	check       bool
	dumpFile    string
	data        string

	dump *rewrite.Dump
}

// execute runs a command line and returns its exit code.
func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	a := &app{out: out, errOut: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.writeDump()
	}
	if err == nil {
		return exitDone
	}
	code := codeOf(err)
	fmt.Fprintln(errOut, "berth:", err)
	return code
}

// codeOf maps an error to the exit code promised for it.
func codeOf(err error) int {
	var e *exitError
	var imp *onnximport.ImportError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &imp):
		return exitModel
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{Use: "berth", Short: "Optimize, plan and run ONNX models in pure Go",
		Long:         "berth takes an ONNX model, rewrites it, works out where every tensor lives in one\narena, proves the plan sound, writes the optimized model back, and runs it.\n\nMODEL is a path to an .onnx file, or builtin:NAME (see 'berth models').",
		SilenceUsage: true, SilenceErrors: true, Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; 'berth --help' lists them", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{exitUsage, err} })
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON object, nothing else, on standard output")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say more")
	f.StringArrayVar(&a.shapes, "shape", nil, "fix an input's shape: NAME=1x3x224x224 (repeatable)")
	f.StringArrayVar(&a.dims, "dim", nil, "fix a symbolic dimension: N=4 (repeatable)")
	f.IntVar(&a.threads, "threads", 1, "threads one run may use")
	f.StringVar(&a.planner, "planner", "", "memory planner: "+strings.Join(berth.Planners(), ", ")+" (default "+berth.DefaultPlanner()+")")
	f.StringVar(&a.schedule, "schedule", "", "execution order: "+strings.Join(berth.Schedules(), ", ")+" (default "+berth.Schedules()[0]+")")
	f.Int64Var(&a.seed, "seed", 0, "seed of random inputs")
	f.BoolVar(&a.check, "check", false, "verify the graph after every pass")
	f.StringVar(&a.dumpFile, "dump", "", "write an HTML page with the graph after every pass")
	for _, cmd := range []*cobra.Command{a.optimizeCmd(), a.runCmd(), a.verifyCmd(), a.compareCmd(), a.inspectCmd(), a.benchCmd(), a.diffCmd(), a.modelsCmd()} {
		root.AddCommand(cmd)
	}
	return root
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

// options turns the shared flags into options of the library.
func (a *app) options() ([]berth.Option, error) {
	opts := []berth.Option{berth.WithThreads(a.threads), berth.WithPlanner(a.planner), berth.WithSchedule(a.schedule)}
	if !contains(append(berth.Planners(), "", "all"), a.planner) {
		return nil, usagef("there is no planner %q; there are %s", a.planner, strings.Join(berth.Planners(), ", "))
	}
	if !contains(append(berth.Schedules(), ""), a.schedule) {
		return nil, usagef("there is no schedule %q; there are %s", a.schedule, strings.Join(berth.Schedules(), ", "))
	}
	if a.threads < 1 {
		return nil, usagef("--threads must be at least 1")
	}
	if a.check {
		opts = append(opts, berth.WithCheck())
	}
	if a.dumpFile != "" {
		a.dump = &rewrite.Dump{}
		opts = append(opts, berth.WithDump(a.dump))
	}
	for _, s := range a.shapes {
		name, shape, err := parseShape(s)
		if err != nil {
			return nil, err
		}
		opts = append(opts, berth.WithShape(name, shape...))
	}
	for _, d := range a.dims {
		name, num, ok := strings.Cut(d, "=")
		n, err := strconv.ParseInt(num, 10, 64)
		if !ok || err != nil || n < 0 {
			return nil, usagef("--dim %q: want NAME=NUMBER", d)
		}
		opts = append(opts, berth.WithDim(name, n))
	}
	return opts, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// parseShape reads NAME=1x3x224x224 or NAME:1,3,224,224. Names may contain the
// separators: the last one that is followed by a shape counts.
func parseShape(s string) (name string, shape []int, err error) {
	for _, sep := range []string{"=", ":"} {
		i := strings.LastIndex(s, sep)
		if i <= 0 {
			continue
		}
		shape = []int{}
		ok := true
		for _, part := range strings.FieldsFunc(s[i+1:], func(r rune) bool { return r == 'x' || r == ',' || r == 'X' }) {
			n, err := strconv.Atoi(strings.TrimSpace(part))
			ok = ok && err == nil && n >= 0
			shape = append(shape, n)
		}
		if ok {
			return s[:i], shape, nil
		}
	}
	return "", nil, usagef("--shape %q: want NAME=1x3x224x224", s)
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
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.errOut, format+"\n", args...) }

func (a *app) writeDump() error {
	if a.dump == nil {
		return nil
	}
	return writeFile(a.dumpFile, func(w io.Writer) error { return a.dump.WriteHTML(w) })
}

// writeFile writes a file under a temporary name and renames it when complete.
func writeFile(path string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(dirOf(path), ".berth-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := fill(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
