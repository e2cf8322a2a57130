package ops

import (
	"hash/fnv"
	"math"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Random operators draw from one generator per node. With the attribute seed they
// give the numbers the standard's reference implementation gives for it; without
// it the seed comes from the call and the node's name, so that two nodes differ
// and a program with a fixed seed repeats itself.

// RandomNormal draws from a normal distribution:
// https://onnx.ai/onnx/operators/onnx__RandomNormal.html
var RandomNormal = randomOp("RandomNormal", "Y ~ N(mean, scale²)", false, normalDraw, floatAttr("mean", 0), floatAttr("scale", 1))

// RandomNormalLike is [RandomNormal] with the shape of its operand:
// https://onnx.ai/onnx/operators/onnx__RandomNormalLike.html
var RandomNormalLike = randomOp("RandomNormalLike", "Y ~ N(mean, scale²), shape of X", true, normalDraw, floatAttr("mean", 0), floatAttr("scale", 1))

// RandomUniform draws evenly from [low, high):
// https://onnx.ai/onnx/operators/onnx__RandomUniform.html
var RandomUniform = randomOp("RandomUniform", "Y ~ U[low, high)", false, uniformDraw, floatAttr("low", 0), floatAttr("high", 1))

// RandomUniformLike is [RandomUniform] with the shape of its operand:
// https://onnx.ai/onnx/operators/onnx__RandomUniformLike.html
var RandomUniformLike = randomOp("RandomUniformLike", "Y ~ U[low, high), shape of X", true, uniformDraw, floatAttr("low", 0), floatAttr("high", 1))

func randomOp(name, doc string, like bool, draw func(*Call) func() float64, params ...AttrSpec) Op {
	o := Op{
		Name: name, Since: 22, Doc: doc, Form: randomForm(1),
		MinOut: 1, MaxOut: 1,
		Attrs: slices.Concat(params, []AttrSpec{floatAttr("seed")}),
		Infer: rule(inferRandom), Eval: kernel(func(c *Call) { evalRandom(c, draw) }),
		Facts: Facts{Traits: random},
	}
	if like {
		o.MinIn, o.MaxIn = 1, 1
		return o.with(intAttr("dtype"))
	}
	return o.with(intAttr("dtype", 1), intsAttr("shape").required())
}

// randomForm: bfloat16 came in 22.
func randomForm(base int) func(*ssa.Node) int {
	return func(n *ssa.Node) int {
		if usesType(n, ndarray.BFloat16) {
			return 22
		}
		return base
	}
}

// randomType is the element type of a random result: the attribute dtype, else
// the operand's type, else float32.
func randomType(n *ssa.Node, operand ndarray.DType) ndarray.DType {
	if len(n.In) == 0 {
		operand = ndarray.Float32
	}
	return try(dtypeAttr(n, "dtype", operand))
}

func inferRandom(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if len(n.In) == 0 {
		shape := shapeOfInts(Ints(n, "shape"))
		t = ssa.StaticTensor(ndarray.Undefined, shape...)
	}
	dt := randomType(n, t.DType)
	t.Kind, t.DType = ssa.KindTensor, dt
	return One(t)
}

func evalRandom(c *Call, draw func(*Call) func() float64) {
	var shape []int
	operand := ndarray.Undefined
	if len(c.Node.In) == 0 {
		shape = shapeOfInts(Ints(c.Node, "shape"))
	} else {
		a := tensor(c, 0)
		shape, operand = a.Shape, a.DType
	}
	dt := randomType(c.Node, operand)
	if !dt.IsFloat() {
		failf("result of type %s (set the attribute dtype to a float type): %w", dt, ErrUnsupported)
	}
	y, next := newResult[float64](c, 0, dt, shape...), draw(c)
	for i := range y.V {
		y.V[i] = next()
	}
	y.store()
}

// seedOf is the seed of a random node in this call.
func seedOf(c *Call) int64 {
	if s := float64(Float(c.Node, "seed")); c.Node.Has("seed") && s == s {
		return truncToInt64(s)
	}
	h := fnv.New32a()
	if v := c.Node.Output(0); v != nil {
		h.Write([]byte(v.Name))
	}
	return c.Seed ^ int64(h.Sum32())
}

func uniformDraw(c *Call) func() float64 {
	low, high := float64(Float(c.Node, "low")), float64(Float(c.Node, "high"))
	next := uniform(seedOf(c))
	return func() float64 { return low + (high-low)*next() }
}

func normalDraw(c *Call) func() float64 {
	mean, scale := float64(Float(c.Node, "mean")), float64(Float(c.Node, "scale"))
	next := gaussian(uniform(seedOf(c)))
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
var Bernoulli = Op{
	Name: "Bernoulli", Since: 22, Doc: "Y = U[0, 1) < X ? 1 : 0", Form: bernoulliForm,
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("dtype"), floatAttr("seed")},
	Infer: rule(inferRandom), Eval: kernel(evalBernoulli),
	Facts: Facts{Traits: random},
}

func bernoulliForm(n *ssa.Node) int {
	if InType(n, 0).DType == ndarray.BFloat16 {
		return 22
	}
	return 15
}

func evalBernoulli(c *Call) {
	a := tensor(c, 0)
	dt := try(dtypeAttr(c.Node, "dtype", a.DType))
	if !a.DType.IsFloat() || dt == ndarray.String {
		check(unsupportedType(a.DType))
	}
	out, next := result(c, 0, dt, a.Shape...), uniform(seedOf(c))
	for i, p := range elements[float64](a) {
		out.SetInt(i, int64(btoi(next() < p)))
	}
}

// Multinomial draws classes with the unnormalized log-probabilities in each row:
// https://onnx.ai/onnx/operators/onnx__Multinomial.html
var Multinomial = Op{
	Name: "Multinomial", Since: 22, Doc: "Y[b,s] ~ softmax(X[b,:])", Form: randomForm(7),
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("dtype", 6), intAttr("sample_size", 1), floatAttr("seed")},
	Infer: rule(inferMultinomial), Eval: kernel(evalMultinomial),
	Facts: Facts{Traits: random},
}

func multinomialArgs(n *ssa.Node) (dt ndarray.DType, samples int64) {
	dt = try(dtypeAttr(n, "dtype", ndarray.Int32))
	if dt != ndarray.Int32 && dt != ndarray.Int64 {
		check(badAttr("dtype", dt, "int32 or int64"))
	}
	if samples = Int(n, "sample_size"); samples < 0 || samples > math.MaxInt32 {
		check(badAttr("sample_size", samples, "a number of samples"))
	}
	return dt, samples
}

func inferMultinomial(n *ssa.Node) []Inferred {
	dt, samples := multinomialArgs(n)
	t := InType(n, 0)
	var batch ssa.Dim
	if t.Ranked {
		if len(t.Shape) != 2 {
			failf("operand of rank %d, it must be a matrix", len(t.Shape))
		}
		batch = t.Shape[0]
	}
	return One(ssa.TensorOf(dt, batch, ssa.D(samples)))
}

func evalMultinomial(c *Call) {
	dt, samples := multinomialArgs(c.Node)
	a := tensor(c, 0)
	if !a.DType.IsFloat() {
		check(unsupportedType(a.DType))
	}
	if len(a.Shape) != 2 {
		failf("operand of shape %v, it must be a matrix", a.Shape)
	}
	batch, classes := a.Shape[0], a.Shape[1]
	if classes == 0 && batch > 0 && samples > 0 {
		check(errEmptyAxis)
	}
	out := result(c, 0, dt, batch, int(samples))
	next, x := uniform(seedOf(c)), slices.Clone(elements[float64](a))
	for b := range batch {
		total := x[b*classes:][:classes] // running sums of the probabilities
		softmaxLine(total)
		for k := 1; k < classes; k++ {
			total[k] += total[k-1]
		}
		for s := range int(samples) {
			u := next() // class k owns [total[k-1], total[k])
			k := sort.Search(classes, func(k int) bool { return total[k] > u })
			out.SetInt(b*int(samples)+s, int64(min(k, classes-1)))
		}
	}
}
