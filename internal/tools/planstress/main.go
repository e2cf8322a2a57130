// Planstress plans random problems with every planner, verifies each plan, and closes with figures.
//
//	go run ./internal/tools/planstress -n 1000000 -seed 1
//
// The problems and the figures depend on -n, -seed and -kind alone, not on the machine or on how many problems are planned at a
// time. Progress goes to the standard error, the figures to the standard output. It ends with status 1 when
// anything was found wrong, 2 for a wrong command line; an interrupt ends it early with the figures so far and status 130.
//
//	-only INDEX  verifies one problem of the sequence and prints it, its plans and what is wrong with them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/berth-onnx/berth/internal/plannertest"
	"github.com/berth-onnx/berth/planner"
)

// settings are the command line.
type settings struct {
	n, seed  uint64
	kind     string
	workers  int
	only     int64
	progress io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is main with its surroundings as parameters; it returns the exit status.
func command(ctx context.Context, args []string, out, log io.Writer) int {
	s := settings{progress: log}
	flags := flag.NewFlagSet("planstress", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.Uint64Var(&s.n, "n", 10000, "how many problems")
	flags.Uint64Var(&s.seed, "seed", 1, "which sequence of problems")
	flags.StringVar(&s.kind, "kind", "", "only problems of this kind: "+strings.Join(plannertest.Kinds(), ", "))
	flags.IntVar(&s.workers, "workers", runtime.GOMAXPROCS(0), "how many problems at a time")
	flags.Int64Var(&s.only, "only", -1, "verify and print this problem of the sequence alone")
	flags.Usage = func() {
		fmt.Fprintln(log, "planstress plans random problems with every planner, verifies each plan, and closes with figures.")
		fmt.Fprintln(log, "usage: planstress [-n N] [-seed S] [-kind K] [-workers W] [-only INDEX]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if _, err := plannertest.Draw(s.seed, 0, s.kind); err != nil || flags.NArg() > 0 || s.workers < 1 {
		if err != nil {
			fmt.Fprintln(log, "planstress:", err)
		}
		flags.Usage()
		return 2
	}
	if s.only >= 0 {
		return showOne(&s, out)
	}
	t := run(ctx, &s)
	if err := t.write(out); err != nil {
		fmt.Fprintln(log, "planstress:", err)
		return 1
	}
	switch {
	case !t.clean():
		return 1
	case ctx.Err() != nil:
		return 130
	}
	return 0
}

// showOne prints one problem as an instance file with auto's offsets, then the height of every plan.
func showOne(s *settings, out io.Writer) int {
	c, err := plannertest.Draw(s.seed, uint64(s.only), s.kind)
	if err != nil {
		return 2
	}
	o := plannertest.Verify(context.Background(), &c)
	fmt.Fprintf(out, "kind %s, alignment of all %d, capacity %d\n", c.Kind, c.Problem.Align, c.Capacity)
	for i, b := range c.Problem.Buffers {
		fmt.Fprintf(out, "#%d size %d align %d life %d-%d", i, b.Size, b.Align, b.Lo, b.Hi)
		if c.Graph != nil {
			fmt.Fprintf(out, " heads %v tails %v", c.Graph.Lives[i].Heads, c.Graph.Lives[i].Tails)
		}
		if len(b.Holes) > 0 {
			fmt.Fprintf(out, " holes %v", b.Holes)
		}
		fmt.Fprintln(out)
	}
	if c.Graph != nil {
		fmt.Fprintf(out, "edges %v\n", c.Graph.Edges)
	}
	for m, name := range planner.Names() {
		fmt.Fprintf(out, "%s %d\n", name, o.Arena[m])
	}
	fmt.Fprintf(out, "lower bound %d\n", o.Low)
	if err := o.Err(); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	return 0
}
