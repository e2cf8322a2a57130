package lower

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard" // the operators that rules write
	"github.com/berth-onnx/berth/ssa"
)

// builder writes one expression graph. The first failure of its methods is kept in err,
// and they go on with any value, so that rules read as formulas.
type builder struct {
	graph   *gorgonia.ExprGraph
	options Options
	out     *Graph
	made    map[*gorgonia.Node]*ssa.Value // nil for statements
	reads   map[*gorgonia.Node][]*gorgonia.Value
	grads   map[*gorgonia.Node][]*gorgonia.Node
	states  map[*tensor.Dense]*ssa.Value
	updates []update
	shared  map[any]*ssa.Value                // what several ops need once: masks, statistics, nodes of several results
	widened map[*ssa.Value]*ssa.Value         // see broadcast.go
	patches map[*ssa.Value]patches            // see convolve.go
	owners  map[unsafe.Pointer]*gorgonia.Node // nodes by their op; see runsAfter
	draws   uint64                            // nodes of random numbers
	frozen  map[*gorgonia.Node]bool           // inputs that are constants
	writing *gorgonia.Node                    // whose op is being written
	err     error
}

// update is the next value of a tensor that an op holds.
type update struct {
	of    *tensor.Dense
	value *ssa.Value
	by    *gorgonia.Node
}

func newBuilder(g *gorgonia.ExprGraph, o Options) *builder {
	return &builder{
		graph: g, options: o, out: &Graph{SSA: ssa.NewGraph("expression")},
		made: map[*gorgonia.Node]*ssa.Value{}, reads: map[*gorgonia.Node][]*gorgonia.Value{}, grads: map[*gorgonia.Node][]*gorgonia.Node{},
		states: map[*tensor.Dense]*ssa.Value{}, shared: map[any]*ssa.Value{},
		widened: map[*ssa.Value]*ssa.Value{}, patches: map[*ssa.Value]patches{},
	}
}

// failed names the node an error happened at.
func (b *builder) failed(n *gorgonia.Node, err error) error {
	e := &Error{Node: NameOf(n), Err: err}
	if n.Op() != nil {
		e.Op = fmt.Sprintf("%T", n.Op())
	}
	return e
}

// node adds a node and infers its types.
func (b *builder) node(op string, in []*ssa.Value, results int, attrs ...ssa.Attr) *ssa.Node {
	b.checkFloats(op, in)
	n := b.out.SSA.NewNode(op, in, results, attrs...)
	b.infer(n)
	return n
}

// infer names and types the results: errors and exported models show to which node of the expression graph they belong.
func (b *builder) infer(n *ssa.Node) {
	base := fmt.Sprintf("%s_%d", n.Op, n.ID)
	if b.writing != nil {
		switch name := PortName(b.writing); {
		case givenName(b.writing) != "":
			base = name + "/" + n.Op
		case !b.options.Portable:
			base = b.writing.Name() + "/" + n.Op
		}
	}
	for _, v := range n.Out {
		v.Name = base
	}
	if err := ops.Infer(n); err != nil {
		b.fail(fmt.Errorf("%s: %w", n.Op, cause(err)))
	}
}

// floatsOnly are operators that ONNX has for floats only, and Gorgonia for all numbers.
var floatsOnly = map[string]bool{"Conv": true, "MaxPool": true, "AveragePool": true, "GlobalAveragePool": true, "Softmax": true, "LogSoftmax": true,
	"LayerNormalization": true, Sparsemax.Name: true, MaxPoolDiff.Name: true}

func (b *builder) checkFloats(op string, in []*ssa.Value) {
	if floatsOnly[op] && !in[0].Type.DType.IsFloat() {
		b.fail(fmt.Errorf("%s is of floats, and these elements are %s; convert them with gorgonia.ConvType", op, in[0].Type.DType))
	}
}

// cause is an error without the node that it happened at, which the expression graph does not have.
func cause(err error) error {
	var at *ops.NodeError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// op adds a node of one result without attributes.
func (b *builder) op(op string, in ...*ssa.Value) *ssa.Value { return b.node(op, in, 1).Out[0] }

// with adds a node of one result with attributes.
func (b *builder) with(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return b.node(op, in, 1, attrs...).Out[0]
}

func (b *builder) constant(c *ssa.Constant) *ssa.Value {
	return b.out.SSA.AddConst("const", c)
}

// ints adds a list of integers.
func (b *builder) ints(v ...int) *ssa.Value { return b.constant(ssa.Int64s(wide(v)...)) }

// number adds a scalar of the element type of like. A number that an integer type does not have, or that is beyond all of a type
// of floats, is an error.
func (b *builder) number(like *ssa.Value, v float64) *ssa.Value {
	dt := like.Type.DType
	a := ndarray.Must(dt)
	a.SetFloat(0, v)
	if got := a.Float(0); dt.IsInteger() && got != v || math.IsInf(got, 0) && !math.IsInf(v, 0) {
		b.fail(fmt.Errorf("the op computes with the number %g, which elements of type %s can not be; convert them with gorgonia.ConvType", v, dt))
	}
	return b.constant(ssa.NewConstant(a))
}

// zeros is a tensor of zeros.
func (b *builder) zeros(dt ndarray.DType, shape ...int) *ssa.Value {
	return b.constant(ssa.NewSplat(ndarray.Must(dt), shape...))
}

// shape returns the dimensions of a value, all of which are known here.
func (b *builder) shape(v *ssa.Value) []int {
	s, ok := v.Type.Static()
	if !ok {
		b.fail(fmt.Errorf("the shape of %q is not known: %s; bind inputs of known shape", v.Name, v.Type))
	}
	return s
}

func (b *builder) rank(v *ssa.Value) int { return len(b.shape(v)) }

// reshape gives v another shape; v itself where it has that shape.
func (b *builder) reshape(v *ssa.Value, shape ...int) *ssa.Value {
	if slices.Equal(b.shape(v), shape) {
		return v
	}
	return b.with("Reshape", []*ssa.Value{v, b.ints(shape...)}, ssa.IntAttr("allowzero", 1))
}

func (b *builder) transpose(v *ssa.Value, perm ...int) *ssa.Value {
	return b.with("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", wide(perm)...))
}

// sum adds up along axes and keeps them as dimensions of 1.
func (b *builder) sum(v *ssa.Value, axes ...int) *ssa.Value {
	return b.with("ReduceSum", []*ssa.Value{v, b.ints(axes...)}, ssa.IntAttr("keepdims", 1))
}

func (b *builder) mean(v *ssa.Value, axes ...int) *ssa.Value {
	return b.with("ReduceMean", []*ssa.Value{v, b.ints(axes...)}, ssa.IntAttr("keepdims", 1))
}

// cast converts elements; v itself where they are of that type.
func (b *builder) cast(v *ssa.Value, dt ndarray.DType) *ssa.Value {
	if v.Type.DType == dt {
		return v
	}
	return b.with("Cast", []*ssa.Value{v}, ssa.IntAttr("to", int64(dt)))
}

// once makes a value the first time that a key is asked for.
func (b *builder) once(key any, f func() *ssa.Value) *ssa.Value {
	if b.shared[key] == nil {
		b.shared[key] = f()
	}
	return b.shared[key]
}

// wide converts integers to those of attributes and shapes.
func wide(v []int) []int64 {
	out := make([]int64, len(v))
	for i, n := range v {
		out[i] = int64(n)
	}
	return out
}

// upTo is from, from+1, …, end-1.
func upTo(from, end int) []int {
	var out []int
	for i := from; i < end; i++ {
		out = append(out, i)
	}
	return out
}
