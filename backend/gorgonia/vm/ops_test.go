package vm_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/graphs"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// filled is an input with numbers between -1 and 1, all different.
func filled(g *G.ExprGraph, name string, shape ...int) *G.Node {
	v := make([]float64, tensor.Shape(shape).TotalSize())
	for i := range v {
		v[i] = math.Sin(float64(len(name)) + 1.7*float64(i))
	}
	return G.NewTensor(g, tensor.Float64, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))))
}

// opCase is a graph of one op or a few, of which values are compared.
type opCase struct {
	name  string
	build func(g *G.ExprGraph) (*G.Node, error)
	want  []float64 // where Gorgonia's machine has no value
}

// binary makes cases of an elementwise op on tensors and scalars in both places.
func binary(name string, f func(a, b *G.Node) (*G.Node, error)) []opCase {
	return []opCase{
		{name: name + ", tensors", build: func(g *G.ExprGraph) (*G.Node, error) { return f(filled(g, "a", 2, 3), filled(g, "bb", 2, 3)) }},
		{name: name + ", tensor and number", build: func(g *G.ExprGraph) (*G.Node, error) { return f(filled(g, "a", 2, 3), G.NewConstant(0.25)) }},
		{name: name + ", number and tensor", build: func(g *G.ExprGraph) (*G.Node, error) { return f(G.NewConstant(0.25), filled(g, "a", 2, 3)) }},
	}
}

func compared(f func(a, b *G.Node, same bool) (*G.Node, error), same bool) func(a, b *G.Node) (*G.Node, error) {
	return func(a, b *G.Node) (*G.Node, error) { return f(a, b, same) }
}

// unary makes a case of an op on one tensor.
func unary(name string, f func(a *G.Node) (*G.Node, error), shape ...int) opCase {
	return opCase{name: name, build: func(g *G.ExprGraph) (*G.Node, error) { return f(filled(g, "a", shape...)) }}
}

// valued is unary with the value that it must have.
func valued(name string, want []float64, f func(a *G.Node) (*G.Node, error), shape ...int) opCase {
	c := unary(name, f, shape...)
	c.want = want
	return c
}

func opCases() (list []opCase) {
	for name, f := range map[string]func(a, b *G.Node) (*G.Node, error){
		"add": G.Add, "sub": G.Sub, "mul": G.HadamardProd, "div": G.HadamardDiv,
		"lt": compared(G.Lt, true), "gt": compared(G.Gt, true), "lte": compared(G.Lte, true), "gte": compared(G.Gte, true), "eq": compared(G.Eq, true), "ne": compared(G.Ne, true),
	} {
		list = append(list, binary(name, f)...)
	}
	for name, f := range map[string]func(a *G.Node) (*G.Node, error){
		"abs": G.Abs, "sign": G.Sign, "ceil": G.Ceil, "floor": G.Floor, "sin": G.Sin, "cos": G.Cos, "exp": G.Exp, "neg": G.Neg,
		"square": G.Square, "cube": G.Cube, "tanh": G.Tanh, "sigmoid": G.Sigmoid, "expm1": G.Expm1, "softplus": G.Softplus, "inverse": G.Inverse,
		"log1p": func(a *G.Node) (*G.Node, error) { return G.Log1p(G.Must(G.Square(a))) }, "sqrt": func(a *G.Node) (*G.Node, error) { return G.Sqrt(G.Must(G.Square(a))) },
		"log2": func(a *G.Node) (*G.Node, error) { return G.Log2(G.Must(G.Square(a))) }, "inverse root": func(a *G.Node) (*G.Node, error) { return G.InverseSqrt(G.Must(G.Square(a))) },
		"rectify": G.Rectify, "mish": G.Mish, "leaky relu": func(a *G.Node) (*G.Node, error) { return G.LeakyRelu(a, 0.2) },
	} {
		list = append(list, unary(name, f, 2, 3))
	}
	return append(list, movedCases()...)
}

func movedCases() []opCase {
	along := func(f func(a *G.Node, along ...int) (*G.Node, error), axes ...int) func(a *G.Node) (*G.Node, error) {
		return func(a *G.Node) (*G.Node, error) { return f(a, axes...) }
	}
	slice := func(s ...tensor.Slice) func(a *G.Node) (*G.Node, error) {
		return func(a *G.Node) (*G.Node, error) { return G.Slice(a, s...) }
	}
	products := func(ta, tb bool) func(g *G.ExprGraph) (*G.Node, error) {
		return func(g *G.ExprGraph) (*G.Node, error) {
			a, b := []int{2, 3, 4}, []int{2, 4, 5}
			if ta {
				a = []int{2, 4, 3}
			}
			if tb {
				b = []int{2, 5, 4}
			}
			return G.BatchedMatMul(filled(g, "a", a...), filled(g, "bb", b...), ta, tb)
		}
	}
	return []opCase{
		unary("sum of all", along(G.Sum), 2, 3), unary("sum of rows", along(G.Sum, 1), 2, 3), unary("sum of columns", along(G.Sum, 0), 2, 3),
		unary("maximum of rows", along(G.Max, 1), 2, 3), unary("maximum of all", along(G.Max), 2, 3), unary("mean of two axes", along(G.Mean, 0, 2), 2, 3, 4),
		unary("transpose", func(a *G.Node) (*G.Node, error) { return G.Transpose(a, 2, 0, 1) }, 2, 3, 4),
		unary("reshape", func(a *G.Node) (*G.Node, error) { return G.Reshape(a, tensor.Shape{4, 6}) }, 2, 3, 4),
		unary("ravel", G.Ravel, 2, 3), unary("a row", slice(G.S(1)), 3, 4), unary("columns", slice(nil, G.S(1, 3)), 3, 4),
		unary("one element", slice(G.S(1), G.S(2)), 3, 4), unary("every other row", slice(G.S(0, 5, 2)), 5, 2),
		valued("element at", []float64{math.Sin(1 + 1.7*6)}, func(a *G.Node) (*G.Node, error) { return G.At(a, 1, 2) }, 3, 4),
		unary("softmax", func(a *G.Node) (*G.Node, error) { return G.SoftMax(a) }, 3, 4),
		unary("softmax of a vector", func(a *G.Node) (*G.Node, error) { return G.SoftMax(a) }, 5),
		unary("softmax of an axis", func(a *G.Node) (*G.Node, error) { return G.SoftMax(a, 0) }, 3, 4),
		unary("log softmax", func(a *G.Node) (*G.Node, error) { return G.LogSoftMax(a) }, 3, 4),
		unary("global average", G.GlobalAveragePool2D, 2, 3, 4, 5), unary("upsample", func(a *G.Node) (*G.Node, error) { return G.Upsample2D(a, 3) }, 1, 2, 3, 4),
		unary("sparsemax", func(a *G.Node) (*G.Node, error) { return G.Sparsemax(a) }, 3, 4),
		unary("sparsemax of a stack", func(a *G.Node) (*G.Node, error) { return G.Sparsemax(G.Must(G.HadamardProd(a, G.NewConstant(3.0)))) }, 2, 3, 5),
		valued("sparsemax of columns", []float64{1, 0.25, 0, 0.75}, func(a *G.Node) (*G.Node, error) {
			x := G.NewConstant(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float64{3, 0.25, 1, 0.75})))
			return G.Sparsemax(G.Must(G.Add(x, G.Must(G.HadamardProd(a, G.NewConstant(0.0))))), 0)
		}, 2, 2),
		unary("diagonal", func(a *G.Node) (*G.Node, error) { return G.DiagFlat(a) }, 2, 3),
		{name: "random", want: []float64{5, 5, 5, 5}, build: func(g *G.ExprGraph) (*G.Node, error) { // all of five trials succeed
			return G.BinomialRandomNode(g, tensor.Float64, 5, 1, 2, 2), nil
		}},
		unary("patches", func(a *G.Node) (*G.Node, error) {
			return G.Im2Col(a, tensor.Shape{2, 3}, tensor.Shape{1, 0}, tensor.Shape{2, 1}, tensor.Shape{1, 1})
		}, 2, 3, 5, 6),
		unary("identity", func(a *G.Node) (*G.Node, error) { return G.ApplyOp(G.Iop{}, a) }, 2, 3),
		valued("to float32", []float64{float64(float32(math.Sin(1))), float64(float32(math.Sin(2.7)))}, func(a *G.Node) (*G.Node, error) {
			return G.ConvType(a, tensor.Float64, tensor.Float32)
		}, 1, 2),
		{name: "concat", build: func(g *G.ExprGraph) (*G.Node, error) {
			return G.Concat(1, filled(g, "a", 2, 3), filled(g, "bb", 2, 1), filled(g, "ccc", 2, 2))
		}},
		{name: "smaller of two", build: func(g *G.ExprGraph) (*G.Node, error) {
			return G.MinBetween(filled(g, "a", 2, 3), filled(g, "bb", 2, 3))
		}},
		{name: "larger of two", build: func(g *G.ExprGraph) (*G.Node, error) {
			return G.MaxBetween(filled(g, "a", 2, 3), filled(g, "bb", 2, 3))
		}},
		{name: "matrix and vector", build: func(g *G.ExprGraph) (*G.Node, error) { return G.Mul(filled(g, "a", 2, 3), filled(g, "bb", 3)) }},
		{name: "vector and matrix", build: func(g *G.ExprGraph) (*G.Node, error) { return G.Mul(filled(g, "a", 2), filled(g, "bb", 2, 3)) }},
		{name: "vectors", build: func(g *G.ExprGraph) (*G.Node, error) { return G.Mul(filled(g, "a", 3), filled(g, "bb", 3)) }},
		{name: "outer product", build: func(g *G.ExprGraph) (*G.Node, error) { return G.OuterProd(filled(g, "a", 2), filled(g, "bb", 3)) }},
		{name: "matrices", build: func(g *G.ExprGraph) (*G.Node, error) { return G.Mul(filled(g, "a", 2, 3), filled(g, "bb", 3, 4)) }},
		{name: "stacks of matrices", build: products(false, false)}, {name: "stacks, first transposed", build: products(true, false)}, {name: "stacks, second transposed", build: products(false, true)},
		{name: "tensor product", build: func(g *G.ExprGraph) (*G.Node, error) {
			return G.Tensordot([]int{0, 2}, []int{1, 0}, filled(g, "a", 2, 3, 4), filled(g, "bb", 4, 2, 5))
		}},
		{name: "dilated convolution", build: func(g *G.ExprGraph) (*G.Node, error) {
			return G.Conv2d(filled(g, "a", 2, 3, 7, 8), filled(g, "bb", 4, 3, 2, 3), tensor.Shape{2, 3}, []int{1, 2}, []int{2, 1}, []int{2, 2})
		}},
		{name: "max pooling", build: func(g *G.ExprGraph) (*G.Node, error) {
			return G.MaxPool2D(filled(g, "a", 2, 3, 7, 8), tensor.Shape{3, 2}, []int{1, 0}, []int{2, 2})
		}},
		{name: "rows by indices", build: func(g *G.ExprGraph) (*G.Node, error) {
			i := G.NewVector(g, tensor.Int, G.WithShape(3), G.WithName("i"), G.WithValue(tensor.New(tensor.WithBacking([]int{2, 0, 2}))))
			return G.ByIndices(filled(g, "a", 3, 4), i, 0)
		}},
		{name: "columns by indices", build: func(g *G.ExprGraph) (*G.Node, error) {
			i := G.NewVector(g, tensor.Int, G.WithShape(2), G.WithName("i"), G.WithValue(tensor.New(tensor.WithBacking([]int{3, 1}))))
			return G.ByIndices(filled(g, "a", 3, 4), i, 1)
		}},
	}
}

// TestOps: every op gives the value that Gorgonia's machine gives.
func TestOps(t *testing.T) {
	for _, c := range opCases() {
		t.Run(c.name, func(t *testing.T) {
			g := G.NewGraph()
			y, err := c.build(g)
			require.NoError(t, err)
			m := compiled(t, g, vm.Keep(y))
			require.NoError(t, m.RunAll())
			got, shape := floats(t, y.Value()), y.Value().Shape().Clone()
			if c.want != nil {
				assert.Equal(t, c.want, got)
				return
			}

			h := G.NewGraph()
			z, err := c.build(h)
			require.NoError(t, err)
			tape := G.NewTapeMachine(h)
			defer tape.Close()
			require.NoError(t, tape.RunAll())
			assert.Less(t, distance(floats(t, z.Value()), got), 1e-12)
			assert.True(t, z.Shape().Eq(shape), "%v %v", z.Shape(), shape)
		})
	}
}

// TestRules: the tests of this package reach every rule by which ops are lowered.
func TestRules(t *testing.T) {
	used := map[string]bool{}
	note := func(g *G.ExprGraph) {
		for _, n := range g.AllNodes() {
			if n.Op() != nil {
				kind := reflect.TypeOf(n.Op())
				used[strings.TrimPrefix(strings.TrimPrefix(fmt.Sprint(kind), "*"), "gorgonia.")] = true
			}
		}
	}
	for _, c := range opCases() {
		g := G.NewGraph()
		_, err := c.build(g)
		require.NoError(t, err)
		note(g)
	}
	for _, c := range graphs.Cases {
		b, err := c.Make(tensor.Float64, 1)
		require.NoError(t, err)
		note(b.Graph)
	}
	for _, kind := range lower.Kinds() {
		assert.True(t, used[kind], "no test has an op of type %s", kind)
	}
}
