package graphgen

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Inputs draws a value for every parameter of a graph. Symbols are bound by
// bind; unbound symbols get a small size each, the same everywhere, recorded in
// bind. Unknown dimensions are 2.
func Inputs(rng *rand.Rand, g *ssa.Graph, bind map[string]int64) ([]ndarray.Value, error) {
	out := make([]ndarray.Value, len(g.Params))
	for i, p := range g.Params {
		v, err := Value(rng, p.Type, bind)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		out[i] = v
	}
	return out, nil
}

// Value draws a value of a type.
func Value(rng *rand.Rand, t ssa.Type, bind map[string]int64) (ndarray.Value, error) {
	switch t.Kind {
	case ssa.KindSequence:
		s := &ndarray.Sequence{Elem: t.Elem.DType}
		for range 1 + rng.IntN(3) {
			v, err := Value(rng, *t.Elem, bind)
			if err != nil {
				return nil, err
			}
			s.Items = append(s.Items, v)
		}
		return s, nil
	case ssa.KindOptional:
		v, err := Value(rng, *t.Elem, bind)
		return &ndarray.Optional{Value: v}, err
	case ssa.KindTensor:
	default:
		return nil, fmt.Errorf("no random value of type %s", t)
	}
	for _, d := range t.Shape {
		for _, s := range d.Symbols(nil) {
			if _, ok := bind[s]; !ok {
				bind[s] = int64(1 + rng.IntN(4))
			}
		}
	}
	shape := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		n, ok := d.Bind(bind).Const()
		if !ok {
			n = 2
		}
		shape[i] = int(max(n, 0))
	}
	return Array(rng, t.DType, shape...)
}

// Array draws the elements of a tensor: floats around zero with now and then an
// exact small number, integers from -4 to 8 (unsigned from 0), short strings.
func Array(rng *rand.Rand, dt ndarray.DType, shape ...int) (*ndarray.Array, error) {
	a, err := ndarray.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	for i := range a.Len() {
		switch {
		case dt == ndarray.String:
			a.Str[i] = string(rune('a' + rng.IntN(4)))
		case dt == ndarray.Bool:
			a.SetInt(i, int64(rng.IntN(2)))
		case dt.IsUnsigned():
			a.SetInt(i, int64(rng.IntN(9)))
		case dt.IsSigned():
			a.SetInt(i, int64(rng.IntN(13)-4))
		case rng.IntN(4) == 0:
			a.SetFloat(i, float64(rng.IntN(5)-2))
		default:
			a.SetFloat(i, math.Round(rng.NormFloat64()*1024)/1024)
		}
	}
	return a, nil
}
