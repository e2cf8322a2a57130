package onnxexport

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// placement says where a constant is written: in the one graph that uses it. If
// several do, or if it is written as a node (which a loop's body would run again
// and again), in the main graph.
type placement struct {
	graph *ssa.Graph
	name  string // "" until written
}

// place visits every use of every constant.
func (x *exporter) place() {
	main := x.mod.Graph
	main.Walk(func(g *ssa.Graph) {
		if x.opts.Context.Err() != nil {
			return
		}
		for i, v := range constantsOf(x.opts.Context, g) {
			if ended(x.opts.Context, i) {
				return
			}
			switch p := x.consts[v.Const]; {
			case p == nil && (x.asNode(v.Const) || x.literals[v.Const]):
				x.consts[v.Const] = &placement{graph: main}
			case p == nil:
				x.consts[v.Const] = &placement{graph: g}
			case p.graph != g:
				p.graph = main
			}
		}
	})
}

// lookEvery is how many nodes or values a loop passes between two looks at the context.
const lookEvery = 1024

// ended reports whether a context has ended, as far as it is looked at in a step of a loop.
func ended(ctx context.Context, step int) bool {
	return step%lookEvery == lookEvery-1 && ctx.Err() != nil
}

// constantsOf returns the constants that a graph itself uses, in the order of
// their ids: read by nodes (what bodies capture included) or results. They are not all once the context has ended.
func constantsOf(ctx context.Context, g *ssa.Graph) []*ssa.Value {
	used := make([]bool, g.NumValues())
	for i, n := range g.Nodes {
		if ended(ctx, i) {
			return nil
		}
		for _, v := range n.In {
			if v != nil {
				used[v.ID] = true
			}
		}
	}
	for _, v := range g.Results {
		used[v.ID] = true
	}
	var out []*ssa.Value
	for i, v := range g.Values() {
		if ended(ctx, i) {
			return nil
		}
		if v.Const != nil && used[v.ID] {
			out = append(out, v)
		}
	}
	return out
}

// constants writes the constants that are placed in a graph. For the main graph
// these are its own, then those of bodies that share them.
func (x *exporter) constants(g *ssa.Graph, out *onnxwire.Graph, scope *names) error {
	write := func(v *ssa.Value) error {
		p := x.consts[v.Const]
		if p.graph != g || p.name != "" {
			return nil
		}
		if p.name = x.names[v]; p.name == "" { // an output may have named it
			p.name = scope.fresh(v.Name)
		}
		return x.constant(p.name, v.Const, out, scope)
	}
	graphs := []*ssa.Graph{g}
	if g == x.mod.Graph {
		graphs = nil
		g.Walk(func(b *ssa.Graph) { graphs = append(graphs, b) })
	}
	for _, b := range graphs {
		for _, v := range constantsOf(x.opts.Context, b) {
			if err := x.opts.Context.Err(); err != nil {
				return err
			}
			if err := write(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// constant writes one constant as an initializer or, where asNode says so and the operator sets allow it, or it is a literal, as a node.
func (x *exporter) constant(name string, c *ssa.Constant, out *onnxwire.Graph, scope *names) error {
	if x.asNode(c) {
		v, _ := c.Splat()
		if n := x.splatNode(name, v, c.Shape(), out, scope); n != nil {
			out.Nodes = append(out.Nodes, n)
			return nil
		}
	}
	t, err := x.tensor(name, c)
	switch {
	case err != nil:
		return err
	case x.literals[c]:
		x.opsets.require(1, "Constant")
		t.Name = ""
		out.Nodes = append(out.Nodes, &onnxwire.Node{OpType: "Constant", Outputs: []string{name},
			Attributes: []*onnxwire.Attribute{{Name: "value", Type: onnxwire.AttrTensor, T: t}}})
	default:
		out.Initializers = append(out.Initializers, t)
	}
	return nil
}

// literals are the tensors of floats that stay Constant nodes, as the file had them: whoever trains the model that is written learns what is beside the
// weights. Where no initializer is a tensor of floats, nodes hold the weights, which may move to a data file.
func literals(ctx context.Context, g *ssa.Graph) map[*ssa.Constant]bool {
	found, hasWeights := map[*ssa.Constant]bool{}, false
	g.Walk(func(g *ssa.Graph) {
		if ctx.Err() != nil {
			return
		}
		for i, v := range constantsOf(ctx, g) {
			if ended(ctx, i) {
				return
			}
			if c := v.Const; c.DType().IsFloat() && len(c.Shape()) > 0 {
				if found[c] = c.Literal(); !found[c] {
					hasWeights = true
				}
			}
		}
	})
	if !hasWeights {
		return nil
	}
	return found
}

// asNode reports that a constant is a splat that would take much more room than
// its element.
func (x *exporter) asNode(c *ssa.Constant) bool {
	_, ok := c.Splat()
	return ok && x.opts.Splat > 0 && fileBytes(c) >= x.opts.Splat
}

// fileBytes is what a constant takes in a file when written out; strings count
// by their headers.
func fileBytes(c *ssa.Constant) int64 {
	if c.DType() == ndarray.String {
		return int64(c.Len()) * 16
	}
	return int64(c.DType().FileBytes(c.Len()))
}

// splatNode returns ConstantOfShape(shape) with the element as attribute, or,
// for element types that does not take, Expand(element, shape); nil if neither
// may be used.
func (x *exporter) splatNode(name string, elem *ndarray.Array, shape []int, out *onnxwire.Graph, scope *names) *onnxwire.Node {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	since := constantOfShapeSince(elem.DType)
	expand := since == 0 || !x.opsets.allows(since)
	if expand && (elem.DType == ndarray.BFloat16 && !x.opsets.allows(13) || !x.opsets.allows(8)) {
		return nil
	}
	shapeName := x.shapes[fmt.Sprint(dims)]
	if shapeName == "" {
		shapeName = scope.fresh(name + "_shape")
		x.shapes[fmt.Sprint(dims)] = shapeName
		out.Initializers = append(out.Initializers, &onnxwire.Tensor{Name: shapeName, DataType: onnxwire.TypeInt64,
			Dims: []int64{int64(len(dims))}, Int64Data: dims})
	}
	if expand {
		t, err := denseTensor(x.opts.Context, scope.fresh(name+"_element"), ssa.NewConstant(elem))
		if err != nil {
			return nil
		}
		out.Initializers = append(out.Initializers, t)
		return &onnxwire.Node{OpType: "Expand", Inputs: []string{t.Name, shapeName}, Outputs: []string{name}}
	}
	value, err := denseTensor(x.opts.Context, "", ssa.NewConstant(elem.Reshaped(1)))
	if err != nil {
		return nil
	}
	return &onnxwire.Node{OpType: "ConstantOfShape", Inputs: []string{shapeName}, Outputs: []string{name},
		Attributes: []*onnxwire.Attribute{{Name: "value", Type: onnxwire.AttrTensor, T: value}}}
}

// constantOfShapeSince returns the operator set in which ConstantOfShape takes an
// element type, 0 if none does.
//
// https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
func constantOfShapeSince(dt ndarray.DType) int {
	switch dt {
	case ndarray.Float16, ndarray.Float32, ndarray.Float64, ndarray.Bool,
		ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64,
		ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64:
		return 9
	case ndarray.BFloat16, ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ:
		return 20
	case ndarray.Int4, ndarray.Uint4:
		return 21
	case ndarray.Float4E2M1:
		return 23
	case ndarray.Float8E8M0:
		return 24
	case ndarray.Int2, ndarray.Uint2:
		return 25
	}
	return 0
}

// inferredFrom returns the constants that shapes are inferred from: short lists of integers, and of floats where they are
// scales or a range. Other tools infer shapes without reading data files, so these stay in the model.
func inferredFrom(ctx context.Context, g *ssa.Graph) map[*ssa.Constant]bool {
	found := map[*ssa.Constant]bool{}
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			if ctx.Err() != nil {
				return
			}
			floats := n.Op == "Resize" || n.Op == "Upsample" || n.Op == "Range"
			for _, v := range n.In {
				if v != nil && v.Const != nil && v.Type.Rank() <= 1 && v.Const.Len() <= ssa.MaxContent && (floats || !v.Const.DType().IsFloat()) {
					found[v.Const] = true
				}
			}
		}
	})
	return found
}

// tensor writes a constant and remembers the tensor, which may move to a data file unless shapes are inferred from it.
func (x *exporter) tensor(name string, c *ssa.Constant) (*onnxwire.Tensor, error) {
	t, err := denseTensor(x.opts.Context, name, c)
	if err != nil {
		return nil, &ExportError{Reason: fmt.Sprintf("constant %q can not be read: %v", name, err), Err: err}
	}
	shrink(t)
	if !x.inferred[c] && !x.literals[c] { // tensors of attributes stay in the model
		x.tensors = append(x.tensors, t)
	}
	return t, nil
}

// shrink rewrites a short int64 tensor as a list of variable-length numbers, where
// that is smaller: shapes and axes mostly take one byte instead of eight.
func shrink(t *onnxwire.Tensor) {
	const most = 64 // elements
	n := len(t.RawData) / 8
	if t.DataType != onnxwire.TypeInt64 || n == 0 || n > most {
		return
	}
	list, size := make([]int64, n), 0
	for i := range list {
		v := binary.LittleEndian.Uint64(t.RawData[8*i:])
		list[i] = int64(v)
		size += (bits.Len64(v|1) + 6) / 7
	}
	if size < len(t.RawData) {
		t.RawData, t.Int64Data = nil, list
	}
}

// denseTensor writes a constant with all its elements, from where they lie if
// they lie packed.
func denseTensor(ctx context.Context, name string, c *ssa.Constant) (*onnxwire.Tensor, error) {
	t := &onnxwire.Tensor{Name: name, DataType: onnxwire.DataType(c.DType()), RawData: c.Packed()}
	for _, d := range c.Shape() {
		t.Dims = append(t.Dims, int64(d))
	}
	if t.RawData != nil {
		return t, nil
	}
	a, err := c.ArrayContext(ctx, ndarray.BudgetOf(ctx))
	if err != nil {
		return nil, err
	}
	return t, fillTensor(ctx, t, a)
}

// TensorOf writes an array as a tensor message; the elements are shared where
// their layout in a file is the same.
func TensorOf(name string, a *ndarray.Array) (*onnxwire.Tensor, error) {
	return denseTensor(context.Background(), name, ssa.NewConstant(a))
}

// stringSize is what a string takes in a message, which shares its bytes.
const stringSize = 24

func fillTensor(ctx context.Context, t *onnxwire.Tensor, a *ndarray.Array) error {
	switch width := a.DType.FileBits(); {
	case a.DType == ndarray.String:
		if err := ndarray.BudgetOf(ctx).AskContext(ctx, "a constant of strings", stringSize*int64(len(a.Str))); err != nil {
			return err
		}
		for _, s := range a.Str {
			t.StringData = append(t.StringData, unsafe.Slice(unsafe.StringData(s), len(s))) // which nobody writes to
		}
	case width == 0:
		return fmt.Errorf("element type %s can not be written", a.DType)
	case width < 8:
		if err := ndarray.BudgetOf(ctx).AskContext(ctx, "a packed constant", int64(a.DType.FileBytes(len(a.Data)))); err != nil {
			return err
		}
		t.RawData = pack(ctx, a)
		return ctx.Err()
	case len(a.Data) == 0:
		t.RawData = []byte{}
	default:
		t.RawData = a.Data
	}
	return nil
}

// pack puts elements of 6, 4 or 2 bits together as one stream of bits, the first
// in the lowest bits. The rest is left out when the context ends.
func pack(ctx context.Context, a *ndarray.Array) []byte {
	width := a.DType.FileBits()
	out := make([]byte, a.DType.FileBytes(len(a.Data)))
	for i, b := range a.Data {
		if i%pieceSize == 0 && ctx.Err() != nil {
			break
		}
		b &= byte(1<<width - 1)
		at, shift := i/8*width+i%8*width/8, i%8*width%8
		out[at] |= b << shift
		if shift+width > 8 {
			out[at+1] |= b >> (8 - shift)
		}
	}
	return out
}
