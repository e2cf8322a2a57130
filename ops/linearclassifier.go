package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// LinearClassifier scores classes by linear functions:
// https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html
//
//	scores = post(X · coefficientsᵀ + intercepts),  label = argmax(scores)
//
// A single function for two classes scores the second one; its sign decides.
var LinearClassifier = Op{
	Domain: mlDomain, Name: "LinearClassifier", Since: 1, Doc: "Y = label of the largest of Z = post(X·Wᵀ + b)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: []AttrSpec{floatsAttr("coefficients").required(), floatsAttr("intercepts"),
		intsAttr("classlabels_ints"), stringsAttr("classlabels_strings"),
		intAttr("multi_class", 0), postTransformAttr},
	Facts: Facts{Traits: general}, Infer: rule(inferLinearClassifier), Eval: kernel(evalLinearClassifier),
}

// LinearRegressor evaluates linear functions:
// https://onnx.ai/onnx/operators/onnx_aionnxml_LinearRegressor.html
var LinearRegressor = Op{
	Domain: mlDomain, Name: "LinearRegressor", Since: 1, Doc: "Y = post(X·Wᵀ + b)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatsAttr("coefficients"), floatsAttr("intercepts"),
		intAttr("targets", 1), postTransformAttr},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		return One(ssa.TensorOf(ndarray.Float32, rowsOf(n, 0), ssa.D(Int(n, "targets"))))
	}),
	Eval: kernel(evalLinearRegressor),
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
	m := &linearMap{w: widen(Floats(n, "coefficients")), b: widen(Floats(n, "intercepts")), k: rows}
	if rows == 0 && features > 0 {
		m.k = len(m.w) / features
	}
	if m.k < 1 || len(m.w) != m.k*features {
		failf("%d coefficients for %d features and %d functions", len(m.w), features, m.k)
	}
	if len(m.b) == 0 {
		m.b = make([]float64, m.k)
	}
	if len(m.b) != m.k {
		failf("%d intercepts for %d functions", len(m.b), m.k)
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

func inferLinearClassifier(n *ssa.Node) []Inferred {
	cols, labels := ssa.Dim{}, labelsOf(n)
	if t := InType(n, 0); t.Rank() > 0 {
		if f, ok := t.Shape[len(t.Shape)-1].Const(); ok && f > 0 {
			k := int64(len(Floats(n, "coefficients"))) / f
			if k == 1 && labels.count() == 2 {
				k = 2
			}
			cols = ssa.D(k)
		}
	}
	return inferClassifier(n, cols)
}

func evalLinearClassifier(c *Call) {
	x := needSamples(c, 0)
	m := linearMapOf(c.Node, x.f, 0)
	transform := Str(c.Node, "post_transform")
	post := try(postTransform(transform))
	labels, cols := labelsOf(c.Node), m.k
	two := m.k == 1 && labels.count() == 2
	if two {
		cols = 2
	}
	class, scores := make([]int, x.n), make([][]float64, x.n)
	for i := range x.n {
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
		oneLabel(c, labels, class, scores)
		return
	}
	labels.output(c, class)
	outputScores(c, 1, scores, cols)
}

// oneLabel stores the results of a classifier that knows one label only: the
// label where the score is above 0, else 0 or the empty string.
func oneLabel(c *Call, labels classLabels, class []int, scores [][]float64) {
	both := classLabels{ints: append([]int64{0}, labels.ints...)}
	if len(labels.strings) > 0 {
		both = classLabels{strings: append([]string{""}, labels.strings...)}
	}
	both.output(c, class)
	outputScores(c, 1, scores, 1)
}

func evalLinearRegressor(c *Call) {
	x := needSamples(c, 0)
	targets := Int(c.Node, "targets")
	if targets < 1 || targets > 1<<31 {
		check(badAttr("targets", targets, "above 0"))
	}
	m := linearMapOf(c.Node, x.f, int(targets))
	post := try(postTransform(Str(c.Node, "post_transform")))
	rows := make([][]float64, x.n)
	for i := range rows {
		rows[i] = m.apply(x.row(i))
		post(rows[i])
	}
	outputScores(c, 0, rows, m.k)
}
