package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/berth-onnx/berth/internal/plannertest"
	"github.com/berth-onnx/berth/planner"
)

// tally sums outcomes. Everything in it is a sum, a maximum with ties to the lower problem number, or a list sorted by it: tallies
// of parts of a run can be merged in any order.
type tally struct {
	problems, buffers int64
	largest           int
	kinds             map[string]kindTally
	members           []memberTally // by planner.Names
	faults            map[plannertest.Fault]int64
	tried             int64 // problems whose optimum was found by trying everything
	known, reached    int64 // problems made with a capacity, and those where auto's plan keeps it
	gap               worst // of auto's arena over its bound
	listed            []listing
}

type kindTally struct{ problems, proved int64 }

func (k kindTally) plus(l kindTally) kindTally {
	return kindTally{k.problems + l.problems, k.proved + l.proved}
}

// memberTally is how one planner compares with the best plan for each problem.
type memberTally struct {
	best  int64 // problems where it equals the best
	above int64 // sum of what it is above the best, in millionths of the best
	worst worst
}

// worst is the largest of some excess, in millionths, and the problem where it is found.
type worst struct {
	ppm   int64
	index uint64
}

func (w *worst) add(x worst) {
	if x.ppm > w.ppm || (x.ppm == w.ppm && x.index < w.index) {
		*w = x
	}
}

// listing is a problem with findings.
type listing struct {
	index uint64
	kind  string
	err   error
}

// listLimit is how many problems with findings are listed.
const listLimit = 20

func newTally() *tally {
	return &tally{kinds: map[string]kindTally{}, members: make([]memberTally, len(planner.Names())), faults: map[plannertest.Fault]int64{}}
}

// excess is (value - base) / base in millionths; base 0 stands for 1.
func excess(value, base int64) int64 { return (value - base) * 1e6 / max(base, 1) }

// add counts the outcome of one problem.
func (t *tally) add(index uint64, o *plannertest.Outcome) {
	t.problems++
	t.buffers += int64(o.Buffers)
	t.largest = max(t.largest, o.Buffers)
	t.kinds[o.Kind] = t.kinds[o.Kind].plus(kindTally{1, count(o.Auto() == o.Low)})
	t.gap.add(worst{excess(o.Auto(), o.Low), index})
	for m, arena := range o.Arena {
		if arena == o.Best {
			t.members[m].best++
		}
		x := excess(arena, o.Best)
		t.members[m].above += x
		t.members[m].worst.add(worst{x, index})
	}
	for _, f := range o.Findings {
		t.faults[f.Fault]++
	}
	if err := o.Err(); err != nil {
		t.list(listing{index, o.Kind, err})
	}
	t.tried += count(o.Tried)
	t.known += count(o.Known)
	t.reached += count(o.Reached)
}

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// list keeps the findings with the lowest problem numbers.
func (t *tally) list(l ...listing) {
	t.listed = append(t.listed, l...)
	slices.SortFunc(t.listed, func(a, b listing) int { return cmp.Compare(a.index, b.index) })
	t.listed = t.listed[:min(len(t.listed), listLimit)]
}

// merge adds the tally of another part of the run.
func (t *tally) merge(u *tally) {
	t.problems += u.problems
	t.buffers += u.buffers
	t.largest = max(t.largest, u.largest)
	for name, k := range u.kinds {
		t.kinds[name] = t.kinds[name].plus(k)
	}
	for m := range t.members {
		t.members[m].best += u.members[m].best
		t.members[m].above += u.members[m].above
		t.members[m].worst.add(u.members[m].worst)
	}
	for f, n := range u.faults {
		t.faults[f] += n
	}
	t.tried += u.tried
	t.known += u.known
	t.reached += u.reached
	t.gap.add(u.gap)
	t.list(u.listed...)
}

// clean reports whether nothing was found wrong.
func (t *tally) clean() bool { return len(t.faults) == 0 }

// write prints the closing figures.
func (t *tally) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "problems\t%d\t\n", t.problems)
	fmt.Fprintf(w, "buffers, mean\t%.2f\t\n", float64(t.buffers)/float64(max(t.problems, 1)))
	fmt.Fprintf(w, "buffers, most\t%d\t\n", t.largest)
	fmt.Fprintf(w, "plans verified\t%d\t\n", t.problems*int64(len(t.members)))
	for _, f := range plannertest.Faults() {
		fmt.Fprintf(w, "%s\t%d\t\n", f, t.faults[f])
	}
	fmt.Fprintf(w, "optimum tried by force\t%d\t\n", t.tried)
	fmt.Fprintf(w, "capacity known\t%d\t\n", t.known)
	fmt.Fprintf(w, "capacity kept by auto\t%d\t\n", t.reached)
	fmt.Fprintf(w, "largest gap of auto\t%.3f%%\tproblem %d\t\n", float64(t.gap.ppm)/1e4, t.gap.index)
	fmt.Fprintf(w, "\t\t\t\n")
	fmt.Fprintf(w, "kind\tproblems\tauto proved\t\t\n")
	all := kindTally{}
	for _, name := range slices.Sorted(maps.Keys(t.kinds)) {
		k := t.kinds[name]
		all = all.plus(k)
		fmt.Fprintf(w, "%s\t%d\t%d\t%.3f%%\t\n", name, k.problems, k.proved, percent(k.proved, k.problems))
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%.3f%%\t\n", all.problems, all.proved, percent(all.proved, all.problems))
	fmt.Fprintf(w, "\t\t\t\n")
	fmt.Fprintf(w, "planner\tequals the best\t\tmean above\tmost above\tproblem\t\n")
	for m, name := range planner.Names() {
		x := &t.members[m]
		fmt.Fprintf(w, "%s\t%d\t%.3f%%\t%.3f%%\t%.1f%%\t%d\t\n", name, x.best, percent(x.best, t.problems),
			float64(x.above)/1e4/float64(max(t.problems, 1)), float64(x.worst.ppm)/1e4, x.worst.index)
	}
	for _, l := range t.listed {
		fmt.Fprintf(w, "\t\t\t\nproblem %d (%s)\t%v\t\n", l.index, l.kind, l.err)
	}
	return w.Flush()
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
