package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// TestInferenceAgrees: the type, shape and content inferred of every value in
// every recorded test fit what ran. The inputs' symbols stand for the sizes the
// test gives.
func TestInferenceAgrees(t *testing.T) {
	eachCase(t, func(t *testing.T, _ string, c *conformance.Case) {
		mod, in := stripped(t, c), firstSet(t, c)
		args := make([]ndarray.Value, len(mod.Graph.Params))
		bind := map[string]int64{}
		for i, p := range mod.Graph.Params {
			args[i] = argument(t, mod, p, in)
			bindSymbols(bind, p.Type, args[i])
		}
		_, err := ops.Interpret(context.Background(), mod.Graph, args, func(n *ssa.Node, out []ndarray.Value) {
			for i, v := range n.Out {
				if v != nil && out[i] != nil {
					assert.NoError(t, agrees(v, out[i], bind), "result %d of %s", i, n)
				}
			}
		})
		require.NoError(t, err)
	})
}

// TestInferenceKnowsWhatONNXKnows: where ONNX's own inference finds a rank or a
// number, the rules here do; see testdata/inference/gen.py.
func TestInferenceKnowsWhatONNXKnows(t *testing.T) {
	raw, err := os.ReadFile("testdata/inference/known.json")
	require.NoError(t, err)
	var table map[string]map[string]string
	require.NoError(t, json.Unmarshal(raw, &table))
	eachCase(t, func(t *testing.T, archive string, c *conformance.Case) {
		want := table[archive+"/"+c.Name]
		if len(want) == 0 {
			return
		}
		mod := stripped(t, c)
		types := map[string]ssa.Type{}
		for _, v := range mod.Graph.Values() {
			types[v.Name] = v.Type
		}
		for i, v := range mod.Graph.Results { // may go by other names
			types[mod.OutputName(i)] = v.Type
		}
		for name, dims := range want {
			if got, ok := types[name]; ok { // an upgrade may do without a value in between
				assert.NoError(t, knows(got, dims), name)
			}
		}
	})
}

// eachCase runs a check for every case of every archive, side by side.
func eachCase(t *testing.T, check func(t *testing.T, archive string, c *conformance.Case)) {
	for _, path := range archives(t) {
		t.Run(archiveName(path), func(t *testing.T) {
			cases, err := conformance.Open(path)
			require.NoError(t, err)
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					check(t, archiveName(path), c)
				})
			}
		})
	}
}

// stripped imports a case's model without the shapes it declares for results, so
// that what is known of them comes from the rules.
func stripped(t *testing.T, c *conformance.Case) *ssa.Module {
	data, err := c.ModelBytes()
	require.NoError(t, err)
	m, err := onnxwire.Parse(data)
	require.NoError(t, err)
	m.Graph.ValueInfo = nil
	for _, o := range m.Graph.Outputs {
		if o.Type != nil && o.Type.Tensor != nil {
			o.Type.Tensor.Shape = nil
		}
	}
	data, err = onnxwire.Marshal(m)
	require.NoError(t, err)
	mod, err := onnximport.FromBytes(data, "", onnximport.Options{})
	require.NoError(t, err)
	return mod
}

func firstSet(t *testing.T, c *conformance.Case) []conformance.Named {
	sig, err := c.Signature(t.Context())
	require.NoError(t, err)
	names, err := c.SetNames()
	require.NoError(t, err)
	set, err := c.LoadSet(t.Context(), sig, names[0])
	require.NoError(t, err)
	return set.Inputs
}

// argument is what a parameter gets: the test's value or the model's default.
func argument(t *testing.T, mod *ssa.Module, p *ssa.Value, in []conformance.Named) ndarray.Value {
	if i := slices.IndexFunc(in, func(v conformance.Named) bool { return v.Name == p.Name }); i >= 0 {
		return in[i].Value
	}
	def := mod.Defaults[p.Name]
	require.NotNil(t, def, "no value for input %s", p.Name)
	a, err := def.Array()
	require.NoError(t, err)
	return a
}

// bindSymbols notes the sizes that a parameter's symbols stand for.
func bindSymbols(bind map[string]int64, typ ssa.Type, v ndarray.Value) {
	a, ok := v.(*ndarray.Array)
	if !ok || len(typ.Shape) != a.Rank() {
		return
	}
	for i, d := range typ.Shape {
		if s, ok := d.SymbolName(); ok {
			bind[s] = int64(a.Shape[i])
		}
	}
}

// agrees compares what was inferred of a value with what it is.
func agrees(v *ssa.Value, got ndarray.Value, bind map[string]int64) error {
	if err := typeAgrees(v.Type.Bind(bind), got); err != nil {
		return err
	}
	a, ok := got.(*ndarray.Array)
	if !ok || v.Content == nil {
		return nil
	}
	if len(v.Content) != a.Len() {
		return fmt.Errorf("%s has %d elements, %d inferred", a, a.Len(), len(v.Content))
	}
	for i, d := range v.Content {
		if n, ok := d.Bind(bind).Const(); ok && n != a.Int(i) {
			return fmt.Errorf("element %d is %d, inferred %s", i, a.Int(i), d)
		}
	}
	return nil
}

// typeAgrees compares a type with a value, members of sequences included.
func typeAgrees(t ssa.Type, got ndarray.Value) error {
	fail := func() error { return fmt.Errorf("is %v, inferred %s", got, t) }
	switch got := got.(type) {
	case *ndarray.Array:
		if t.Kind == ssa.KindOptional && t.Elem != nil {
			return typeAgrees(*t.Elem, got)
		}
		if _, ok := ssa.StaticTensor(got.DType, got.Shape...).Refine(t); !ok {
			return fail()
		}
	case *ndarray.Sequence:
		if t.Kind == ssa.KindOptional && t.Elem != nil {
			return typeAgrees(*t.Elem, got)
		}
		if t.Kind != ssa.KindUnknown && t.Kind != ssa.KindSequence {
			return fail()
		}
		for _, m := range got.Items {
			if t.Elem == nil {
				break
			}
			if err := typeAgrees(*t.Elem, m); err != nil {
				return err
			}
		}
	case *ndarray.Optional:
		if t.Kind != ssa.KindUnknown && t.Kind != ssa.KindOptional {
			return fail()
		}
	case *ndarray.Map:
		if t.Kind != ssa.KindUnknown && t.Kind != ssa.KindMap {
			return fail()
		}
	}
	return nil
}

// knows compares a type with the dimensions ONNX knows, "?" being no number. An
// input's declared length of 0 is a symbol here, since exporters write 0 for
// lengths they do not know.
func knows(t ssa.Type, dims string) error {
	want := strings.Split(dims, ",")
	if dims == "" {
		want = nil
	}
	if t.Kind != ssa.KindTensor || len(t.Shape) != len(want) || !t.Ranked {
		return fmt.Errorf("inferred %s, ONNX knows [%s]", t, dims)
	}
	for i, w := range want {
		if _, number := t.Shape[i].Const(); w == "0" && t.Shape[i].Known() && !number {
			continue
		}
		if w != "?" && t.Shape[i].String() != w {
			return fmt.Errorf("inferred %s, ONNX knows [%s]", t, dims)
		}
	}
	return nil
}

// TestInferenceEnds: a context ends the inference of one node within its bodies, of whatever operator. The error is the context's
// alone: the node is not to blame.
func TestInferenceEnds(t *testing.T) {
	const many, most = 100, 1 << 20
	long := strings.Repeat("%%v%d: float32[2] = Neg(%%v%d) ", many)
	var at []any
	for i := range many {
		at = append(at, i+1, i)
	}
	long = fmt.Sprintf(long, at...)
	end := fmt.Sprintf("%%v%d", many)
	for name, text := range map[string]string{
		"If": `graph "g" { in %c: bool[] in %x: float32[2] %y: float32[2] = If(%c | %x) {
			then_branch: graph "a" { in %v0: float32[2] ` + long + `out ` + end + ` }
			else_branch: graph "b" { in %v0: float32[2] out %v0 } } out %y }`,
		"Loop": `graph "g" { in %n: int64[] in %c: bool[] in %x: float32[2] %y: float32[2] = Loop(%n, %c, %x) {
			body: graph "b" { in %i: int64[] in %k: bool[] in %v0: float32[2] ` + long + `out %k, ` + end + ` } } out %y }`,
		"Scan": `graph "g" { in %x: float32[5,2] %y: float32[5,2] = Scan(%x) [num_scan_inputs=1] {
			body: graph "b" { in %v0: float32[2] ` + long + `out ` + end + ` } } out %y }`,
		"SequenceMap": `graph "g" { in %x: seq(float32[2]) %y: seq(float32[2]) = SequenceMap(%x) {
			body: graph "b" { in %v0: float32[2] ` + long + `out ` + end + ` } } out %y }`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ssa.ParseGraph(text)
			require.NoError(t, err)
			all := &looktest.Context{Left: most}
			require.NoError(t, ops.InferGraphContext(all, g))
			require.Greater(t, most-all.Left, many)
			err = ops.InferContext(&looktest.Context{Left: many / 2}, g.Nodes[0])
			require.Equal(t, context.Canceled, err)
		})
	}
}

// TestInferenceAsksNoRule: a context that has ended before a node leaves its results as they are.
func TestInferenceAsksNoRule(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2] %y = Neg(%x) %z = Exp(%y) out %z }`)
	require.NoError(t, err)
	require.Equal(t, context.Canceled, ops.InferGraphContext(&looktest.Context{Left: 0}, g))
	require.False(t, g.Nodes[0].Out[0].Type.IsStatic())
}

// TestManyResultsLook: a context ends the inference of control flow among its results, too.
func TestManyResultsLook(t *testing.T) {
	const many = 4096
	g, f := ssa.NewGraph("g"), ssa.StaticTensor(ndarray.Float32, 2)
	c, trips, x := g.AddParam("c", ssa.StaticTensor(ndarray.Bool)), g.AddParam("n", ssa.StaticTensor(ndarray.Int64)), g.AddParam("x", f)
	choose := g.NewNode("If", []*ssa.Value{c, x}, many)
	choose.Captures = 1
	for _, name := range []string{"then_branch", "else_branch"} {
		b := ssa.NewGraph(name)
		b.Results = slices.Repeat([]*ssa.Value{b.AddParam("v", f)}, many)
		choose.AddBody(name, b)
	}
	loop := g.NewNode("Loop", append([]*ssa.Value{trips, c}, slices.Repeat([]*ssa.Value{x}, many)...), many)
	b := ssa.NewGraph("body")
	b.AddParam("i", trips.Type)
	b.Results = append(b.Results, b.AddParam("keep", c.Type))
	for range many {
		b.Results = append(b.Results, b.AddParam("v", f))
	}
	loop.AddBody("body", b)
	for _, n := range g.Nodes {
		require.NoError(t, ops.InferContext(t.Context(), n), n.Op)
		require.Equal(t, context.Canceled, ops.InferContext(&looktest.Context{Context: t.Context()}, n), n.Op)
	}
}

// TestManyResultsAsk: the types of the results of a wide node are asked of the budget.
func TestManyResultsAsk(t *testing.T) {
	g := ssa.NewGraph("g")
	n := g.NewNode("Split", []*ssa.Value{g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 4096))}, 4096)
	n.SetAttr(ssa.IntAttr("num_outputs", 4096))
	var full *ops.MemoryError
	require.ErrorAs(t, ops.InferContext(ndarray.Budget(64<<10).In(t.Context()), n), &full)
	require.Contains(t, full.What, "the results of a node")
	require.NoError(t, ops.InferContext(t.Context(), n))
}
