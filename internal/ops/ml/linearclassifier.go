package ml

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// LinearClassifier scores classes by linear functions:
// https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html
//
//	scores = post(X · coefficientsᵀ + intercepts),  label = argmax(scores)
//
// A single function for two classes scores the second one; its sign decides.
var LinearClassifier = ops.Op{
	Domain: mlDomain, Name: "LinearClassifier", Since: 1, Doc: "Y = label of the largest of Z = post(X·Wᵀ + b)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.FloatsAttr("coefficients").Mandatory(), ops.FloatsAttr("intercepts"),
		ops.IntsAttr("classlabels_ints"), ops.StringsAttr("classlabels_strings"),
		ops.IntAttr("multi_class", 0), postTransformAttr},
	Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits}, Infer: kit.Rule(inferLinearClassifier), Eval: kit.Kernel(evalLinearClassifier),
}

// LinearRegressor evaluates linear functions:
// https://onnx.ai/onnx/operators/onnx_aionnxml_LinearRegressor.html
var LinearRegressor = ops.Op{
	Domain: mlDomain, Name: "LinearRegressor", Since: 1, Doc: "Y = post(X·Wᵀ + b)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatsAttr("coefficients"), ops.FloatsAttr("intercepts"),
		ops.IntAttr("targets", 1).Between(1, 1<<31), postTransformAttr},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(ssa.TensorOf(ndarray.Float32, rowsOf(n, 0), ssa.D(ops.Int(n, "targets"))))
	}),
	Eval: kit.Kernel(evalLinearRegressor),
}

// linearMap is functions w·x + b, one row of weights each.
type linearMap struct {
	w []float64
	b []float64
	k int // functions
}

// linearMapOf reads the attributes; rows tells how many functions there are, 0
// for as many as the coefficients give.
func linearMapOf(n *ssa.Node, features, rows int) *linearMap {
	m := &linearMap{w: widen(ops.Floats(n, "coefficients")), b: widen(ops.Floats(n, "intercepts")), k: rows}
	if rows == 0 && features > 0 {
		m.k = len(m.w) / features
	}
	if m.k < 1 || len(m.w) != m.k*features {
		kit.Failf("%d coefficients for %d features and %d functions", len(m.w), features, m.k)
	}
	if len(m.b) == 0 {
		m.b = make([]float64, m.k)
	}
	if len(m.b) != m.k {
		kit.Failf("%d intercepts for %d functions", len(m.b), m.k)
	}
	return m
}

func (m *linearMap) apply(x []float64) []float64 {
	out := make([]float64, m.k)
	for i := range out {
		out[i] = m.b[i] + dotRow(x, m.w[i*len(x):])
	}
	return out
}

func inferLinearClassifier(n *ssa.Node) []ops.Inferred {
	cols, labels := ssa.Dim{}, labelsOf(n)
	if t := ops.InType(n, 0); t.Rank() > 0 {
		if f, ok := t.Shape[len(t.Shape)-1].Const(); ok && f > 0 {
			k := int64(len(ops.Floats(n, "coefficients"))) / f
			if k == 1 && labels.count() == 2 {
				k = 2
			}
			cols = ssa.D(k)
		}
	}
	return inferClassifier(n, cols)
}

func evalLinearClassifier(c *ops.Call) {
	x := needSamples(c, 0)
	m := linearMapOf(c.Node, x.f, 0)
	transform := ops.Str(c.Node, "post_transform")
	post := postTransform(transform)
	labels, cols := labelsOf(c.Node), m.k
	two := m.k == 1 && labels.count() == 2
	if two {
		cols = 2
	}
	class, scores := kit.Make[int](c, x.n), kit.Make[[]float64](c, x.n)
	w := kit.Watching(c)
	for i := range x.n {
		w.Did(1 + len(m.w))
		row := m.apply(x.row(i))
		class[i] = bestOf(row)
		if m.k == 1 && row[0] > 0 {
			class[i] = 1
		}
		if two {
			row = twoScores(row[0], transform, true)
		} else {
			post(row)
		}
		scores[i] = row
	}
	if m.k == 1 && labels.count() == 1 {
		labels = labels.orNone()
	}
	labels.output(c, class)
	outputScores(c, 1, scores, cols)
}

// orNone puts a label for "no class", 0 or the empty string, before a single one.
func (l *classLabels) orNone() classLabels {
	if len(l.strings) > 0 {
		return classLabels{strings: append([]string{""}, l.strings...)}
	}
	return classLabels{ints: append([]int64{0}, l.ints...)}
}

func evalLinearRegressor(c *ops.Call) {
	x := needSamples(c, 0)
	m := linearMapOf(c.Node, x.f, int(ops.Int(c.Node, "targets")))
	post := postTransform(ops.Str(c.Node, "post_transform"))
	rows := kit.Make[[]float64](c, x.n)
	w := kit.Watching(c)
	for i := range rows {
		w.Did(1 + len(m.w))
		rows[i] = m.apply(x.row(i))
		post(rows[i])
	}
	outputScores(c, 0, rows, m.k)
}
