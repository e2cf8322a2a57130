package onnxexport

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// builtOpset is the default operator set of modules that were not imported.
const builtOpset = 13

// opsetChoice finds the operator set of each domain.
type opsetChoice struct {
	order   []string // domains, imported ones first
	version map[string]int
	by      map[string]string // the node that asked for the version
	pin     map[string]int    // version that opaque nodes were written for
	pinBy   map[string]string
}

// chooseOpsets visits every node and takes, per domain, the maximum of the
// imported version and of what each node's form needs.
func chooseOpsets(m *ssa.Module) (*opsetChoice, error) {
	c := &opsetChoice{version: map[string]int{}, by: map[string]string{}, pin: map[string]int{}, pinBy: map[string]string{}}
	for _, o := range m.Opsets {
		c.need(o.Domain, o.Version, "the imported model")
	}
	if len(m.Opsets) == 0 {
		c.need("", builtOpset, "")
	}
	var err error
	m.Graph.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			if err == nil {
				err = c.node(n)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return c, c.checkPins()
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

func (c *opsetChoice) node(n *ssa.Node) error {
	o := ops.Of(n)
	if o == nil && !n.Opaque {
		return &ExportError{Node: n.String(), Reason: "the operator has no standard form"}
	}
	if o == nil || n.Version > 0 {
		v := max(n.Version, 1)
		if old, ok := c.pin[n.Domain]; ok && old != v {
			return c.conflict(n.Domain, fmt.Sprintf("%s was written for version %d and %s for version %d", n, v, c.pinBy[n.Domain], old))
		}
		c.pin[n.Domain], c.pinBy[n.Domain] = v, n.String()
		c.need(n.Domain, v, n.String())
		return nil
	}
	c.need(n.Domain, o.Oldest(n), n.String())
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

// CheckOpset reports a node that no version of the default operator set up to most can write. 0 is no limit.
func CheckOpset(m *ssa.Module, most int) error {
	if most <= 0 {
		return nil
	}
	c, err := chooseOpsets(m)
	if err != nil || c.version[""] <= most {
		return err
	}
	return &ExportError{Node: c.by[""], Reason: fmt.Sprintf("needs version %d of the operator set, at most %d is allowed", c.version[""], most),
		Remedy: fmt.Sprintf("allow version %d", c.version[""])}
}

func (c *opsetChoice) conflict(domain, what string) error {
	if domain == "" {
		domain = "ai.onnx"
	}
	return &ExportError{Reason: fmt.Sprintf("no single version of operator set %q fits: %s", domain, what),
		Remedy: "a newer berth may know the operator"}
}

// allow asks for a version of the default domain for a node the exporter would
// like to add; false if an opaque node pins an older one.
func (c *opsetChoice) allow(version int, by string) bool {
	if pin, ok := c.pin[""]; ok && pin < version {
		return false
	}
	c.need("", version, by)
	return true
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
		for _, v := range g.Values() {
			for t := &v.Type; t != nil; t = t.Elem {
				ir = max(ir, irOfDType[t.DType])
			}
		}
	})
	return int64(ir)
}
