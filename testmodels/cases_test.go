package testmodels

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// A testCase is one set of inputs of a model.
type testCase struct {
	label  string
	shapes map[string][]int
	inputs map[string]ndarray.Value
}

// trips are the iteration counts that loops are tried with: no value of a built-in
// loop takes more than six iterations to come back to its place, so these are
// all counts up to twice that, and one more.
var trips = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}

// sizes are the values of symbolic dimensions, by symbol; T and P, the lengths of a
// sequence and of a cache, may be 0.
var sizes = []map[string]int64{
	{"N": 1, "S": 1, "M": 1, "T": 1, "P": 1},
	{"N": 2, "S": 5, "M": 3, "T": 4, "P": 6},
	{"N": 3, "S": 2, "M": 1, "T": 0, "P": 0},
}

// casesOf lists the inputs a model is tested with: every size of its symbols,
// every iteration count, both values of every flag.
func casesOf(m *ssa.Module) []testCase {
	dims := []map[string]int64{{}}
	if slices.ContainsFunc(m.Graph.Params, func(p *ssa.Value) bool { return !p.Type.IsStatic() }) {
		dims = sizes
	}
	var out []testCase
	for k, d := range dims {
		for _, c := range control(m.Graph.Params, testCase{inputs: map[string]ndarray.Value{}, shapes: map[string][]int{}}) {
			rng := rand.New(rand.NewPCG(uint64(k), uint64(len(out))))
			for _, p := range m.Graph.Params {
				if c.inputs[p.Name] == nil {
					c.inputs[p.Name] = draw(rng, p, d)
				}
				c.shapes[p.Name] = c.inputs[p.Name].(*ndarray.Array).Shape
			}
			c.label = fmt.Sprint(d) + c.label
			out = append(out, c)
		}
	}
	return out
}

// control multiplies a case by the values of iteration counts and flags.
func control(params []*ssa.Value, base testCase) []testCase {
	out := []testCase{base}
	for _, p := range params {
		var values []*ndarray.Array
		switch {
		case p.Name == "n":
			for _, n := range trips {
				values = append(values, ndarray.Scalar(n))
			}
		case p.Name == "m":
			values = []*ndarray.Array{ndarray.Scalar[int64](0), ndarray.Scalar[int64](1), ndarray.Scalar[int64](4)}
		case p.Type.DType == ndarray.Bool:
			values = []*ndarray.Array{ndarray.Scalar(true), ndarray.Scalar(false)}
		default:
			continue
		}
		var more []testCase
		for _, c := range out {
			for _, v := range values {
				next := testCase{inputs: maps.Clone(c.inputs), shapes: map[string][]int{}}
				next.inputs[p.Name] = v
				next.label = fmt.Sprintf("%s %s=%d", c.label, p.Name, v.Int(0))
				more = append(more, next)
			}
		}
		out = more
	}
	return out
}

// draw makes normal floats and small indices; a mask is all ones but its end.
func draw(rng *rand.Rand, p *ssa.Value, dims map[string]int64) *ndarray.Array {
	shape, _ := p.Type.Bind(dims).Static()
	a := ndarray.Must(p.Type.DType, shape...)
	for i := range a.Len() {
		switch {
		case p.Name == "mask":
			a.SetInt(i, int64(min(1, a.Len()-1-i)))
		case p.Type.DType == ndarray.Int64:
			a.SetInt(i, int64(rng.IntN(10)))
		default:
			a.SetFloat(i, rng.NormFloat64())
		}
	}
	return a
}

// args orders a case's inputs as the graph's parameters.
func (c testCase) args(g *ssa.Graph) []ndarray.Value {
	out := make([]ndarray.Value, len(g.Params))
	for i, p := range g.Params {
		out[i] = c.inputs[p.Name]
	}
	return out
}

// liveliness returns the mean and the standard deviation of an array; ok is false
// if any element is not finite.
func liveliness(a *ndarray.Array) (mean, deviation float64, ok bool) {
	n := float64(max(a.Len(), 1))
	var squares float64
	for i := range a.Len() {
		x := a.Float(i)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return 0, 0, false
		}
		mean += x / n
		squares += x * x / n
	}
	return mean, math.Sqrt(max(squares-mean*mean, 0)), true
}
