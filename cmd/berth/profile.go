package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/roofline"
	"github.com/berth-onnx/berth/ndarray"
)

// Profiles: the time of every node, how its kernel computes it, and how near that is to what the machine reaches (package
// roofline). Operations and bytes are those that the operator's facts count.

// profileRow is the time of an operator or a node.
type profileRow struct {
	Name  string  `json:"name"`
	Nanos int64   `json:"ns"` // of a run, the median of several
	Share float64 `json:"share"`
	Count int     `json:"count"` // executions in a run
}

// nodeRow is a node of the program that ran.
type nodeRow struct {
	profileRow
	Op        string `json:"op"`
	Algorithm string `json:"algorithm"`
	Reason    string `json:"reason"`
	Layout    string `json:"layout"`
	Threads   int    `json:"threads"`

	// Work of a run, 0 where sizes are known only while running.
	FLOPs int64 `json:"flops"`
	Bytes int64 `json:"bytes"`

	GFLOPs float64 `json:"gflop_per_s"`
	GBs    float64 `json:"gb_per_s"`

	// Limit is what bounds the node, arithmetic or memory, and Fraction the least time that it allows by the time taken; "" and
	// 0 where that is not known.
	Limit    string  `json:"limit"`
	Fraction float64 `json:"limit_fraction"`

	ofBytes           bool
	operands, results []string
}

// limitsJSON is what a number of threads reaches on this machine.
type limitsJSON struct {
	Threads int          `json:"threads"`
	Level   string       `json:"level"`
	GFLOPs  float64      `json:"gflop_per_s"`    // on float32
	GOPs    float64      `json:"int8_gop_per_s"` // on bytes; 0 without instructions for them
	Memory  []memoryJSON `json:"memory"`
}

// memoryJSON is the speed of memory for a working set.
type memoryJSON struct {
	Bytes int64   `json:"bytes"`
	GBs   float64 `json:"gb_per_s"`
}

// timing collects what one operator or node took: the sum of its steps, run by run.
type timing struct {
	row   profileRow
	nanos []int64 // by run
}

// profiler times every instruction over several runs. A row's time is the median of the runs, so that a run which the system
// interrupted does not count.
type profiler struct {
	byOp, byNode map[string]*timing
	nodes        map[string]*nodeRow
	run          int
}

// profileRuns is over how many runs.
const profileRuns = 9

// profile adds the times of operators and nodes.
func profile(ctx context.Context, s *berth.Session, args []ndarray.Value, res *benchJSON) error {
	p := &profiler{byOp: map[string]*timing{}, byNode: map[string]*timing{}, nodes: map[string]*nodeRow{}}
	last := time.Now()
	s.Observe(func(step berth.Step, _ []ndarray.Value) {
		took := time.Since(last).Nanoseconds()
		if step.Kernel() {
			p.add(step, took)
		}
		last = time.Now()
	})
	defer s.Observe(nil)
	for ; p.run < profileRuns; p.run++ {
		last = time.Now()
		if _, err := s.Run(ctx, args); err != nil {
			return err
		}
	}
	res.Operators = rank(p.byOp, profileRuns)
	for _, r := range rank(p.byNode, profileRuns) {
		n := p.nodes[r.Name]
		n.profileRow = r
		n.GFLOPs, n.GBs = rate(n.FLOPs, r.Nanos), rate(n.Bytes, r.Nanos)
		res.Nodes = append(res.Nodes, *n)
	}
	return nil
}

// add counts one step.
func (p *profiler) add(step berth.Step, took int64) {
	name := step.Node()
	n := p.nodes[name]
	if n == nil {
		c, e := step.Choice(), step.Element()
		n = &nodeRow{Op: step.Op(), Algorithm: c.Algorithm, Reason: c.Reason, Layout: step.Layout(), Threads: step.Threads(),
			ofBytes:  e.IsByte() || strings.HasPrefix(step.Op(), "DynamicQuantize"), // by their ranges, in the run
			operands: step.Operands(), results: step.Results()}
		p.nodes[name] = n
	}
	if p.run == 0 {
		cost := step.Cost()
		n.FLOPs += cost.FLOPs
		n.Bytes += cost.Bytes
	}
	p.count(p.byOp, step.Op(), took)
	p.count(p.byNode, name, took)
}

func (p *profiler) count(m map[string]*timing, name string, took int64) {
	t := m[name]
	if t == nil {
		t = &timing{row: profileRow{Name: name}, nanos: make([]int64, profileRuns)}
		m[name] = t
	}
	t.nanos[p.run] += took
	t.row.Count++
}

// rate is so many a nanosecond, which is 10⁹ of them a second.
func rate(n, nanos int64) float64 { return float64(n) / float64(max(nanos, 1)) }

// rank lists the rows, the one with the largest median first.
func rank(m map[string]*timing, runs int) []profileRow {
	var total int64
	var out []profileRow
	for _, t := range m {
		slices.Sort(t.nanos)
		t.row.Nanos = t.nanos[len(t.nanos)/2]
		t.row.Count /= runs
		total += t.row.Nanos
		out = append(out, t.row)
	}
	for i := range out {
		out[i].Share = float64(out[i].Nanos) / float64(max(total, 1))
	}
	slices.SortFunc(out, func(a, b profileRow) int { return cmp.Or(cmp.Compare(b.Nanos, a.Nanos), cmp.Compare(a.Name, b.Name)) })
	return out
}

// holdAgainstLimits measures what the machine reaches with the threads that nodes use, and how near to it they come. Kernels of a
// device are not held against the host.
func (a *app) holdAgainstLimits(ctx context.Context, res *benchJSON) error {
	limits := map[int]*roofline.Limits{}
	for i := range res.Nodes {
		n := &res.Nodes[i]
		if n.Algorithm == "device" {
			continue
		}
		l := limits[n.Threads]
		if l == nil {
			var err error
			var full *berth.MemoryError
			if l, err = roofline.Measure(ctx, a.memory, n.Threads); errors.As(err, &full) {
				a.note("the limits of the machine are not measured: %v", err)
				return nil
			} else if err != nil {
				return err
			}
			limits[n.Threads] = l
			res.Limits = append(res.Limits, limitsOf(n.Threads, l))
		}
		// A node that runs several times in a run is held against the memory that one execution touches.
		times := int64(max(n.Count, 1))
		bound, limit := l.Bound(roofline.Work{Operations: n.FLOPs / times, OfBytes: n.ofBytes, Bytes: n.Bytes / times})
		n.Limit, n.Fraction = limit, bound*float64(times)/float64(max(n.Nanos, 1))
	}
	slices.SortFunc(res.Limits, func(a, b limitsJSON) int { return cmp.Compare(a.Threads, b.Threads) })
	return nil
}

func limitsOf(threads int, l *roofline.Limits) limitsJSON {
	out := limitsJSON{Threads: threads, Level: l.Level, GFLOPs: l.Floats / 1e9, GOPs: l.Bytes / 1e9}
	for _, s := range l.Memory {
		out.Memory = append(out.Memory, memoryJSON{s.Set, s.PerSecond / 1e9})
	}
	return out
}

// printProfile prints the tables of operators and nodes.
func (a *app) printProfile(r benchJSON) {
	if len(r.Nodes) == 0 {
		return
	}
	a.printf("\n")
	t := newTable(a.out, "operator", "time", "share", "count")
	alignRight(t, 2, 3, 4)
	for _, row := range r.Operators {
		t.AppendRow([]any{row.Name, durationText(row.Nanos), percentText(row.Share), row.Count})
	}
	t.Render()
	a.printf("\n")
	const most, nameWidth, lineWidth = 25, 44, 120
	const line = "%-44s %10s %6s %5s %8s %8s %10s  %s\n"
	a.printf(line, "node", "time", "share", "count", "GFLOP/s", "GB/s", "of limit", "layout")
	for _, n := range r.Nodes[:min(len(r.Nodes), most)] {
		of := "-"
		if n.Limit != "" {
			of = fmt.Sprintf("%.0f%% %s", 100*n.Fraction, map[string]string{roofline.Arithmetic: "flops", roofline.Memory: "bytes"}[n.Limit])
		}
		flops, bytes := "-", "-"
		if n.Bytes > 0 {
			flops, bytes = fmt.Sprintf("%.1f", n.GFLOPs), fmt.Sprintf("%.1f", n.GBs)
		}
		a.printf(line, shortened(plain(n.Name), nameWidth), durationText(n.Nanos), percentText(n.Share), fmt.Sprint(n.Count), flops, bytes, of, n.Layout)
		a.printf("%s\n", begun("    "+choiceText(n), lineWidth))
	}
	if n := len(r.Nodes) - most; n > 0 {
		a.printf("and %d nodes more (--json has all)\n", n)
	}
	for _, l := range r.Limits {
		first, last := l.Memory[0], l.Memory[len(l.Memory)-1]
		a.printf("limits, %s, threads: %d: %.0f GFLOP/s, bytes %.0f GOP/s; memory %.0f GB/s within %s, %.0f within %s\n",
			l.Level, l.Threads, l.GFLOPs, l.GOPs, first.GBs, bytesText(first.Bytes), last.GBs, bytesText(last.Bytes))
	}
}

// choiceText is a node's algorithm, and why.
func choiceText(n nodeRow) string {
	if n.Reason == "" {
		return n.Algorithm
	}
	return n.Algorithm + ": " + n.Reason
}

func percentText(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// shortened leaves out the middle of a text with more than so many characters.
func shortened(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r, half := []rune(s), (most-1)/2
	return string(r[:half]) + "…" + string(r[len(r)-(most-1-half):])
}

// begun is the beginning of a text with more than so many characters.
func begun(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
