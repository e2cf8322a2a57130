package plannertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/berth-onnx/berth/planner"
)

// Fault is what Verify can find wrong.
type Fault string

const (
	Failed  Fault = "planner failed"   // a planner answers with an error
	Invalid Fault = "invalid plan"     // planner.Validate, a schedule of the graph, or the windows say so
	Above   Fault = "auto above other" // auto needs more than another planner
	Bound   Fault = "wrong bound"      // a lower bound is above a plan, the optimum or a capacity that is known
	Order   Fault = "wrong order"      // the order's answers differ from the live ranges
	Brute   Fault = "below optimum"    // a plan is lower than what trying everything finds
)

// Faults lists all of them.
func Faults() []Fault { return []Fault{Failed, Invalid, Above, Bound, Order, Brute} }

// Finding is one fault with its particulars. It is an error.
type Finding struct {
	Fault   Fault
	Planner string
	Reason  string
}

func (f *Finding) Error() string { return fmt.Sprintf("%s: %s: %s", f.Fault, f.Planner, f.Reason) }

// Outcome is what became of one case.
type Outcome struct {
	Kind     string
	Buffers  int
	Arena    []int64 // of each planner, in the order of planner.Names; -1 where it failed
	Best     int64   // the least of them
	Low      int64   // auto's lower bound
	Tried    bool    // everything was tried: Best is compared with the optimum
	Known    bool    // a capacity is known
	Reached  bool    // and auto's plan keeps it
	Findings []*Finding
}

// Auto is the arena of auto, -1 if it failed.
func (o *Outcome) Auto() int64 { return o.Arena[len(o.Arena)-1] }

// Err joins the findings; nil when there are none.
func (o *Outcome) Err() error {
	var list []error
	for _, f := range o.Findings {
		list = append(list, f)
	}
	return errors.Join(list...)
}

func (o *Outcome) report(fault Fault, planner, format string, args ...any) {
	o.Findings = append(o.Findings, &Finding{fault, planner, fmt.Sprintf(format, args...)})
}

// VerifyProblem verifies a problem about which nothing else is known.
func VerifyProblem(ctx context.Context, p *planner.Problem) error {
	return Verify(ctx, &Case{Problem: p}).Err()
}

// Verify plans the problem with every planner in its default setting and says what is wrong.
func Verify(ctx context.Context, c *Case) *Outcome {
	o := &Outcome{Kind: c.Kind, Buffers: len(c.Problem.Buffers), Best: -1}
	low, by := int64(0), ""
	for _, name := range planner.Names() {
		s, err := plan(ctx, name, c.Problem)
		if err != nil {
			o.report(Failed, name, "%v", err)
			o.Arena = append(o.Arena, -1)
			continue
		}
		o.check(c, name, s)
		o.Arena = append(o.Arena, s.ArenaBytes)
		if o.Best < 0 || s.ArenaBytes < o.Best {
			o.Best = s.ArenaBytes
		}
		if s.LowerBound > low {
			low, by = s.LowerBound, name
		}
		o.Low = s.LowerBound
	}
	if low > o.Best {
		o.report(Bound, by, "%d bytes are claimed to be needed, but a plan of %d is there", low, o.Best)
	}
	if o.Auto() > o.Best && ctx.Err() == nil {
		o.report(Above, "auto", "%d bytes, the best has %d", o.Auto(), o.Best)
	}
	o.compare(c, low, by)
	return o
}

func plan(ctx context.Context, name string, p *planner.Problem) (*planner.Solution, error) {
	pl, err := planner.Get(name)
	if err != nil {
		return nil, err
	}
	return pl.Plan(ctx, p)
}

// schedules is in how many random orders of the nodes a plan for a partial order is tried.
const schedules = 3

// check verifies one plan by itself.
func (o *Outcome) check(c *Case, name string, s *planner.Solution) {
	if err := planner.Validate(c.Problem, s); err != nil {
		o.report(Invalid, name, "%v", err)
	}
	if reason := checkWindows(c.Problem, s); reason != "" {
		o.report(Invalid, name, "%s", reason)
	}
	if c.Graph != nil {
		r := rand.New(rand.NewPCG(uint64(s.ArenaBytes), uint64(len(s.Offsets))))
		for range schedules {
			if a, b := c.clash(s, c.Graph.schedule(r)); a >= 0 {
				o.report(Invalid, name, "buffers #%d and #%d share bytes and are alive together in a schedule", a, b)
				break
			}
		}
	}
}

// clash finds two buffers that share bytes and a step of the schedule, or returns -1.
func (c *Case) clash(s *planner.Solution, step []int) (int, int) {
	for a := range s.Offsets {
		aLo, aHi := c.Graph.span(a, step)
		for b := range a {
			x, y := s.Offsets[a], s.Offsets[b]
			if x >= y+c.Problem.Buffers[b].Size || y >= x+c.Problem.Buffers[a].Size || min(c.Problem.Buffers[a].Size, c.Problem.Buffers[b].Size) == 0 {
				continue
			}
			if bLo, bHi := c.Graph.span(b, step); aLo <= bHi && bLo <= aHi {
				return b, a
			}
		}
	}
	return -1, -1
}

// checkWindows says what is wrong with the windows of a plan that has any: they must not overlap, and every buffer
// lies in one.
func checkWindows(p *planner.Problem, s *planner.Solution) string {
	if len(s.Windows) == 0 {
		return ""
	}
	for k, w := range s.Windows {
		for _, v := range s.Windows[:k] {
			if w.Offset < v.Offset+v.Size && v.Offset < w.Offset+w.Size {
				return fmt.Sprintf("windows at %d and %d overlap", v.Offset, w.Offset)
			}
		}
	}
next:
	for i, off := range s.Offsets {
		b := &p.Buffers[i]
		if b.Size == 0 {
			continue
		}
		for _, w := range s.Windows {
			if w.Offset <= off && off+b.Size <= w.Offset+w.Size {
				continue next
			}
		}
		return fmt.Sprintf("buffer #%d at %d lies in no window", i, off)
	}
	return ""
}

// compare holds the bounds and the best plan against what is known: the live ranges, a capacity, and for few buffers the
// optimum. low is the highest of the lower bounds, claimed by a planner.
func (o *Outcome) compare(c *Case, low int64, by string) {
	if order := c.Problem.Order; order != nil && c.Graph != nil {
		for a, row := range c.Graph.conflicts() {
			for b, conflict := range row[:a] {
				if order.Interfere(a, b) != conflict {
					o.report(Order, "partial", "Interfere(%d, %d) is %v", a, b, !conflict)
				}
			}
		}
	}
	if o.Known = c.Capacity > 0; o.Known {
		o.Reached = o.Auto() <= c.Capacity
		if low > c.Capacity {
			o.report(Bound, by, "%d bytes are claimed to be needed, but there is a plan of %d", low, c.Capacity)
		}
	}
	if c.Problem.Order != nil && c.Graph == nil || o.Buffers > bruteLimit || o.Best < 0 {
		return
	}
	o.Tried = true
	if opt := c.Optimum(o.Best + 1); opt < o.Best {
		if low > opt {
			o.report(Bound, by, "%d bytes are claimed to be needed, but there is a plan of %d", low, opt)
		}
		o.report(Above, "auto", "%d bytes, the optimum is %d", o.Best, opt)
	} else if opt > o.Best {
		o.report(Brute, "all", "%d bytes, but trying everything finds none below %d", o.Best, opt)
	}
}
