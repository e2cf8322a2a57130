package ssa

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// Equal reports that two constants have the same type, shape and elements, bit
// for bit. A splat equals a dense constant with the same elements.
func (c *Constant) Equal(d *Constant) bool { return c.EqualContext(context.Background(), d) }

// EqualContext is [Constant.Equal], and false where the context ends.
func (c *Constant) EqualContext(ctx context.Context, d *Constant) bool {
	switch {
	case c == d:
		return true
	case c == nil || d == nil || c.dtype != d.dtype || !slices.Equal(c.shape, d.shape):
		return false
	case c.splat != nil && d.splat != nil:
		return sameElems(ctx, c.splat, d.splat)
	case c.splat != nil:
		return d.repeats(ctx, c.splat)
	case d.splat != nil:
		return c.repeats(ctx, d.splat)
	case c.packed != nil && d.packed != nil && (c.dtype.FileBits() >= 8 || sameBytes(ctx, c.packed, d.packed)):
		return sameBytes(ctx, c.packed, d.packed) // without making aligned copies
	}
	a, errA := c.Array()
	b, errB := d.Array()
	return errA == nil && errB == nil && sameElems(ctx, a, b)
}

// comparedPiece is how many bytes are compared between two looks at a context. A file that is not in memory has them in some milliseconds.
const comparedPiece = 1 << 20

// sameBytes is [bytes.Equal], and false where the context ends.
func sameBytes(ctx context.Context, a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for len(a) > comparedPiece {
		if ctx.Err() != nil || !bytes.Equal(a[:comparedPiece], b[:comparedPiece]) {
			return false
		}
		a, b = a[comparedPiece:], b[comparedPiece:]
	}
	return bytes.Equal(a, b)
}

// repeats reports that every element of a dense constant is e.
func (c *Constant) repeats(ctx context.Context, e *ndarray.Array) bool {
	a := &ndarray.Array{Data: c.packed}
	if c.packed == nil || c.dtype.FileBits() < 8 {
		var err error
		if a, err = c.Array(); err != nil {
			return false
		}
	}
	for _, s := range a.Str {
		if s != e.Str[0] {
			return false
		}
	}
	for rest, w := a.Data, len(e.Data); w > 0 && len(rest) >= w; rest = rest[w:] {
		if !bytes.Equal(rest[:w], e.Data) || len(rest)%comparedPiece < w && ctx.Err() != nil {
			return false
		}
	}
	return true
}

func sameElems(ctx context.Context, a, b *ndarray.Array) bool {
	return sameBytes(ctx, a.Data, b.Data) && slices.Equal(a.Str, b.Str)
}

// EqualValue is [Attr.Equal] with tensors compared by their elements.
func (a Attr) EqualValue(b Attr) bool {
	if !a.Tensor.Equal(b.Tensor) || len(a.Tensors) != len(b.Tensors) {
		return false
	}
	for i := range a.Tensors {
		if !a.Tensors[i].Equal(b.Tensors[i]) {
			return false
		}
	}
	a.Tensor, b.Tensor, a.Tensors, b.Tensors = nil, nil, nil, nil
	return a.Equal(b)
}

// Compare says what two graphs may differ in and still be equal.
type Compare struct {
	Names bool // compare names of graphs, nodes and values, and docs
	Types bool // compare stored types and contents of node results and parameters
}

// Diff returns a line naming the first difference of two graphs, "" if they are
// the same: the same nodes in the same order, the same wiring, attributes,
// constants and bodies. Ids and dead values do not count.
func (how Compare) Diff(a, b *Graph) string {
	d := differ{how: how, of: make(map[*Value]*Value, len(a.values))}
	if s := d.graph(a, b); s != "" {
		return fmt.Sprintf("graph %q: %s", a.Name, s)
	}
	return ""
}

// Equal reports that Diff finds nothing.
func (how Compare) Equal(a, b *Graph) bool { return how.Diff(a, b) == "" }

// differ walks two graphs side by side; of maps a value to its counterpart.
type differ struct {
	how   Compare
	of    map[*Value]*Value
	depth int
}

func (d *differ) graph(a, b *Graph) string {
	switch {
	case d.how.Names && (a.Name != b.Name || a.Doc != b.Doc):
		return fmt.Sprintf("name %q or doc differs from %q", a.Name, b.Name)
	case len(a.Params) != len(b.Params):
		return fmt.Sprintf("%d and %d parameters", len(a.Params), len(b.Params))
	case len(a.Nodes) != len(b.Nodes):
		return fmt.Sprintf("%d and %d nodes", len(a.Nodes), len(b.Nodes))
	case len(a.Results) != len(b.Results):
		return fmt.Sprintf("%d and %d results", len(a.Results), len(b.Results))
	}
	for i, p := range a.Params {
		if s := d.define(p, b.Params[i]); s != "" {
			return fmt.Sprintf("parameter %d: %s", i, s)
		}
	}
	for i, n := range a.Nodes {
		if s := d.node(n, b.Nodes[i]); s != "" {
			return fmt.Sprintf("node %d, %s: %s", i, n, s)
		}
	}
	for i, r := range a.Results {
		if !d.same(r, b.Results[i]) {
			return fmt.Sprintf("result %d differs", i)
		}
	}
	return ""
}

// define makes v and w counterparts.
func (d *differ) define(v, w *Value) string {
	switch {
	case (v == nil) != (w == nil):
		return "present on one side only"
	case v == nil:
		return ""
	case d.how.Names && (v.Name != w.Name || v.Doc != w.Doc):
		return fmt.Sprintf("named %q and %q", v.Name, w.Name)
	case d.how.Types && !v.Type.Equal(w.Type):
		return fmt.Sprintf("types %s and %s", v.Type, w.Type)
	case d.how.Types && contentText(v.Content) != contentText(w.Content):
		return fmt.Sprintf("contents %s and %s", contentText(v.Content), contentText(w.Content))
	}
	d.of[v] = w
	return ""
}

// same reports that two operands are counterparts.
func (d *differ) same(v, w *Value) bool {
	if v == nil || w == nil {
		return v == w
	}
	if v.Const != nil {
		return v.Const.Equal(w.Const) && (!d.how.Names || v.Name == w.Name)
	}
	return d.of[v] == w
}

func (d *differ) node(a, b *Node) string {
	switch {
	case a.Op != b.Op || a.Domain != b.Domain || a.Overload != b.Overload || a.Version != b.Version || a.Opaque != b.Opaque:
		return "operator differs from " + b.String()
	case d.how.Names && (a.Name != b.Name || a.Doc != b.Doc):
		return fmt.Sprintf("named %q", b.Name)
	case len(a.In) != len(b.In) || len(a.Out) != len(b.Out) || a.Captures != b.Captures || len(a.Bodies) != len(b.Bodies):
		return "number of operands, results, captures or bodies differs"
	case len(a.Attrs) != len(b.Attrs):
		return "number of attributes differs"
	}
	for i, v := range a.In {
		if !d.same(v, b.In[i]) {
			return fmt.Sprintf("operand %d differs", i)
		}
	}
	for _, x := range a.Attrs {
		if y := b.Attr(x.Name); y == nil || !x.EqualValue(*y) {
			return fmt.Sprintf("attribute %q differs", x.Name)
		}
	}
	for i, g := range a.Bodies {
		k := slices.Index(b.BodyAttr, a.BodyAttr[i])
		if k < 0 {
			return fmt.Sprintf("body %q is missing", a.BodyAttr[i])
		}
		d.depth++
		limitDepth(g, d.depth)
		s := d.graph(g, b.Bodies[k])
		if d.depth--; s != "" {
			return fmt.Sprintf("%s: %s", a.BodyAttr[i], s)
		}
	}
	for i, v := range a.Out {
		if s := d.define(v, b.Out[i]); s != "" {
			return fmt.Sprintf("result %d: %s", i, s)
		}
	}
	return ""
}
