package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/npy"
	"github.com/berth-onnx/berth/internal/onnxruntime"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// bench --compare ort: the same model with the same inputs and threads in ONNX Runtime. Rounds alternate, so that a ratio holds on a
// busy machine where a time does not.

// compareJSON is what --compare adds. Ratios are berth's by the other's.
type compareJSON struct {
	Runtime   string  `json:"runtime"`
	Version   string  `json:"version"`
	Threads   int     `json:"threads"`
	Rounds    int     `json:"rounds"`
	Ours      int64   `json:"berth_median_ns"`
	Theirs    int64   `json:"median_ns"`
	TheirMin  int64   `json:"min_ns"`
	TheirRuns int     `json:"runs"`
	Ratio     float64 `json:"ratio"`

	TheirLoad int64   `json:"load_ns"`
	LoadRatio float64 `json:"load_ratio"`
	OurRSS    int64   `json:"berth_rss_bytes"` // largest resident size above that when the model was opened
	TheirRSS  int64   `json:"rss_bytes"`
	RSSRatio  float64 `json:"rss_ratio"`

	// Sums of nodes, and of those in rows with nodes of both sides.
	OurNodes     int64        `json:"berth_nodes_ns"`
	TheirNodes   int64        `json:"nodes_ns"`
	OurMatched   int64        `json:"berth_matched_ns"`
	TheirMatched int64        `json:"matched_ns"`
	Rows         []compareRow `json:"rows"`

	Errors []errorRow `json:"errors,omitempty"` // with --errors, by output
}

// errorRow is how far an output of both is from that of the model in float64, relative to the largest magnitude there. Ratios are 0
// where the other's distance is.
type errorRow struct {
	Output   string `json:"output"`
	Scale    number `json:"scale"`
	Ours     number `json:"berth_max"`
	OurRMS   number `json:"berth_rms"`
	Theirs   number `json:"max"`
	TheirRMS number `json:"rms"`
	Ratio    number `json:"ratio_max"`
	RatioRMS number `json:"ratio_rms"`
}

// compareRow is what nodes of both sides compute together; one of the lists is empty where nothing corresponds.
type compareRow struct {
	File    []string `json:"file"`  // nodes of the file
	Ours    []string `json:"berth"` // nodes of the program
	Theirs  []string `json:"ort"`
	OurNs   int64    `json:"berth_ns"`
	TheirNs int64    `json:"ort_ns"`
	Ratio   float64  `json:"ratio"` // 0 where one side has no node
}

// rival is a comparison that goes on.
type rival struct {
	p      *onnxruntime.Process
	dir    string
	remove func() // the folder
	errors bool   // outputs are compared with float64
}

func (r *rival) Close() {
	if r != nil {
		r.p.Close()
		r.remove()
	}
}

// startRival starts what --compare names; nil without the flag.
func (a *app) startRival(ctx context.Context, f benchFlags) (*rival, error) {
	if f.compare == "" {
		return nil, nil
	}
	p, err := onnxruntime.Start(ctx, cmp.Or(f.python, "python3"))
	if err != nil {
		return nil, err
	}
	dir, remove, err := a.temporary.make(ctx)
	if err != nil {
		p.Close()
		return nil, err
	}
	return &rival{p, dir, remove, f.errors}, nil
}

// checkCompare refuses flags that make no sense.
func (f benchFlags) checkCompare() error {
	if f.compare != "" && f.compare != "ort" {
		return usagef("--compare %s is not ort", f.compare)
	}
	return nil
}

// compareRounds is how often the two take turns.
const compareRounds = 5

// settle is how long a runtime's threads may wait for work before they give their cores up.
const settle = 20 * time.Millisecond

// subject is what is compared.
type subject struct {
	model string
	m     *berth.Model
	sess  *berth.Session
	args  []ndarray.Value // by input of the model
}

// compareWith times both in turns, then node by node.
func (a *app) compareWith(ctx context.Context, r *rival, x subject, seconds float64, res *benchJSON) error {
	c := &compareJSON{Runtime: "ONNX Runtime", Version: r.p.Version, Threads: a.threads, Rounds: compareRounds}
	opened, err := a.openRival(ctx, r, x)
	if err != nil {
		return err
	}
	var ours, theirs []int64
	var peak int64
	for range compareRounds {
		var one benchJSON
		if err := a.timeRuns(ctx, x.sess, x.args, seconds/compareRounds, &one); err != nil {
			return err
		}
		ours = append(ours, one.MedianNanos)
		t, err := r.p.Time(seconds / compareRounds)
		if err != nil {
			return err
		}
		slices.Sort(t.Nanos)
		theirs, peak = append(theirs, t.Nanos[len(t.Nanos)/2]), t.PeakRSS
		c.TheirRuns += len(t.Nanos)
		if c.TheirMin == 0 || t.Nanos[0] < c.TheirMin {
			c.TheirMin = t.Nanos[0]
		}
		time.Sleep(settle)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	c.Ours, c.Theirs = ours[len(ours)/2], theirs[len(theirs)/2]
	c.TheirLoad, c.OurRSS, c.TheirRSS = opened.LoadNanos, res.grownRSS, peak-opened.StartRSS
	c.Ratio, c.LoadRatio, c.RSSRatio = quotient(c.Ours, c.Theirs), quotient(res.LoadNanos, c.TheirLoad), quotient(c.OurRSS, c.TheirRSS)
	res.Compare = c
	if r.errors {
		if c.Errors, err = a.compareErrors(ctx, r, x); err != nil {
			return err
		}
	}
	return a.compareNodes(ctx, r, x, res)
}

// compareErrors runs both once more, and the model in float64 on reference kernels as the file has it, and measures outputs of floats.
func (a *app) compareErrors(ctx context.Context, r *rival, x subject) (rows []errorRow, err error) {
	files, err := r.p.Outputs()
	if err != nil {
		return nil, err
	}
	ours, err := x.sess.Run(ctx, x.args)
	if err != nil {
		return nil, err
	}
	exact, err := a.inFloat64(ctx, x)
	if err != nil {
		return nil, fmt.Errorf("the model in float64: %w", err)
	}
	for i, o := range x.m.Outputs() {
		our, is := ours[i].(*ndarray.Array)
		if !is || !our.DType.IsFloat() || files[o.Name] == "" {
			continue
		}
		their, err := readNumPy(a.memory.In(ctx), files[o.Name])
		if err != nil {
			return nil, err
		}
		row, err := errorsOf(o.Name, our, their, tensors(exact)[o.Name])
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// inFloat64 gives the outputs of the model with every float a float64.
func (a *app) inFloat64(ctx context.Context, x subject) (map[string]ndarray.Value, error) {
	w := widening{a.memory, ndarray.Float64, 0}
	in := map[string]ndarray.Value{}
	for i, v := range x.args {
		if v != nil {
			in[x.m.Inputs()[i].Name] = v
		}
	}
	in, err := w.all(in)
	if err != nil {
		return nil, err
	}
	wide := w.model(x.m)
	defer wide.Close()
	return wide.RunValues(ctx, in, append(a.limits(), berth.WithoutPasses(), berth.WithBackend("reference"))...)
}

func readNumPy(ctx context.Context, path string) (*ndarray.Array, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return npy.Read(ctx, f, s.Size(), nil)
}

func errorsOf(name string, our, their, exact *ndarray.Array) (row errorRow, err error) {
	o, ok1 := distanceOf(our, exact, exact)
	t, ok2 := distanceOf(their, exact, exact)
	if !ok1 || !ok2 {
		return row, fmt.Errorf("output %q has another shape or type in ONNX Runtime or in float64", name)
	}
	s := scaleOf(exact)
	by := func(x, y float64) number {
		if y == 0 {
			return 0
		}
		return number(x / y)
	}
	return errorRow{name, number(s), by(o.largest, s), by(o.mean, s), by(t.largest, s), by(t.mean, s), by(o.largest, t.largest), by(o.mean, t.mean)}, nil
}

func quotient(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// openRival opens the model there, with the inputs in files.
func (a *app) openRival(ctx context.Context, r *rival, x subject) (o onnxruntime.Opened, err error) {
	model := x.model
	if strings.HasPrefix(model, "builtin:") {
		model = filepath.Join(r.dir, "model.onnx")
		err = x.m.Save(model, berth.SaveOptions{Context: ctx, MaxMemory: int64(a.memory), Temporary: true})
	} else {
		model, err = filepath.Abs(model)
	}
	if err != nil {
		return o, err
	}
	inputs := map[string]string{}
	for i, v := range x.args {
		name := x.m.Inputs()[i].Name
		t, ok := v.(*ndarray.Array)
		if !ok || !npy.Holds(t.DType) {
			return o, fmt.Errorf("input %q is of a type that NumPy files do not hold, so ONNX Runtime can not be given it", name)
		}
		file := filepath.Join(r.dir, "input"+strconv.Itoa(len(inputs))+".npy")
		if err := safefile.Write(file, func(w io.Writer) error { return npy.Write(w, t) }); err != nil {
			return o, err
		}
		inputs[name] = file
	}
	return r.p.Open(model, r.dir, inputs, a.threads)
}

// compareNodes profiles both and sets nodes side by side.
func (a *app) compareNodes(ctx context.Context, r *rival, x subject, res *benchJSON) error {
	ours := benchJSON{Nodes: res.Nodes}
	if ours.Nodes == nil {
		if err := profile(ctx, x.sess, x.args, &ours); err != nil {
			return err
		}
	}
	theirs, err := r.p.Profile(2 * profileRuns)
	if err != nil {
		return err
	}
	res.Compare.match(fileNodes(x.m), programNodes(ours.Nodes), theirs)
	return nil
}

// fileNodes are the nodes of the model as it was read.
func fileNodes(m *berth.Model) (nodes []onnxruntime.Node) {
	m.Graph().Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			nodes = append(nodes, onnxruntime.Node{Name: n.Name, Op: n.Op, In: valueNames(n.In), Out: valueNames(n.Out)})
		}
	})
	return nodes
}

func valueNames(values []*ssa.Value) []string {
	names := make([]string, len(values))
	for i, v := range values {
		if v != nil {
			names[i] = v.Name
		}
	}
	return names
}

func programNodes(rows []nodeRow) (nodes []onnxruntime.Node) {
	for _, r := range rows {
		nodes = append(nodes, onnxruntime.Node{Name: r.Name, Op: r.Op, Nanos: r.Nanos, In: r.operands, Out: r.results})
	}
	return nodes
}

// match makes the rows, those that take longest first.
func (c *compareJSON) match(file, ours, theirs []onnxruntime.Node) {
	for _, m := range onnxruntime.Match(file, ours, theirs) {
		r := compareRow{File: []string{}, Ours: []string{}, Theirs: []string{}}
		for _, i := range m.File {
			r.File = append(r.File, strings.TrimSpace(file[i].Op+" "+cmp.Or(file[i].Name, firstOf(file[i].Out))))
		}
		for _, i := range m.One {
			r.Ours, r.OurNs = append(r.Ours, ours[i].Name), r.OurNs+ours[i].Nanos
		}
		for _, i := range m.Other {
			r.Theirs, r.TheirNs = append(r.Theirs, theirs[i].Op+" "+theirs[i].Name), r.TheirNs+theirs[i].Nanos
		}
		if m.Matched() {
			r.Ratio = quotient(r.OurNs, r.TheirNs)
			c.OurMatched, c.TheirMatched = c.OurMatched+r.OurNs, c.TheirMatched+r.TheirNs
		}
		c.OurNodes, c.TheirNodes = c.OurNodes+r.OurNs, c.TheirNodes+r.TheirNs
		c.Rows = append(c.Rows, r)
	}
	slices.SortStableFunc(c.Rows, func(a, b compareRow) int { return cmp.Compare(max(b.OurNs, b.TheirNs), max(a.OurNs, a.TheirNs)) })
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// printCompare prints the totals and the rows that take longest.
func (a *app) printCompare(r benchJSON) {
	c := r.Compare
	if c == nil {
		return
	}
	a.printf("\n")
	t := newTable(a.out, "", "berth", c.Runtime+" "+c.Version, "ratio")
	alignRight(t, 2, 3, 4)
	ratio := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	t.AppendRow([]any{"median of rounds", durationText(c.Ours), durationText(c.Theirs), ratio(c.Ratio)})
	t.AppendRow([]any{"load and compile", durationText(r.LoadNanos), durationText(c.TheirLoad), ratio(c.LoadRatio)})
	t.AppendRow([]any{"resident, above the start", bytesText(c.OurRSS), bytesText(c.TheirRSS), ratio(c.RSSRatio)})
	t.AppendRow([]any{"all nodes", durationText(c.OurNodes), durationText(c.TheirNodes), ratio(quotient(c.OurNodes, c.TheirNodes))})
	t.AppendRow([]any{"matched nodes", durationText(c.OurMatched), durationText(c.TheirMatched), ratio(quotient(c.OurMatched, c.TheirMatched))})
	t.Render()
	a.printErrors(c)
	a.printf("\n")
	const most, width = 30, 38
	const line = "%10s %10s %6s  %-38s  %s\n"
	a.printf(line, "berth", "ort", "ratio", "nodes of berth", "nodes of "+c.Runtime)
	for _, row := range c.Rows[:min(len(c.Rows), most)] {
		q := "-"
		if row.Ratio > 0 {
			q = ratio(row.Ratio)
		}
		a.printf(line, timeOrDash(row.OurNs, row.Ours), timeOrDash(row.TheirNs, row.Theirs), q, listText(row.Ours, width), listText(row.Theirs, 48))
	}
	if n := len(c.Rows) - most; n > 0 {
		a.printf("and %d rows more (--json has all)\n", n)
	}
}

func (a *app) printErrors(c *compareJSON) {
	if len(c.Errors) == 0 {
		return
	}
	a.printf("\n")
	t := newTable(a.out, "distance from float64", "berth, most", "root of mean square", "ort, most", "root of mean square", "ratio, most", "of means")
	alignRight(t, 2, 3, 4, 5, 6, 7)
	for _, e := range c.Errors {
		row := []any{shortened(plain(e.Output), 30)}
		for _, x := range []number{e.Ours, e.OurRMS, e.Theirs, e.TheirRMS} {
			row = append(row, fmt.Sprintf("%.2e", float64(x)))
		}
		t.AppendRow(append(row, fmt.Sprintf("%.2f", float64(e.Ratio)), fmt.Sprintf("%.2f", float64(e.RatioRMS))))
	}
	t.Render()
}

func timeOrDash(nanos int64, nodes []string) string {
	if len(nodes) == 0 {
		return "-"
	}
	return durationText(nanos)
}

// listText is the first of some names, and how many more there are.
func listText(names []string, most int) string {
	switch len(names) {
	case 0:
		return "-"
	case 1:
		return shortened(plain(names[0]), most)
	}
	more := fmt.Sprintf(" +%d", len(names)-1)
	return shortened(plain(names[0]), most-len(more)) + more
}
