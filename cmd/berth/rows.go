package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// planRow is one row of a comparison, in every form it is printed in.
type planRow struct {
	berth.PlanRow
	ProgramBytes int64 // arena of the compiled program that ran
	WrittenBytes int64 // how far the run wrote into it
	Outputs      string
	Differ       bool // Outputs says how
	RunErr       error
	Fits         *bool // whether the arena keeps the capacity asked for

	Machine   bool // a machine of Gorgonia, measured: no plan to look at
	LiveBytes int64
	RunNanos  int64
}

type planRows []planRow

func newRows(rows []berth.PlanRow) planRows {
	out := make(planRows, len(rows))
	for i, r := range rows {
		out[i].PlanRow = r
	}
	return out
}

// noneRan is the error of rows of which some were run and none could be.
func (rows planRows) noneRan() (err error) {
	for i := range rows {
		switch r := &rows[i]; {
		case r.Outputs != "":
			return nil
		case r.RunErr != nil && err == nil:
			err = fmt.Errorf("no plan could be run: %w", r.RunErr)
		}
	}
	return err
}

// column is one fact of a row: a field of JSON and CSV, a column of the tables, or both.
type column struct {
	key   string // of JSON and CSV; "" where only tables have it
	value func(r *planRow) any
	some  bool // JSON leaves it out where it is zero, and always where there is none (nil)

	head   string // in tables; "" where only JSON and CSV have it
	at     int    // from left to right
	text   func(r *planRow) string
	right  bool
	shown  func(s shown) bool // nil: always
	failed bool               // rows of plans that failed have it, too

	machine bool // rows of machines have it, too
}

// columns lists the facts of a row in the order of JSON and CSV, where new ones come last.
var columns = []column{
	{key: "planner", value: func(r *planRow) any { return r.Planner }, head: "planner", at: 1, failed: true, machine: true},
	{key: "schedule", value: func(r *planRow) any { return r.Schedule }, head: "order", at: 2, shown: ofModel, failed: true},
	{key: "arena_bytes", value: func(r *planRow) any { return r.ArenaBytes }, head: "bytes", at: 5, right: true},
	{head: "arena", at: 4, text: func(r *planRow) string { return bytesText(r.ArenaBytes) }, right: true},
	{key: "scratch_bytes", value: func(r *planRow) any { return r.Scratch }},
	{key: "lower_bound_bytes", value: func(r *planRow) any { return r.LowerBound },
		head: "over bound", at: 6, text: func(r *planRow) string { return r.gapText(r.LowerBound) }, right: true},
	{key: "proven", value: func(r *planRow) any { return r.Proven }, head: "proven", at: 8, text: func(r *planRow) string { return word(r.Proven, "optimal", "") }},
	{key: "plan_ns", value: func(r *planRow) any { return r.PlanNanos }, head: "plan time", at: 10, text: func(r *planRow) string { return durationText(r.PlanNanos) }, right: true},
	{key: "loop_copy_bytes_per_iteration", value: func(r *planRow) any { return r.LoopCopyBytes },
		head: "copied/trip", at: 11, text: func(r *planRow) string { return word(r.Rule, "-", fmt.Sprint(r.LoopCopyBytes)) }, right: true, shown: ofModel},
	{key: "parallel_safe", value: func(r *planRow) any { return r.ParallelSafe },
		head: "any order", at: 12, text: func(r *planRow) string { return word(r.Rule, "-", word(r.ParallelSafe, "safe", "")) }, shown: ofModel},
	{key: "dynamic_values", value: func(r *planRow) any { return r.Dynamic }},
	{key: "error", value: func(r *planRow) any { return errorText(r.Err) }, machine: true},
	{key: "run_error", value: func(r *planRow) any { return errorText(r.RunErr) }, some: true},
	{key: "outputs", value: func(r *planRow) any { return r.Outputs }, some: true, machine: true},
	{key: "measured_bytes", value: func(r *planRow) any { return r.WrittenBytes }, some: true,
		head: "written", at: 14, text: func(r *planRow) string { return dash(r.WrittenBytes, bytesText) }, right: true, shown: func(s shown) bool { return s.run }},
	{key: "program_bytes", value: func(r *planRow) any { return r.ProgramBytes }, some: true,
		head: "program", at: 13, text: func(r *planRow) string { return dash(r.ProgramBytes, bytesText) }, right: true, shown: func(s shown) bool { return s.run || s.machines }, machine: true},
	{key: "in_place", value: func(r *planRow) any { return r.InPlace },
		head: "in place", at: 3, text: func(r *planRow) string { return word(r.InPlace, "on", "off") }, shown: func(s shown) bool { return s.inPlace || s.rules }, failed: true},
	{key: "cut", value: func(r *planRow) any { return r.Cut }},
	{key: "buffers", value: func(r *planRow) any { return r.Buffers }},
	{key: "unsound", value: func(r *planRow) any { return r.Unsound }, some: true},
	{key: "plan_by", value: func(r *planRow) any { return r.By }},
	{key: "order_bound_bytes", value: func(r *planRow) any { return r.OrderBound },
		head: "over all orders", at: 7, text: func(r *planRow) string { return r.gapText(r.OrderBound) }, right: true, shown: func(s shown) bool { return s.ordered }},
	{key: "fits", value: func(r *planRow) any { return r.fits() },
		head: "fits", at: 9, text: func(r *planRow) string { return word(r.Fits != nil && *r.Fits, "yes", "no") }, shown: func(s shown) bool { return s.capacity }},
	{key: "live_bytes", value: func(r *planRow) any { return r.LiveBytes }, some: true,
		head: "live", at: 15, text: func(r *planRow) string { return dash(r.LiveBytes, bytesText) }, right: true, shown: func(s shown) bool { return s.machines }, machine: true},
	{key: "run_ns", value: func(r *planRow) any { return r.RunNanos }, some: true,
		head: "run", at: 16, text: func(r *planRow) string { return dash(r.RunNanos, durationText) }, right: true, shown: func(s shown) bool { return s.machines }, machine: true},
	{key: "backend", value: func(r *planRow) any { return r.Backend }, some: true},
	{head: "note", at: 17, text: noteText, failed: true, machine: true},
}

// shown selects the columns and notes of a table beyond the usual ones.
type shown struct {
	instance bool // no order, nothing in place, no loops
	inPlace  bool
	capacity bool
	run      bool
	rules    bool
	machines bool
	moved    bool // the default order is not the file's
	ordered  bool // some row has a bound over all orders
	budget   time.Duration
	advice   string // on values without a size
}

func ofModel(s shown) bool { return !s.instance }

// fits is nil where no capacity was asked for.
func (r *planRow) fits() any {
	if r.Fits == nil {
		return nil
	}
	return *r.Fits
}

// of is the fact of a row; nil where the row has none.
func (c *column) of(r *planRow) any {
	if r.Machine && !c.machine {
		return nil
	}
	return c.value(r)
}

// MarshalJSON gives the row's fields in the order of the columns.
func (r planRow) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	sep := "{"
	for _, c := range columns {
		if c.key == "" {
			continue
		}
		v := c.of(&r)
		if v == nil || c.some && reflect.ValueOf(v).IsZero() {
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s%q:%s", sep, c.key, b)
		sep = ","
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// csv prints the fields of the JSON form, one row per plan.
func (rows planRows) csv(out io.Writer, from *origin) error {
	w := csv.NewWriter(out)
	header := []string{"model"}
	for _, c := range columns {
		if c.key != "" {
			header = append(header, c.key)
		}
	}
	_ = w.Write(append(header, originFields...)) // w keeps the first error
	for i := range rows {
		line := []string{plain(from.Model)}
		for _, c := range columns {
			if c.key == "" {
				continue
			}
			if v := c.of(&rows[i]); v != nil {
				line = append(line, plain(fmt.Sprint(v)))
			} else {
				line = append(line, "")
			}
		}
		_ = w.Write(append(line, from.values()...))
	}
	w.Flush()
	return w.Error()
}

// table is the form for people.
func (rows planRows) table(w io.Writer, s shown) table.Writer {
	cols := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.head == "" || c.shown != nil && !c.shown(s) })
	slices.SortFunc(cols, func(a, b column) int { return cmp.Compare(a.at, b.at) })
	var header, right = []any{}, []int{}
	for i, c := range cols {
		header = append(header, c.head)
		if c.right {
			right = append(right, i+1)
		}
	}
	t := newTable(w, header...)
	alignRight(t, right...)
	for i := range rows {
		var line []any
		for _, c := range cols {
			line = append(line, c.cell(&rows[i]))
		}
		t.AppendRow(line)
	}
	return t
}

// cell is what a table says in a row.
func (c *column) cell(r *planRow) string {
	switch {
	case r.Err != nil && !c.failed, r.Machine && !c.machine:
		return word(c.right, "-", "")
	case c.text == nil:
		return fmt.Sprint(c.value(r))
	}
	return c.text(r)
}

// unsizedText says what figures leave out, and what makes it known.
func unsizedText(values int, advice string) string {
	return fmt.Sprintf("%d values have a size that is known only while running: they are not in these figures%s.", values, advice)
}

// sizeAdvice says which flags make the shapes of inputs known that are open; "" if none is.
func (a *app) sizeAdvice(m *berth.Model, have map[string]ndarray.Value) string {
	for _, p := range m.Inputs() {
		if _, known := p.Type.Bind(a.dims).Static(); known || have[p.Name] != nil || a.shapes[p.Name] != nil {
			continue
		}
		if a.data == "" {
			return "; give shapes with --shape, --dim or --data"
		}
		return "; give shapes with --shape or --dim"
	}
	return ""
}

// print prints the table for people and explains it.
func (rows planRows) print(w io.Writer, s shown) {
	rows.table(w, s).Render()
	dynamic, cut := 0, false
	for _, r := range rows {
		dynamic = max(dynamic, r.Dynamic)
		cut = cut || r.Cut
	}
	if dynamic > 0 {
		fmt.Fprintln(w, unsizedText(dynamic, s.advice))
	}
	if s.ordered {
		fmt.Fprintln(w, "over bound: above what this order needs at least; over all orders: above what no order of the nodes can do without.")
	}
	if s.moved {
		fmt.Fprintln(w, "The nodes are in an order that needs less than the file's; --schedule file plans that one, --schedule all every order.")
	}
	if cut {
		fmt.Fprintf(w, "cut: the planner was not done after %v (--budget); the best plan found until then, verified like the others.\n", s.budget)
	}
	if s.run {
		fmt.Fprintln(w, "program: the arena of the compiled program, operators fused, kernels' workspace included; written: how far one run wrote into it.")
	}
	if len(rows) > 0 && rows[0].Backend != "" {
		fmt.Fprintf(w, "%s: the arena on the device, of the program that runs there: operators joined in kernels, workspaces included. Inputs, weights and\n", rows[0].Backend)
		fmt.Fprintln(w, "memory for copies to the host are beside it.")
	}
	if s.machines {
		fmt.Fprintln(w, "gorgonia:… is the model as an expression graph. live: what a machine keeps reachable on the heap beyond inputs and weights, at")
		fmt.Fprintln(w, "most; program: its planned arena; run: the fastest pass. planned reads weights where tapeMachine does, planned-constants packs them.")
	}
	if s.rules {
		fmt.Fprintln(w, "rules of other tools, as published, on this graph and order; the tools themselves rewrite and reorder first:")
		for _, r := range berth.Rules() {
			fmt.Fprintf(w, "  %s\n    %s.\n    Source: %s.\n", r.Name, r.Doc, r.Source)
		}
	}
}

func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// gapText is how far the arena is above a bound, if there is one and no value is left out.
func (r *planRow) gapText(bound int64) string {
	if bound <= 0 || r.Dynamic > 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(r.ArenaBytes-bound)/float64(bound))
}

// noteText lists remarks on a row: errors, that a planner was stopped early and which planner its plan is from, the value
// that a rule's plan overwrites, the outcome of the run.
func noteText(r *planRow) string {
	cut, unsound := "", ""
	if r.Cut {
		cut = "cut" + word(r.By == "", "", ", plan of "+r.By)
	}
	if r.Unsound != "" {
		unsound = "unsound: " + r.Unsound
	}
	notes := []string{errorText(r.Err), cut, unsound, r.Outputs, errorText(r.RunErr)}
	return strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "; ")
}
