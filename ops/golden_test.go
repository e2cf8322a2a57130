package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// goldenCase is one operator call and what onnxruntime answered; see
// testdata/golden/golden.py.
type goldenCase struct {
	Name, Domain, Op string
	Rtol, Atol       float64
	Attrs            map[string]any
	Inputs, Outputs  []*goldenArray
}

type goldenArray struct {
	DType string
	Shape []int
	Data  []any
}

// runGolden compares every case of a file with the reference kernels, and the
// types that inference finds with the results.
func runGolden(t *testing.T, file string) {
	raw, err := os.ReadFile("testdata/golden/" + file + ".json")
	require.NoError(t, err)
	var cases []goldenCase
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&cases))
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if Lookup(c.Domain, c.Op) == nil {
				t.Fatalf("operator %s is not in the table", c.Op)
			}
			n, in := c.node(t)
			require.NoError(t, Infer(n))
			call := &Call{Node: n, In: in, Threads: 1}
			require.NoError(t, Eval(call))
			for i, want := range c.Outputs {
				if want == nil {
					continue
				}
				got, ok := call.Out[i].(*ndarray.Array)
				require.True(t, ok, "result %d is no tensor", i)
				require.NoError(t, sameAsGolden(got, want, c.Rtol, c.Atol), "result %d", i)
				_, ok = ssa.StaticTensor(got.DType, got.Shape...).Refine(n.Out[i].Type)
				require.True(t, ok, "result %d is %s, inferred as %s", i, got, n.Out[i].Type)
			}
		})
	}
}

// node builds the call's node; small integer operands are constants so that
// shape rules can see them.
func (c *goldenCase) node(t *testing.T) (*ssa.Node, []ndarray.Value) {
	g := ssa.NewGraph("golden")
	var operands []*ssa.Value
	var in []ndarray.Value
	for i, src := range c.Inputs {
		if src == nil {
			operands, in = append(operands, nil), append(in, nil)
			continue
		}
		a := src.array(t)
		in = append(in, a)
		name := fmt.Sprintf("i%d", i)
		if a.DType == ndarray.Int64 && a.Rank() <= 1 {
			operands = append(operands, g.AddConst(name, ssa.NewConstant(a)))
			continue
		}
		operands = append(operands, g.AddParam(name, ssa.StaticTensor(a.DType, a.Shape...)))
	}
	n := g.NewNode(c.Op, operands, 0)
	n.Domain = c.Domain
	for i, o := range c.Outputs {
		name := ""
		if o != nil {
			name = fmt.Sprintf("o%d", i)
		}
		g.AddOutput(n, name)
	}
	for name, v := range c.Attrs { // order does not matter: attributes are looked up by name
		n.SetAttr(goldenAttr(t, name, v))
	}
	return n, in
}

func goldenAttr(t *testing.T, name string, v any) ssa.Attr {
	isFloat := func(n json.Number) bool { return strings.ContainsAny(string(n), ".e") }
	switch v := v.(type) {
	case string:
		return ssa.StringAttr(name, v)
	case json.Number:
		f, err := v.Float64()
		require.NoError(t, err)
		if isFloat(v) {
			return ssa.FloatAttr(name, float32(f))
		}
		return ssa.IntAttr(name, int64(f))
	case []any:
		a := ssa.Attr{Name: name, Kind: ssa.AttrInts}
		for _, e := range v {
			if s, ok := e.(string); ok {
				a.Kind, a.Strings = ssa.AttrStrings, append(a.Strings, s)
				continue
			}
			f, err := e.(json.Number).Float64()
			require.NoError(t, err)
			if isFloat(e.(json.Number)) {
				a.Kind = ssa.AttrFloats
			}
			a.Ints, a.Floats = append(a.Ints, int64(f)), append(a.Floats, float32(f))
		}
		return a
	}
	require.Fail(t, "attribute", "%s has a value of type %T", name, v)
	return ssa.Attr{}
}

func (a *goldenArray) array(t *testing.T) *ndarray.Array {
	dt, ok := ndarray.ParseDType(a.DType)
	require.True(t, ok, a.DType)
	out := ndarray.Must(dt, a.Shape...)
	for i, v := range a.Data {
		if dt.IsInteger() {
			n, err := v.(json.Number).Int64()
			require.NoError(t, err)
			out.SetInt(i, n)
			continue
		}
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		require.NoError(t, err)
		out.SetFloat(i, f)
	}
	return out
}

// sameAsGolden compares a result: integers may differ by one step where rtol
// allows it, NaN equals NaN.
func sameAsGolden(got *ndarray.Array, want *goldenArray, rtol, atol float64) error {
	if got.DType.String() != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Errorf("is %s, want %s%v", got, want.DType, want.Shape)
	}
	for i, v := range want.Data {
		w, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err != nil {
			return err
		}
		g := got.Float(i)
		if g == w || g != g && w != w || math.Abs(g-w) <= atol+rtol*math.Abs(w) {
			continue
		}
		return fmt.Errorf("element %d is %g, want %g", i, g, w)
	}
	return nil
}
