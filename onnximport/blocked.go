package onnximport

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Files that ONNX Runtime saved at its highest optimization level hold operators
// of the domain com.microsoft.nchwc: convolutions and pools over blocks of B
// channels, the block being what the vector registers of the machine that wrote
// the file hold.
//
//	memory of a tensor    [N][C/B][H][W][B]      declared as [N, C, H, W], C a multiple of B
//	filters               [O/B][I/B][H][W][B][B] or, for an operand in plain layout
//	                      and for depthwise ones, [O/B][I][H][W][B]; declared as OIHW
//	ReorderInput          plain to blocked, channels padded with zeros
//	ReorderOutput         blocked to plain, the first channels of them
//
// Which layout a runtime works in is its own affair, so these nodes become standard
// ones over plain tensors: the filters are put back into order, ReorderInput is a
// Pad of channels, ReorderOutput a Slice, everything between stays as it is.
//
// The file does not say what B is. It follows from channel counts that only one
// block divides or needs, from filters that are nothing but padding under one block
// and not under the other, or from Options.ChannelBlock; else the nodes stay as they
// are, and a warning says why. A wrong block would not fail, it would compute
// something else, so nothing is taken for likely.
//
// Source: the operators' schemas and NchwcTransformer of ONNX Runtime.

const blockedDomain = "com.microsoft.nchwc"

// channelBlocks are the blocks that ONNX Runtime has kernels for.
var channelBlocks = []int{8, 16}

// plainLayout replaces the operators of the blocked domain in the finished module.
func (imp *importer) plainLayout() {
	b := &unblocker{block: imp.opts.ChannelBlock}
	g, _ := imp.module.Graph.Clone()
	g.Walk(b.collect)
	if len(b.nodes) == 0 {
		return
	}
	err := b.findBlock()
	if err == nil {
		err = b.graph(g)
	}
	if err == nil {
		err = ops.InferGraph(g)
	}
	if err != nil {
		imp.warn("operators of domain %s are kept as they are and can not be run: %v", blockedDomain, err)
		return
	}
	imp.module.Graph = g
}

// unblocker is one conversion.
type unblocker struct {
	block int
	nodes []*ssa.Node
}

func (b *unblocker) collect(g *ssa.Graph) {
	for _, n := range g.Nodes {
		if n.Domain == blockedDomain {
			b.nodes = append(b.nodes, n)
		}
	}
}

// findBlock decides which block the filters are laid out for.
func (b *unblocker) findBlock() error {
	blocks := channelBlocks
	if b.block != 0 {
		if !slices.Contains(channelBlocks, b.block) {
			return fmt.Errorf("there are no blocks of %d channels, only %v", b.block, channelBlocks)
		}
		blocks = []int{b.block}
	}
	possible := slices.DeleteFunc(slices.Clone(blocks), func(k int) bool {
		return slices.ContainsFunc(b.nodes, func(n *ssa.Node) bool { return !fitsBlock(n, k) })
	})
	if len(possible) > 1 {
		padded := slices.DeleteFunc(slices.Clone(possible), func(k int) bool {
			return !slices.ContainsFunc(b.nodes, func(n *ssa.Node) bool { return showsPadding(n, k) })
		})
		if len(padded) > 0 {
			possible = padded
		}
	}
	switch len(possible) {
	case 0:
		return fmt.Errorf("their channel counts fit none of the blocks %v", blocks)
	case 1:
		b.block = possible[0]
		return nil
	}
	return fmt.Errorf("the file does not show for which block of channels it was written: give it (--channel-block 16 if the machine had AVX-512, 8 if not), or save the model below the highest optimization level")
}

// filterOf returns the filters of a blocked convolution and their dimensions.
func filterOf(n *ssa.Node) (w *ssa.Constant, o, i int) {
	if n.Op != "Conv" || n.Input(1) == nil || n.In[1].Const == nil {
		return nil, 0, 0
	}
	w = n.In[1].Const
	if s := w.Shape(); len(s) == 4 && w.DType() == ndarray.Float32 {
		return w, s[0], s[1]
	}
	return nil, 0, 0
}

// inBlocks reports that both channels of filters are blocked; of fewer input
// channels than a block only the output's are.
func inBlocks(i, block int) bool { return i >= block }

// fitsBlock reports that the channel counts a node shows are possible for a block.
func fitsBlock(n *ssa.Node, block int) bool {
	w, o, i := filterOf(n)
	if w != nil && (o%block != 0 || !fitsInputs(n, i, block)) {
		return false
	}
	if n.Op != "ReorderOutput" || n.In[0] == nil {
		return true
	}
	// the source's channels are the result's, rounded up to a block
	src := n.In[0].Def
	if src == nil || src.Domain != blockedDomain {
		return true
	}
	_, o, _ = filterOf(src)
	c := int(n.Int("channels", 0))
	return o == 0 || (c+block-1)/block*block == o
}

// fitsInputs reports that filters of i input channels are possible. Fewer than a
// block read the plain operand, unless they are depthwise; others read blocks.
func fitsInputs(n *ssa.Node, i, block int) bool {
	if inBlocks(i, block) && i%block != 0 {
		return false
	}
	x := n.Input(0)
	switch {
	case n.Int("group", 1) > 1:
		return i == 1 || inBlocks(i, block)
	case x == nil:
		return false
	case x.Def == nil || x.Def.Domain == blockedDomain && x.Def.Op == "ReorderOutput":
		return !inBlocks(i, block)
	case x.Def.Domain == blockedDomain:
		return inBlocks(i, block)
	}
	return true // what comes between does not tell which layout it works on
}

// showsPadding reports that the last channels of filters are all zero if they are
// laid out for the block: counts that are padded look so, others never do.
func showsPadding(n *ssa.Node, block int) bool {
	w, o, i := filterOf(n)
	if w == nil || o < block {
		return false
	}
	a, err := w.Array()
	if err != nil {
		return false
	}
	zeros := 0
	for k := o - 1; k > o-block && zeroFilter(a, k, i, block); k-- {
		zeros++
	}
	return zeros > 0
}

func zeroFilter(a *ndarray.Array, o, i, block int) bool {
	v := ndarray.Slice[float32](a)
	for c := range i {
		for p := range a.Shape[2] * a.Shape[3] {
			if v[filterAt(a.Shape, block, o, c, p)] != 0 {
				return false
			}
		}
	}
	return true
}

// filterAt is where the element of filter o, input channel i, position p lies.
func filterAt(shape []int, block, o, i, p int) int {
	in, area := shape[1], shape[2]*shape[3]
	if !inBlocks(in, block) {
		return ((o/block*in+i)*area+p)*block + o%block
	}
	return (((o/block*(in/block)+i/block)*area+p)*block+i%block)*block + o%block
}

// plainFilter puts filters back into the order OIHW.
func plainFilter(w *ssa.Constant, block int) (*ssa.Constant, error) {
	a, err := w.Array()
	if err != nil {
		return nil, err
	}
	out := ndarray.Must(ndarray.Float32, a.Shape...)
	from, to := ndarray.Slice[float32](a), ndarray.Slice[float32](out)
	area := a.Shape[2] * a.Shape[3]
	for at := range to {
		to[at] = from[filterAt(a.Shape, block, at/area/a.Shape[1], at/area%a.Shape[1], at%area)]
	}
	return ssa.NewConstant(out), nil
}

// graph converts the nodes of a graph in order; the types of what comes before a
// node are known when it is met.
func (b *unblocker) graph(g *ssa.Graph) error {
	for _, n := range slices.Clone(g.Nodes) {
		if len(n.Bodies) > 0 {
			if err := ops.Infer(n); err != nil { // gives the bodies' parameters their types
				return err
			}
			for _, body := range n.Bodies {
				if err := b.graph(body); err != nil {
					return err
				}
			}
		}
		if n.Domain == blockedDomain {
			if err := b.node(g, n); err != nil {
				return fmt.Errorf("node %s: %w", n, err)
			}
		}
		if err := ops.Infer(n); err != nil {
			return err
		}
	}
	return nil
}

func (b *unblocker) node(g *ssa.Graph, n *ssa.Node) error {
	switch n.Op {
	case "ReorderInput":
		return b.reorderInput(g, n)
	case "ReorderOutput":
		return b.reorderOutput(g, n)
	case "Conv":
		return b.conv(g, n)
	case "Upsample":
		return b.upsample(g, n)
	case "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool":
		become(n, "", n.Op)
		return nil
	}
	return fmt.Errorf("operator %s is not known", n.Op)
}

// become makes an opaque node one of an operator berth knows.
func become(n *ssa.Node, domain, op string) {
	n.Domain, n.Op, n.Opaque, n.Version, n.Origin = domain, op, false, 0, nil
}

// insert adds a node before another one and infers its type.
func insert(g *ssa.Graph, before *ssa.Node, op string, in []*ssa.Value, attrs ...ssa.Attr) (*ssa.Value, error) {
	m := g.InsertBefore(before, op, in, 1, attrs...)
	m.Out[0].Name = fmt.Sprintf("%s_%s_%d", before.Out[0].Name, op, m.ID)
	return m.Out[0], ops.Infer(m)
}

func constant(g *ssa.Graph, name string, c *ssa.Constant) *ssa.Value {
	return g.AddConst(fmt.Sprintf("%s_%d", name, g.NumValues()), c)
}

func (b *unblocker) reorderInput(g *ssa.Graph, n *ssa.Node) (err error) {
	x := n.In[0]
	if n.Int("channels_last", 0) != 0 {
		if x, err = insert(g, n, "Transpose", []*ssa.Value{x}, ssa.IntsAttr("perm", 0, 3, 1, 2)); err != nil {
			return err
		}
	}
	if x.Type.Rank() != 4 {
		return fmt.Errorf("operand %s is no tensor of rank 4", x.Type)
	}
	c, ok := x.Type.Shape[1].Const()
	if !ok {
		return fmt.Errorf("the number of channels of %s is not known", x.Type)
	}
	n.Attrs = nil
	more := (int64(b.block) - c%int64(b.block)) % int64(b.block)
	if more == 0 {
		become(n, "", "Identity")
		n.SetInputs([]*ssa.Value{x})
		return nil
	}
	become(n, "", "Pad")
	n.SetInputs([]*ssa.Value{x, constant(g, "pads", ssa.Int64s(0, 0, 0, 0, 0, more, 0, 0))})
	return nil
}

func (b *unblocker) reorderOutput(g *ssa.Graph, n *ssa.Node) (err error) {
	x, last := n.In[0], n.Int("channels_last", 0) != 0
	if x.Type.Rank() != 4 {
		return fmt.Errorf("operand %s is no tensor of rank 4", x.Type)
	}
	channels := n.Int("channels", 0)
	n.Attrs = nil
	cut := []*ssa.Value{x, constant(g, "from", ssa.Int64s(0)), constant(g, "to", ssa.Int64s(channels)), constant(g, "axis", ssa.Int64s(1))}
	whole := x.Type.Shape[1].Is(channels)
	switch {
	case last:
		if !whole {
			if x, err = insert(g, n, "Slice", cut); err != nil {
				return err
			}
		}
		become(n, "", "Transpose")
		n.Attrs = []ssa.Attr{ssa.IntsAttr("perm", 0, 2, 3, 1)}
		n.SetInputs([]*ssa.Value{x})
	case whole:
		become(n, "", "Identity")
	default:
		become(n, "", "Slice")
		n.SetInputs(cut)
	}
	return nil
}

// conv is a Conv, with a sum and an activation behind it where they go with it:
//
//	Y = activation(Conv(X, W, B) + Z)
func (b *unblocker) conv(g *ssa.Graph, n *ssa.Node) (err error) {
	w, _, _ := filterOf(n)
	if w == nil {
		return fmt.Errorf("its filters are no constant of 4 dimensions")
	}
	plain, err := plainFilter(w, b.block)
	if err != nil {
		return err
	}
	n.SetInput(1, constant(g, n.In[1].Name, plain))
	act, params, sum := n.Str("activation", ""), floatsOf(n, "activation_params"), n.Input(3)
	n.DropAttr("activation")
	n.DropAttr("activation_params")
	if len(n.In) > 3 {
		n.TruncateInputs(3)
	}
	if act == "" && sum == nil {
		become(n, "", "Conv")
		return nil
	}
	y, err := insert(g, n, "Conv", slices.Clone(n.In), n.Attrs...)
	if err != nil {
		return err
	}
	n.Attrs = nil
	if act == "" {
		become(n, "", "Add")
		n.SetInputs([]*ssa.Value{y, sum})
		return nil
	}
	if sum != nil {
		if y, err = insert(g, n, "Add", []*ssa.Value{y, sum}); err != nil {
			return err
		}
	}
	return activate(g, n, y, act, params)
}

// activate makes a node the activation of a value.
func activate(g *ssa.Graph, n *ssa.Node, y *ssa.Value, act string, params []float32) error {
	param := func(i int) ssa.Attr {
		return ssa.FloatAttr([]string{"alpha", "beta"}[i], params[i])
	}
	wants := map[string]int{"Relu": 0, "Tanh": 0, "Sigmoid": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}
	if k, known := wants[act]; !known || len(params) < k {
		return fmt.Errorf("activation %q with %d parameters is not known", act, len(params))
	}
	become(n, "", act)
	n.SetInputs([]*ssa.Value{y})
	switch act {
	case "LeakyRelu":
		n.Attrs = []ssa.Attr{param(0)}
	case "HardSigmoid":
		n.Attrs = []ssa.Attr{param(0), param(1)}
	case "Clip":
		n.SetInputs([]*ssa.Value{y, constant(g, "least", ssa.ScalarConst(params[0])), constant(g, "most", ssa.ScalarConst(params[1]))})
	}
	return nil
}

func floatsOf(n *ssa.Node, name string) []float32 {
	if a := n.Attr(name); a != nil {
		return a.Floats
	}
	return nil
}

func (b *unblocker) upsample(g *ssa.Graph, n *ssa.Node) error {
	scales := ndarray.Must(ndarray.Float32, len(n.Ints("scales")))
	for i, s := range n.Ints("scales") {
		scales.SetInt(i, s)
	}
	attrs := []ssa.Attr{ssa.StringAttr("mode", n.Str("mode", "nearest")),
		ssa.StringAttr("coordinate_transformation_mode", n.Str("coordinate_transformation_mode", "asymmetric"))}
	if n.Str("mode", "nearest") == "nearest" {
		attrs = append(attrs, ssa.StringAttr("nearest_mode", "floor"))
	}
	become(n, "", "Resize")
	n.Attrs = attrs
	n.SetInputs([]*ssa.Value{n.In[0], nil, constant(g, "scales", ssa.NewConstant(scales))})
	return nil
}
