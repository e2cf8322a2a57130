package generator

import (
	"hash/fnv"
	"math"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Random operators draw from one generator per node. With the attribute seed they
// give the numbers the standard's reference implementation gives for it; without
// it the seed comes from the call and the node's name, so that two nodes differ
// and a program with a fixed seed repeats itself.

// RandomNormal draws from a normal distribution:
// https://onnx.ai/onnx/operators/onnx__RandomNormal.html
var RandomNormal = randomOp("RandomNormal", "Y ~ N(mean, scale²)", false, normalDraw, ops.FloatAttr("mean", 0), ops.FloatAttr("scale", 1))

// RandomNormalLike is [RandomNormal] with the shape of its operand:
// https://onnx.ai/onnx/operators/onnx__RandomNormalLike.html
var RandomNormalLike = randomOp("RandomNormalLike", "Y ~ N(mean, scale²), shape of X", true, normalDraw, ops.FloatAttr("mean", 0), ops.FloatAttr("scale", 1))

// RandomUniform draws evenly from [low, high):
// https://onnx.ai/onnx/operators/onnx__RandomUniform.html
var RandomUniform = randomOp("RandomUniform", "Y ~ U[low, high)", false, uniformDraw, ops.FloatAttr("low", 0), ops.FloatAttr("high", 1))

// RandomUniformLike is [RandomUniform] with the shape of its operand:
// https://onnx.ai/onnx/operators/onnx__RandomUniformLike.html
var RandomUniformLike = randomOp("RandomUniformLike", "Y ~ U[low, high), shape of X", true, uniformDraw, ops.FloatAttr("low", 0), ops.FloatAttr("high", 1))

func randomOp(name, doc string, like bool, draw func(*ops.Call) func() float64, params ...*ops.AttrSpec) ops.Op {
	o := ops.Op{
		Name: name, Since: 22, Doc: doc, Form: kit.SinceTypes(1, 22, ndarray.BFloat16),
		MinOut: 1, MaxOut: 1,
		Attrs: slices.Concat(params, []*ops.AttrSpec{ops.FloatAttr("seed")}),
		Infer: kit.Rule(inferRandom), Eval: kit.Kernel(func(c *ops.Call) { evalRandom(c, draw) }),
		Facts: ops.Facts{Traits: ops.RandomTraits},
	}
	if like {
		o.MinIn, o.MaxIn = 1, 1
		return kit.WithAttrs(o, ops.IntAttr("dtype"))
	}
	return kit.WithAttrs(o, ops.IntAttr("dtype", 1), ops.IntsAttr("shape").Mandatory())
}

// randomType is the element type of a random result: the attribute dtype, else
// the operand's type, else float32.
func randomType(n *ssa.Node, operand ndarray.DType) ndarray.DType {
	if len(n.In) == 0 {
		operand = ndarray.Float32
	}
	return kit.Try(kit.DtypeAttr(n, "dtype", operand))
}

func inferRandom(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if len(n.In) == 0 {
		t = ssa.StaticTensor(ndarray.Undefined, kit.ShapeOfInts(ops.Ints(n, "shape"))...)
	}
	return ops.One(kit.Retyped(t, randomType(n, t.DType)))
}

func evalRandom(c *ops.Call, draw func(*ops.Call) func() float64) {
	var shape []int
	operand := ndarray.Undefined
	if len(c.Node.In) == 0 {
		shape = kit.ShapeOfInts(ops.Ints(c.Node, "shape"))
	} else {
		a := kit.Tensor(c, 0)
		shape, operand = a.Shape, a.DType
	}
	dt := randomType(c.Node, operand)
	if !dt.IsFloat() {
		kit.Failf("result of type %s (set the attribute dtype to a float type): %w", dt, ops.ErrUnsupported)
	}
	y, next := kit.NewResult[float64](c, 0, dt, shape...), draw(c)
	for i := range y.V {
		y.V[i] = next()
	}
	y.Store()
}

// seedOf is the seed of a random node in this call.
func seedOf(c *ops.Call) int64 {
	if s := float64(ops.Float(c.Node, "seed")); c.Node.Has("seed") && s == s {
		return kit.TruncToInt64(s)
	}
	h := fnv.New32a()
	if v := c.Node.Output(0); v != nil {
		h.Write([]byte(v.Name))
	}
	return c.Seed ^ int64(h.Sum32())
}

func uniformDraw(c *ops.Call) func() float64 {
	low, high := float64(ops.Float(c.Node, "low")), float64(ops.Float(c.Node, "high"))
	next := kit.Uniform(c, seedOf(c))
	return func() float64 { return low + (high-low)*next() }
}

func normalDraw(c *ops.Call) func() float64 {
	mean, scale := float64(ops.Float(c.Node, "mean")), float64(ops.Float(c.Node, "scale"))
	next := gaussian(kit.Uniform(c, seedOf(c)))
	return func() float64 { return mean + scale*next() }
}

// gaussian turns evenly distributed numbers into normally distributed ones by the
// polar method: a point that falls into the unit circle gives two.
// Source: G. Marsaglia, T. Bray, "A Convenient Method for Generating Normal
// Variables", SIAM Review 6(3), 1964.
func gaussian(uniform func() float64) func() float64 {
	var kept float64
	has := false
	return func() float64 {
		if has {
			has = false
			return kept
		}
		for {
			x, y := 2*uniform()-1, 2*uniform()-1
			r := x*x + y*y
			if r == 0 || r >= 1 {
				continue
			}
			f := math.Sqrt(-2 * math.Log(r) / r)
			kept, has = f*x, true
			return f * y
		}
	}
}

// Bernoulli draws 1 with the probability given by each element, else 0:
// https://onnx.ai/onnx/operators/onnx__Bernoulli.html
var Bernoulli = ops.Op{
	Name: "Bernoulli", Since: 22, Doc: "Y = U[0, 1) < X ? 1 : 0", Form: kit.FormBy(kit.From(15, kit.AnyType&^kit.BfloatType), kit.From(22, kit.AnyType)),
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("dtype"), ops.FloatAttr("seed")},
	Infer: kit.Rule(inferRandom), Eval: kit.Kernel(evalBernoulli),
	Facts: ops.Facts{Traits: ops.RandomTraits},
}

func evalBernoulli(c *ops.Call) {
	a := kit.Tensor(c, 0)
	dt := kit.Try(kit.DtypeAttr(c.Node, "dtype", a.DType))
	if !a.DType.IsFloat() || dt == ndarray.String {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	out, next := kit.Result(c, 0, dt, a.Shape...), kit.Uniform(c, seedOf(c))
	for i, p := range kit.Elements[float64](c, a) {
		out.SetInt(i, int64(kit.Btoi(next() < p)))
	}
}

// Multinomial draws classes with the unnormalized log-probabilities in each row:
// https://onnx.ai/onnx/operators/onnx__Multinomial.html
var Multinomial = ops.Op{
	Name: "Multinomial", Since: 22, Doc: "Y[b,s] ~ softmax(X[b,:])", Form: kit.SinceTypes(7, 22, ndarray.BFloat16),
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("dtype", 6), ops.IntAttr("sample_size", 1).Between(0, math.MaxInt32), ops.FloatAttr("seed")},
	Infer: kit.Rule(inferMultinomial), Eval: kit.Kernel(evalMultinomial),
	Facts: ops.Facts{Traits: ops.RandomTraits},
}

func multinomialArgs(n *ssa.Node) (dt ndarray.DType, samples int64) {
	dt = kit.Try(kit.DtypeAttr(n, "dtype", ndarray.Int32))
	if dt != ndarray.Int32 && dt != ndarray.Int64 {
		kit.Check(kit.BadAttr("dtype", dt, "int32 or int64"))
	}
	return dt, ops.Int(n, "sample_size")
}

func inferMultinomial(n *ssa.Node) []ops.Inferred {
	dt, samples := multinomialArgs(n)
	t := ops.InType(n, 0)
	var batch ssa.Dim
	if t.Ranked {
		if len(t.Shape) != 2 {
			kit.Failf("operand of rank %d, it must be a matrix", len(t.Shape))
		}
		batch = t.Shape[0]
	}
	return ops.One(ssa.TensorOf(dt, batch, ssa.D(samples)))
}

func evalMultinomial(c *ops.Call) {
	dt, samples := multinomialArgs(c.Node)
	a := kit.Tensor(c, 0)
	if !a.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	if len(a.Shape) != 2 {
		kit.Failf("operand of shape %v, it must be a matrix", a.Shape)
	}
	batch, classes := a.Shape[0], a.Shape[1]
	if classes == 0 && batch > 0 && samples > 0 {
		kit.Check(kit.ErrEmptyAxis)
	}
	out := kit.Result(c, 0, dt, batch, int(samples))
	next, x := kit.Uniform(c, seedOf(c)), kit.Copy(c, kit.Elements[float64](c, a))
	w := kit.Watching(c)
	for b := range batch {
		total := x[b*classes:][:classes] // running sums of the probabilities
		kit.SoftmaxLine(&w, total)
		for k := 1; k < classes; k++ {
			w.Did(1)
			total[k] += total[k-1]
		}
		for s := range int(samples) {
			u := next() // class k owns [total[k-1], total[k])
			k := sort.Search(classes, func(k int) bool { return total[k] > u })
			out.SetInt(b*int(samples)+s, int64(min(k, classes-1)))
		}
	}
}
