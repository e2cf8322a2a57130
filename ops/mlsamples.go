package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
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
func needSamples(c *Call, i int) *samples {
	a := tensor(c, i)
	if !a.DType.IsFloat() && !a.DType.IsInteger() {
		check(unsupportedType(a.DType))
	}
	switch a.Rank() {
	case 1:
		return &samples{elements[float64](a), 1, a.Shape[0]}
	case 2:
		return &samples{elements[float64](a), a.Shape[0], a.Shape[1]}
	}
	panic(failure{fmt.Errorf("operand %d is %s, it must be [N, F] or [F]", i, a)})
}

// rowsOf is the number of rows of operand i, as far as known.
func rowsOf(n *ssa.Node, i int) ssa.Dim {
	switch t := InType(n, i); t.Rank() {
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
	l := classLabels{strings: Strings(n, "classlabels_strings"), ints: Ints(n, "classlabels_int64s")}
	if l.ints == nil {
		l.ints = Ints(n, "classlabels_ints")
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
func (l *classLabels) output(c *Call, class []int) {
	out := result(c, 0, l.dtype(), len(class))
	for i, k := range class {
		switch {
		case len(l.strings) > 0 && k < len(l.strings):
			out.Str[i] = l.strings[k]
		case len(l.strings) > 0:
			out.Str[i] = fmt.Sprint(k)
		case k < len(l.ints):
			out.SetInt(i, l.ints[k])
		default:
			out.SetInt(i, int64(k))
		}
	}
}

// inferClassifier is the type of labels and scores.
func inferClassifier(n *ssa.Node, columns ssa.Dim) []Inferred {
	l := labelsOf(n)
	if len(l.strings) > 0 && len(l.ints) > 0 {
		failf("both integer and string labels are given")
	}
	rows := rowsOf(n, 0)
	return []Inferred{{Type: ssa.TensorOf(l.dtype(), rows)}, {Type: ssa.TensorOf(ndarray.Float32, rows, columns)}}
}

// outputScores stores rows of equal length as result i.
func outputScores(c *Call, i int, rows [][]float64, columns int) {
	out := result(c, i, ndarray.Float32, len(rows), columns)
	y := ndarray.Slice[float32](out)
	for r, row := range rows {
		if len(row) != columns {
			failf("a row of scores has %d columns, expected %d", len(row), columns)
		}
		for k, v := range row {
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

// postTransformAttr declares it.
var postTransformAttr = strAttr("post_transform", transformNone, transformSoftmax, transformLogistic, transformZero, transformProbit)

// postTransform returns the function that transforms a row of scores in place.
func postTransform(name string) (func(row []float64), error) {
	switch name {
	case transformNone:
		return func([]float64) {}, nil
	case transformSoftmax:
		return softmaxLine[float64], nil
	case transformZero:
		return softmaxZero, nil
	case transformLogistic:
		return func(row []float64) { mapRow(row, sigmoid) }, nil
	case transformProbit:
		return func(row []float64) { mapRow(row, probit) }, nil
	}
	return nil, badAttr("post_transform", name, "NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT")
}

func mapRow(row []float64, f func(float64) float64) {
	for i, v := range row {
		row[i] = f(v)
	}
}

// probit is the inverse of the normal distribution function.
func probit(v float64) float64 { return math.Sqrt2 * math.Erfinv(2*v-1) }

// softmaxZero is softmax where scores that are 0 stay so: they stand for classes
// without a vote.
func softmaxZero(row []float64) {
	most, sum := lineMax(row, math.Inf(-1)), 0.0
	for i, v := range row {
		if math.Abs(v) <= 1e-7 {
			row[i] = v * math.Exp(-most)
		} else {
			row[i] = math.Exp(v - most)
		}
		sum += row[i]
	}
	for i := range row {
		if sum == 0 {
			row[i] = 0.5
		} else {
			row[i] /= sum
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
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// twoScores turns the one score of a classifier for two classes, that of the
// second class, into scores of both. Untransformed, the first class's score is
// the rest to 1 where scores are (like) probabilities, else the negative.
func twoScores(v float64, transform string, rest bool) []float64 {
	row := []float64{-v, v}
	switch transform {
	case transformLogistic:
		mapRow(row, sigmoid)
	case transformSoftmax:
		softmaxLine(row)
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
