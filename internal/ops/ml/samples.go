package ml

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// mlDomain is the domain of the classical machine learning operators.
const mlDomain = "ai.onnx.ml"

// samples is a batch of feature rows.
type samples struct {
	v    []float64
	n, f int // rows, features of each
}

// row returns the features of sample i.
func (s *samples) row(i int) []float64 { return s.v[i*s.f : (i+1)*s.f] }

// needSamples reads operand i as rows: [N, F], or [F] as a single row.
func needSamples(c *ops.Call, i int) *samples {
	a := kit.Tensor(c, i)
	if !a.DType.IsFloat() && !a.DType.IsInteger() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	switch a.Rank() {
	case 1:
		return &samples{kit.Elements[float64](c, a), 1, a.Shape[0]}
	case 2:
		return &samples{kit.Elements[float64](c, a), a.Shape[0], a.Shape[1]}
	}
	panic(kit.Failure{Err: fmt.Errorf("operand %d is %s, it must be [N, F] or [F]", i, a)})
}

// rowsOf is the number of rows of operand i, as far as known.
func rowsOf(n *ssa.Node, i int) ssa.Dim {
	switch t := ops.InType(n, i); t.Rank() {
	case 1:
		return ssa.D(1)
	case 2:
		return t.Shape[0]
	}
	return ssa.Dim{}
}

// classLabels is the labels of a classifier: strings or integers.
type classLabels struct {
	strings []string
	ints    []int64
}

// labelsOf reads the label attributes; the integer one has two names.
func labelsOf(n *ssa.Node) classLabels {
	l := classLabels{strings: ops.Strings(n, "classlabels_strings"), ints: ops.Ints(n, "classlabels_int64s")}
	if l.ints == nil {
		l.ints = ops.Ints(n, "classlabels_ints")
	}
	return l
}

// count is the number of labels.
func (l *classLabels) count() int { return max(len(l.strings), len(l.ints)) }

// dtype is the element type of the labels.
func (l *classLabels) dtype() ndarray.DType {
	if len(l.strings) > 0 {
		return ndarray.String
	}
	return ndarray.Int64
}

// output stores the label of every sample as result 0.
func (l *classLabels) output(c *ops.Call, class []int) {
	out := kit.Result(c, 0, l.dtype(), len(class))
	w := kit.Watching(c)
	for i, k := range class {
		w.Did(1)
		switch {
		case len(l.strings) > 0 && k < len(l.strings):
			out.Str[i] = l.strings[k]
		case len(l.strings) > 0:
			out.Str[i] = kit.Text(c, fmt.Sprint(k))
		case k < len(l.ints):
			out.SetInt(i, l.ints[k])
		default:
			out.SetInt(i, int64(k))
		}
	}
}

// inferClassifier is the type of labels and scores.
func inferClassifier(n *ssa.Node, columns ssa.Dim) []ops.Inferred {
	l := labelsOf(n)
	if len(l.strings) > 0 && len(l.ints) > 0 {
		kit.Failf("both integer and string labels are given")
	}
	rows := rowsOf(n, 0)
	return []ops.Inferred{{Type: ssa.TensorOf(l.dtype(), rows)}, {Type: ssa.TensorOf(ndarray.Float32, rows, columns)}}
}

// outputScores stores rows of equal length as result i.
func outputScores(c *ops.Call, i int, rows [][]float64, columns int) {
	out := kit.Result(c, i, ndarray.Float32, len(rows), columns)
	y := ndarray.Slice[float32](out)
	w := kit.Watching(c)
	for r, row := range rows {
		if len(row) != columns {
			kit.Failf("a row of scores has %d columns, expected %d", len(row), columns)
		}
		for k, v := range row {
			w.Did(1)
			y[r*columns+k] = float32(v)
		}
	}
}

// The transforms of scores that the attribute post_transform names.
const (
	transformNone     = "NONE"
	transformSoftmax  = "SOFTMAX"
	transformLogistic = "LOGISTIC"
	transformZero     = "SOFTMAX_ZERO"
	transformProbit   = "PROBIT"
)

// postTransformAttr declares the attribute.
var postTransformAttr = ops.StrAttr("post_transform", transformNone, transformSoftmax, transformLogistic, transformZero, transformProbit)

// postTransform returns the function that transforms a row of scores in place.
func postTransform(name string) func(row []float64) {
	switch name {
	case transformSoftmax:
		return func(row []float64) { kit.SoftmaxLine(new(kit.Watch), row) }
	case transformZero:
		return softmaxZero
	case transformLogistic:
		return func(row []float64) { kit.Activate(nil, row, kit.Sigmoid) }
	case transformProbit:
		return func(row []float64) { kit.Activate(nil, row, probit) }
	}
	return func([]float64) {}
}

// probit is the inverse of the normal distribution function.
func probit(v float64) float64 { return math.Sqrt2 * math.Erfinv(2*v-1) }

// softmaxZero is softmax where scores that are 0 stay so: they stand for classes
// without a vote.
func softmaxZero(row []float64) {
	most, sum := kit.LineMax(new(kit.Watch), row, math.Inf(-1)), 0.0
	for i, v := range row {
		row[i] = math.Exp(v - most)
		if math.Abs(v) <= 1e-7 {
			row[i] = v * math.Exp(-most)
		}
		sum += row[i]
	}
	for i := range row {
		row[i] /= sum
		if sum == 0 {
			row[i] = 0.5
		}
	}
}

// bestOf is the index of the largest score, the first of equals.
func bestOf(row []float64) int {
	best := 0
	for i, v := range row {
		if v > row[best] {
			best = i
		}
	}
	return best
}

func dotRow(x, w []float64) float64 {
	s := 0.0
	for i, v := range x {
		s += v * w[i]
	}
	return s
}

// widen converts an attribute's floats.
func widen(v []float32) []float64 {
	out := make([]float64, len(v))
	kit.Convert(nil, out, v, func(x float32) float64 { return float64(x) })
	return out
}

// twoScores turns the one score of a classifier for two classes, that of the
// second class, into scores of both. Untransformed, the first class's score is
// the rest to 1 where scores are probabilities or like them, else the negative.
func twoScores(v float64, transform string, rest bool) []float64 {
	row := []float64{-v, v}
	switch transform {
	case transformLogistic:
		kit.Activate(nil, row, kit.Sigmoid)
	case transformSoftmax:
		kit.SoftmaxLine(new(kit.Watch), row)
	case transformZero:
		softmaxZero(row)
	case transformProbit:
		return []float64{probit(1 - v), probit(v)}
	default:
		if rest {
			row[0] = 1 - v
		}
	}
	return row
}
