package ops_test

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
	"github.com/berth-onnx/berth/ops"
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

func TestMLGolden(t *testing.T) { runGolden(t, "ml") }

// runGolden compares every case of a file with the reference kernels: into fresh
// memory, into planned memory full of garbage, and over operands where the
// operator says so. The types that inference finds must fit the results.
func runGolden(t *testing.T, file string) {
	for _, c := range readGolden(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			n, in := c.node(t)
			require.NoError(t, ops.Infer(n))
			call := &ops.Call{Node: n, In: in, Threads: 1}
			require.NoError(t, ops.Eval(call))
			c.check(t, call.Out, "fresh")
			for i, v := range call.Out {
				got, ok := v.(*ndarray.Array)
				if c.Outputs[i] == nil || !ok {
					continue
				}
				_, ok = ssa.StaticTensor(got.DType, got.Shape...).Refine(n.Out[i].Type)
				require.True(t, ok, "result %d is %s, inferred as %s", i, got, n.Out[i].Type)
				require.True(t, n.Out[i].Type.IsStatic() || sizedByData[ops.Key{c.Domain, c.Op}], "result %d is %s, inferred only as %s", i, got, n.Out[i].Type)
			}
			if n.Out[0] != nil && len(call.Out) > 0 {
				if a, ok := call.Out[0].(*ndarray.Array); ok && a.DType == ndarray.String {
					return // strings lie in no planned memory
				}
			}
			again := &ops.Call{Node: n, In: cloneAll(in), Out: garbageLike(call.Out), Threads: 1}
			require.NoError(t, ops.Eval(again))
			c.check(t, again.Out, "planned")
			for _, p := range append(ops.InPlacePairs(n), ops.SmallerPairs(n)...) {
				over := &ops.Call{Node: n, In: cloneAll(in), Out: garbageLike(call.Out), Threads: 1}
				out := over.Out[p.Out].(*ndarray.Array)
				out.Data = over.In[p.In].(*ndarray.Array).Data[:len(out.Data)]
				require.NoError(t, ops.Eval(over))
				c.check(t, over.Out, fmt.Sprintf("result %d over operand %d", p.Out, p.In))
			}
		})
	}
}

// sizedByData lists the operators with recorded answers whose results have a shape
// that elements decide.
var sizedByData = map[ops.Key]bool{
	{"com.microsoft", "BifurcationDetector"}: true,
	{"com.microsoft", "DynamicTimeWarping"}:  true,
	{"com.microsoft", "Range"}:               true,
	{"com.microsoft", "Tokenizer"}:           true,
	{"com.microsoft", "Unique"}:              true,
}

// readGolden reads a file of cases.
func readGolden(t *testing.T, file string) (cases []goldenCase) {
	raw, err := os.ReadFile("testdata/golden/" + file + ".json")
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&cases))
	for _, c := range cases {
		require.NotNil(t, ops.Lookup(c.Domain, c.Op), "operator %s is not in the table", c.Op)
	}
	return cases
}

// Check compares results with the recorded ones.
func (c *goldenCase) check(t *testing.T, out []ndarray.Value, how string) {
	for i, want := range c.Outputs {
		if want == nil {
			continue
		}
		got, ok := out[i].(*ndarray.Array)
		require.True(t, ok, "%s: result %d is no tensor", how, i)
		require.NoError(t, sameAsGolden(got, want, c.Rtol, c.Atol), "%s: result %d", how, i)
	}
}

func cloneAll(in []ndarray.Value) []ndarray.Value {
	out := make([]ndarray.Value, len(in))
	for i, v := range in {
		if a, ok := v.(*ndarray.Array); ok {
			out[i] = a.Clone()
		}
	}
	return out
}

// garbageLike makes memory for results like the given ones.
func garbageLike(like []ndarray.Value) []ndarray.Value {
	out := cloneAll(like)
	for _, v := range out {
		if a, ok := v.(*ndarray.Array); ok {
			for i := range a.Data {
				a.Data[i] = 0xa5
			}
		}
	}
	return out
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
		if (a.DType == ndarray.Int64 || a.DType == ndarray.Int32) && a.Rank() <= 1 {
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
		if dt == ndarray.String {
			out.Str[i] = v.(string)
			continue
		}
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
		if got.DType == ndarray.String {
			if got.Str[i] != v {
				return fmt.Errorf("element %d is %q, want %q", i, got.Str[i], v)
			}
			continue
		}
		w, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err != nil {
			return err
		}
		if got.DType.IsFloat() { // recorded with as many digits as the type needs
			one := ndarray.Must(got.DType, 1)
			one.SetFloat(0, w)
			w = one.Float(0)
		}
		g := got.Float(i)
		if g == w || g != g && w != w || math.Abs(g-w) <= atol+rtol*math.Abs(w) {
			continue
		}
		return fmt.Errorf("element %d is %g, want %g", i, g, w)
	}
	return nil
}
