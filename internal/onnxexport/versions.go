package onnxexport

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// NewestOpset is the newest version of the default operator set.
const NewestOpset = 28

// builtOpset is the default operator set of modules that were not imported.
const builtOpset = 13

// opsetChoice finds the operator set of each domain.
type opsetChoice struct {
	order   []string // domains, imported ones first
	version map[string]int
	by      map[string]string // the node that asked for the version
	why     map[string]error  // why it has no older form; nil without rules
	pin     map[string]int    // version that opaque nodes were written for
	pinBy   map[string]string
}

// chooseOpsets finds, per domain, the imported version in which every node can be
// written, some by an older form ([ops.DowngradeTo]), or else the first one after it. It
// returns the module with the nodes in these forms; the one given is unchanged.
//
//	13: ReduceMean(x, axes)    has an older form     ReduceMean(x; axes)      13
//	13: LayerNormalization     has none              needs 17                 17
//	17: ReduceMean(x, axes)    has an older form     ReduceMean(x; axes)      17
func chooseOpsets(ctx context.Context, m *ssa.Module) (*ssa.Module, *opsetChoice, error) {
	c := newOpsetChoice(m)
	for {
		old, err := m.Graph, error(nil)
		if c.anyNewer(ctx, m.Graph) {
			old, _, err = m.Graph.CloneContext(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
		raised, err := c.lower(ctx, old)
		if err != nil {
			return nil, nil, err
		}
		if raised {
			continue
		}
		out := *m
		out.Graph = old
		return &out, c, c.pins(ctx, old)
	}
}

func newOpsetChoice(m *ssa.Module) *opsetChoice {
	c := &opsetChoice{version: map[string]int{}, by: map[string]string{}, why: map[string]error{}, pin: map[string]int{}, pinBy: map[string]string{}}
	for _, o := range m.Opsets {
		c.need(o.Domain, o.Version, "the imported model")
	}
	if len(m.Opsets) == 0 {
		c.need("", builtOpset, "")
	}
	return c
}

// anyNewer reports whether some node is not written in the versions chosen as it is. What it says is of no use once the context has ended.
func (c *opsetChoice) anyNewer(ctx context.Context, g *ssa.Graph) (newer bool) {
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			if newer || ctx.Err() != nil {
				return
			}
			o := ops.Of(n)
			newer = o != nil && n.Version == 0 && o.Oldest(n) > c.version[n.Domain]
		}
	})
	return newer
}

// lower writes the nodes of a graph in the versions chosen. It reports whether one of them
// could not be, and raises the version then.
func (c *opsetChoice) lower(ctx context.Context, g *ssa.Graph) (raised bool, err error) {
	g.Walk(func(g *ssa.Graph) {
		for i := 0; i < len(g.Nodes) && err == nil; {
			if err = ctx.Err(); err != nil {
				return
			}
			n, count := g.Nodes[i], len(g.Nodes)
			o := ops.Of(n)
			if o == nil && !n.Opaque {
				err = &ExportError{Node: n.String(), Reason: "the operator has no standard form"}
			}
			if o != nil && n.Version == 0 {
				raised = c.lowerNode(g, n, o.Oldest(n)) || raised
			}
			if len(g.Nodes) == count {
				i++
			} // else the nodes that a rule put before this one are next
		}
	})
	return raised, err
}

// lowerNode writes one node in the version chosen, or raises that to the first one after it that has a form of the node.
func (c *opsetChoice) lowerNode(g *ssa.Graph, n *ssa.Node, oldest int) (raised bool) {
	if _, known := c.version[n.Domain]; !known {
		c.need(n.Domain, oldest, n.String())
	}
	domain, name, first := n.Domain, n.String(), c.version[n.Domain]+1
	for first < oldest && !ops.FitsIn(n, first) {
		first++
	}
	if why := ops.DowngradeTo(g, n, c.version[domain]); why != nil {
		c.need(domain, first, name)
		c.why[domain] = why
		return true
	}
	return false
}

func (c *opsetChoice) need(domain string, version int, by string) {
	old, known := c.version[domain]
	if !known {
		c.order = append(c.order, domain)
	}
	if version > old {
		c.version[domain], c.by[domain] = version, by
	}
}

// pins finds the versions that unknown operators, and nodes in older forms, were written
// for, and checks that they are those chosen.
func (c *opsetChoice) pins(ctx context.Context, g *ssa.Graph) (err error) {
	g.Walk(func(g *ssa.Graph) {
		err = cmp.Or(err, ctx.Err())
		for _, n := range g.Nodes {
			if o := ops.Of(n); err == nil && (o == nil || n.Version > 0) {
				err = c.pinned(n)
			}
		}
	})
	if err != nil {
		return err
	}
	return c.checkPins()
}

func (c *opsetChoice) pinned(n *ssa.Node) error {
	v := max(n.Version, 1)
	if old, ok := c.pin[n.Domain]; ok && old != v {
		return c.conflict(n.Domain, fmt.Sprintf("%s was written for version %d and %s for version %d", n, v, c.pinBy[n.Domain], old))
	}
	c.pin[n.Domain], c.pinBy[n.Domain] = v, n.String()
	c.need(n.Domain, v, n.String())
	return nil
}

// checkPins checks that the version chosen for each domain is the one its opaque nodes were written for.
func (c *opsetChoice) checkPins() error {
	for _, d := range c.order {
		if pin, ok := c.pin[d]; ok && pin != c.version[d] {
			return c.conflict(d, fmt.Sprintf("%s is not known and was written for version %d, but %s needs version %d", c.pinBy[d], pin, c.by[d], c.version[d]))
		}
	}
	return nil
}

// Raised says what a file will import.
type Raised struct {
	Version int    // of the default operator set
	Node    string // that has no form of the version that the module imports; "" if all have
	Why     error  // may be nil
}

// Opset returns the version of the default operator set in which a module is written.
func Opset(ctx context.Context, m *ssa.Module) (r Raised, err error) {
	_, c, err := chooseOpsets(ctx, m)
	if err != nil {
		return r, err
	}
	if r.Version = c.version[""]; r.Version > m.OpsetVersion("") {
		r.Node, r.Why = c.by[""], c.why[""]
	}
	return r, nil
}

// Above is the error of a module that needs a version above most.
func (r Raised) Above(most int) error {
	reason := fmt.Sprintf("needs version %d of the operator set, at most %d is allowed", r.Version, most)
	if r.Why != nil {
		reason += ": " + r.Why.Error()
	}
	return &ExportError{Node: r.Node, Reason: reason, Remedy: fmt.Sprintf("allow version %d", r.Version), Err: r.Why}
}

func (c *opsetChoice) conflict(domain, what string) error {
	if domain == "" {
		domain = "ai.onnx"
	}
	return &ExportError{Reason: fmt.Sprintf("no single version of operator set %q fits: %s", domain, what),
		Remedy: "a newer berth may know the operator"}
}

// allows reports whether the default domain has a node that the exporter would like to add.
func (c *opsetChoice) allows(version int) bool { return version <= c.version[""] }

// require raises the default domain to a version for a node that the exporter has to add,
// unless nodes that were written for an older one are there.
func (c *opsetChoice) require(version int, by string) {
	if _, pinned := c.pin[""]; !pinned {
		c.need("", version, by)
	}
}

func (c *opsetChoice) imports() []*onnxwire.OperatorSetID {
	out := make([]*onnxwire.OperatorSetID, len(c.order))
	for i, d := range c.order {
		out[i] = &onnxwire.OperatorSetID{Domain: d, Version: int64(c.version[d])}
		if d == "" {
			out[i].Extra.Explicit = 1 << 1 // the empty name of the default domain is spelled out, as everyone does
		}
	}
	return out
}

// irOfOpset lists the first version of the default operator set that came with
// each IR version: https://github.com/onnx/onnx/blob/main/docs/Versioning.md
var irOfOpset = []struct{ opset, ir int }{
	{1, 3}, {9, 4}, {10, 5}, {11, 6}, {12, 7}, {15, 8}, {19, 9}, {21, 10}, {23, 11}, {24, 12}, {25, 13}, {28, 14},
}

// irOfMLOpset is the same for ai.onnx.ml.
var irOfMLOpset = []struct{ opset, ir int }{{1, 3}, {2, 6}, {3, 8}, {4, 9}, {5, 10}}

// irOfDType is the first IR version that has an element type.
var irOfDType = map[ndarray.DType]int{
	ndarray.BFloat16: 4, ndarray.Float8E4M3FN: 9, ndarray.Float8E4M3FNUZ: 9, ndarray.Float8E5M2: 9, ndarray.Float8E5M2FNUZ: 9,
	ndarray.Uint4: 10, ndarray.Int4: 10, ndarray.Float4E2M1: 11, ndarray.Float8E8M0: 12, ndarray.Uint2: 13, ndarray.Int2: 13,
	ndarray.Float6E2M3: 14, ndarray.Float6E3M2: 14,
}

// irVersion returns the smallest IR version, from the imported one on, that has
// everything the model uses. Version 4 lets initializers be no inputs.
func (x *exporter) irVersion() int64 {
	ir := max(int(x.mod.IR), 4)
	raise := func(domain string, table []struct{ opset, ir int }) {
		v, used := x.opsets.version[domain]
		for _, row := range table {
			if used && v >= row.opset {
				ir = max(ir, row.ir)
			}
		}
	}
	raise("", irOfOpset)
	raise("ai.onnx.ml", irOfMLOpset)
	x.mod.Graph.Walk(func(g *ssa.Graph) {
		for i, v := range g.Values() {
			if ended(x.opts.Context, i) {
				return
			}
			for t := &v.Type; t != nil; t = t.Elem {
				ir = max(ir, irOfDType[t.DType])
			}
		}
	})
	return int64(ir)
}
