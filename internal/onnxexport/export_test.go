package onnxexport

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

var f23 = ssa.StaticTensor(ndarray.Float32, 2, 3)

// module wraps a graph that a test has built; types are inferred.
func module(t *testing.T, g *ssa.Graph) *ssa.Module {
	t.Helper()
	require.NoError(t, ops.InferGraph(g))
	require.NoError(t, ssa.Check(g))
	return &ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 13}}, IR: 8}
}

func export(t *testing.T, m *ssa.Module, opts Options) *onnxwire.Model {
	t.Helper()
	w, err := Model(m, opts)
	require.NoError(t, err)
	return w
}

// imported writes a model and imports what was written.
func imported(t *testing.T, w *onnxwire.Model) *ssa.Module {
	t.Helper()
	data, err := onnxwire.Marshal(w)
	require.NoError(t, err)
	m, err := onnximport.FromBytes(data, "", onnximport.Options{})
	require.NoError(t, err)
	return m
}

// sameAfterImport exports, imports, and compares with the module.
func sameAfterImport(t *testing.T, m *ssa.Module) *ssa.Module {
	t.Helper()
	back := imported(t, export(t, m, Options{}))
	require.NoError(t, ssa.Check(back.Graph))
	assert.Empty(t, ssa.Compare{Types: true}.Diff(m.Graph, back.Graph))
	return back
}

// text lists nodes as "Op a b -> c", bodies in braces.
func text(g *onnxwire.Graph) string {
	var lines []string
	for _, n := range g.Nodes {
		line := strings.Join(append([]string{n.OpType}, n.Inputs...), " ") + " -> " + strings.Join(n.Outputs, " ")
		for _, a := range n.Attributes {
			if a.G != nil {
				line += " {" + text(a.G) + "}"
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func initializers(g *onnxwire.Graph) string {
	var out []string
	for _, t := range g.Initializers {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

// ifGraph has a condition c, a value x and an If whose branches fill builds; w is
// the constant that both may use.
func ifGraph(w *ssa.Constant, fill func(branch int, body *ssa.Graph, x, w *ssa.Value) *ssa.Value) *ssa.Graph {
	g := ssa.NewGraph("g")
	c := g.AddParam("c", ssa.StaticTensor(ndarray.Bool))
	x := g.AddParam("x", f23)
	n := g.NewNode("If", []*ssa.Value{c, x}, 0)
	n.Captures = 1
	for k, name := range []string{"then_branch", "else_branch"} {
		b := ssa.NewGraph(name)
		p := b.AddParam("inner_x", f23)
		b.Results = []*ssa.Value{fill(k, b, p, b.AddConst("w", w))}
		n.AddBody(name, b)
	}
	g.Results = []*ssa.Value{g.AddOutput(n, "o")}
	return g
}

func TestCapturesBecomeOuterReferences(t *testing.T) {
	w := ssa.NewConstant(ndarray.Of([]float32{1, 2, 3}, 3))
	g := ifGraph(w, func(k int, b *ssa.Graph, x, w *ssa.Value) *ssa.Value {
		return b.NewNode([]string{"Add", "Mul"}[k], []*ssa.Value{x, w}, 1).Out[0]
	})
	m := module(t, g)
	out := export(t, m, Options{}).Graph
	assert.Equal(t, "If c -> o {Add x w -> Add_0_0} {Mul x w -> Mul_0_0}", text(out))
	assert.Equal(t, "w", initializers(out), "the constant that both branches use is written once, outside")
	sameAfterImport(t, m)
}

func TestConstantOfOneBodyStaysThere(t *testing.T) {
	w := ssa.NewConstant(ndarray.Of([]float32{1, 2, 3}, 3))
	g := ifGraph(w, func(k int, b *ssa.Graph, x, w *ssa.Value) *ssa.Value {
		if k == 1 {
			w = x
		}
		return b.NewNode("Add", []*ssa.Value{x, w}, 1).Out[0]
	})
	out := export(t, module(t, g), Options{}).Graph
	assert.Empty(t, initializers(out))
	assert.Equal(t, "w", initializers(out.Nodes[0].Attributes[0].G))
}

func TestBodyResultsThatAreNotItsOwn(t *testing.T) {
	w := ssa.NewConstant(ndarray.Of(make([]float32, 6), 2, 3))
	g := ifGraph(w, func(k int, b *ssa.Graph, x, w *ssa.Value) *ssa.Value { return []*ssa.Value{x, w}[k] })
	out := export(t, module(t, g), Options{}).Graph
	assert.Equal(t, "If c -> o {Identity x -> inner_x} {}", text(out))
	assert.Equal(t, "w", out.Nodes[0].Attributes[1].G.Outputs[0].Name)
}

func TestNamesAreUniqueDownwards(t *testing.T) {
	g := ifGraph(ssa.ScalarConst(float32(1)), func(k int, b *ssa.Graph, x, w *ssa.Value) *ssa.Value {
		n := b.NewNode("Relu", []*ssa.Value{x}, 0)
		b.AddOutput(n, "x") // the name of the captured value outside
		m := b.NewNode("Neg", []*ssa.Value{n.Out[0]}, 0)
		return b.AddOutput(m, "t")
	})
	out := export(t, module(t, g), Options{}).Graph
	assert.Equal(t, "If c -> o {Relu x -> x_1; Neg x_1 -> t} {Relu x -> x_1; Neg x_1 -> t}", text(out))
}

func TestOutputsKeepTheirNames(t *testing.T) {
	g := ssa.NewGraph("g")
	x := g.AddParam("x", f23)
	r := g.NewNode("Relu", []*ssa.Value{x}, 0)
	v := g.AddOutput(r, "merged")
	k := g.AddConst("k", ssa.ScalarConst(float32(1)))
	g.Results = []*ssa.Value{v, v, x, k, k}
	m := module(t, g)
	m.OutputNames = []string{"a", "b", "same", "k1", "k2"}
	w := export(t, m, Options{})
	assert.Equal(t, "Relu x -> a; Identity a -> b; Identity x -> same; Identity k1 -> k2", text(w.Graph))
	assert.Equal(t, "k1", initializers(w.Graph))
	back := imported(t, w)
	assert.Equal(t, m.OutputNames, back.OutputNames)
}

func TestNodeNamesAreUnique(t *testing.T) {
	g := ssa.NewGraph("g")
	v := g.AddParam("x", f23)
	for range 3 {
		n := g.NewNode("Relu", []*ssa.Value{v}, 1)
		n.Name, v = "same", n.Out[0]
	}
	g.Results = []*ssa.Value{v}
	out := export(t, module(t, g), Options{}).Graph
	assert.Equal(t, []string{"same", "same_1", "same_2"}, []string{out.Nodes[0].Name, out.Nodes[1].Name, out.Nodes[2].Name})
}

func TestSplatsAreWrittenAsNodes(t *testing.T) {
	tests := []struct {
		name  string
		elem  *ndarray.Array
		shape []int
		opts  Options
		want  string
	}{
		{"large", ndarray.Scalar(float32(2)), []int{1 << 20, 1 << 20}, Options{}, "ConstantOfShape k_shape -> k"},
		{"small", ndarray.Scalar(float32(2)), []int{3}, Options{}, ""},
		{"forbidden", ndarray.Scalar(float32(2)), []int{1000}, Options{Splat: -1}, ""},
		{"threshold", ndarray.Scalar(float32(2)), []int{3}, Options{Splat: 12}, "ConstantOfShape k_shape -> k"},
		{"strings", ndarray.Strings([]string{"a"}), []int{1000}, Options{}, "Expand k_element k_shape -> k"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := ssa.NewGraph("g")
			g.Results = []*ssa.Value{g.NewNode("Identity", []*ssa.Value{g.AddConst("k", ssa.NewSplat(tt.elem, tt.shape...))}, 1).Out[0]}
			w := export(t, module(t, g), tt.opts)
			want := "Identity k -> Identity_0_0"
			if tt.want != "" {
				want = tt.want + "; " + want
			}
			assert.Equal(t, want, text(w.Graph))
			size, err := onnxwire.Size(t.Context(), w)
			require.NoError(t, err)
			if tt.want != "" {
				assert.Less(t, size, 300)
			}
			back := imported(t, w)
			assert.Equal(t, ssa.StaticTensor(tt.elem.DType, tt.shape...).String(), back.Graph.Results[0].Type.String())
		})
	}
}

func TestSplatInALoopIsHoisted(t *testing.T) {
	g := ifGraph(ssa.NewSplat(ndarray.Scalar(float32(1)), 1000, 2, 3), func(k int, b *ssa.Graph, x, w *ssa.Value) *ssa.Value {
		if k == 1 {
			return x
		}
		return b.NewNode("Add", []*ssa.Value{x, w}, 1).Out[0]
	})
	out := export(t, module(t, g), Options{}).Graph
	assert.Equal(t, "ConstantOfShape w_shape -> w; If c -> o {Add x w -> Add_0_0} {Identity x -> inner_x}", text(out))
}

func TestElementTypesSurvive(t *testing.T) {
	g := ssa.NewGraph("g")
	for dt := ndarray.Float32; dt < ndarray.NumDTypes; dt++ {
		a := ndarray.Must(dt, 5)
		for i := range a.Data {
			a.Data[i] = byte(i & 1)
		}
		for i := range a.Str {
			a.Str[i] = dt.String()
		}
		g.Results = append(g.Results, g.AddConst("k_"+dt.String(), ssa.NewConstant(a)))
	}
	back := sameAfterImport(t, module(t, g))
	sameAfterImport(t, back) // packed bytes as the file had them
	assert.Equal(t, int64(14), back.IR, "6-bit types need IR version 14")
}

func TestOperatorSets(t *testing.T) {
	relu := func(g *ssa.Graph, x *ssa.Value) *ssa.Node { return g.NewNode("Relu", []*ssa.Value{x}, 1) }
	opaque := func(version int) func(g *ssa.Graph, x *ssa.Value) *ssa.Node {
		return func(g *ssa.Graph, x *ssa.Value) *ssa.Node {
			n := g.NewNode("FromTheFuture", []*ssa.Value{x}, 1)
			n.Opaque, n.Version = true, version
			return n
		}
	}
	swish := func(g *ssa.Graph, x *ssa.Value) *ssa.Node { return g.NewNode("HardSwish", []*ssa.Value{x}, 1) } // needs 14
	type build = func(g *ssa.Graph, x *ssa.Value) *ssa.Node
	tests := []struct {
		name     string
		imported int
		nodes    []build
		opset    int64
		ir       int64
		err      string
	}{
		{"as imported", 17, []build{relu}, 17, 8, ""},
		{"raised", 7, []build{relu, swish}, 14, 7, ""},
		{"old, initializers are no inputs", 7, []build{relu}, 7, 4, ""},
		{"opaque pins", 17, []build{opaque(17), relu}, 17, 8, ""},
		{"opaque pins too low", 7, []build{opaque(7), swish}, 0, 0, "FromTheFuture"},
		{"two pins", 7, []build{opaque(7), opaque(9)}, 0, 0, "written for version 9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := ssa.NewGraph("g")
			v := g.AddParam("x", f23)
			for _, f := range tt.nodes {
				v = f(g, v).Out[0]
				v.Type = f23
			}
			g.Results = []*ssa.Value{v}
			m := &ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: tt.imported}}, IR: 3}
			w, err := Model(m, Options{})
			if tt.err != "" {
				var e *ExportError
				require.ErrorAs(t, err, &e)
				assert.Contains(t, e.Reason, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.opset, w.OpsetImports[0].Version)
			assert.Equal(t, tt.ir, w.IRVersion)
		})
	}
}

func TestNodeWithoutStandardForm(t *testing.T) {
	g := ssa.NewGraph("g")
	n := g.NewNode("Fused", []*ssa.Value{g.AddParam("x", f23)}, 1)
	n.Domain = "inside"
	g.Results = n.Out
	_, err := Model(&ssa.Module{Graph: g}, Options{})
	assert.ErrorContains(t, err, "no standard form")
}

func TestMetadata(t *testing.T) {
	g := ssa.NewGraph("g")
	g.Results = []*ssa.Value{g.AddParam("x", f23)}
	m := module(t, g)
	m.Carried = &onnxwire.Model{ProducerName: "maker", ModelVersion: 5, Graph: &onnxwire.Graph{Name: "kept"},
		MetadataProps: []*onnxwire.StringEntry{{Key: "old", Value: "1"}, {Key: "plan", Value: "stale"}}}
	w := export(t, m, Options{Metadata: map[string]string{"z": "26", "a": "1", "plan": "new"}})
	var got []string
	for _, p := range w.MetadataProps {
		got = append(got, p.Key+"="+p.Value)
	}
	assert.Equal(t, []string{"old=1", "plan=new", "a=1", "z=26"}, got)
	assert.Equal(t, "stale", m.Carried.(*onnxwire.Model).MetadataProps[1].Value, "the module is not changed")
	assert.Equal(t, "maker", w.ProducerName)
	assert.Equal(t, int64(5), w.ModelVersion)
	assert.Equal(t, "kept", w.Graph.Name)
}

func TestDefaultsAreWritten(t *testing.T) {
	g := ssa.NewGraph("g")
	g.Results = []*ssa.Value{g.NewNode("Relu", []*ssa.Value{g.AddParam("x", f23)}, 1).Out[0]}
	m := module(t, g)
	m.Defaults = map[string]*ssa.Constant{"x": ssa.NewConstant(ndarray.Of(make([]float32, 6), 2, 3))}
	assert.Contains(t, sameAfterImport(t, m).Defaults, "x")
}

func TestDimensions(t *testing.T) {
	g := ssa.NewGraph("g")
	n := ssa.Sym("N")
	x := g.AddParam("x", ssa.TensorOf(ndarray.Float32, n, ssa.Sym("floor(h/2 - 1)"), n.MulN(2).AddN(1), ssa.D(4), ssa.Dim{}))
	g.Results = []*ssa.Value{x}
	dims := export(t, module(t, g), Options{}).Graph.Inputs[0].Type.Tensor.Shape.Dims
	var got []string
	for _, d := range dims {
		switch d.Kind {
		case onnxwire.DimParam:
			got = append(got, d.Param)
		case onnxwire.DimValue:
			got = append(got, ssa.D(d.Value).String())
		default:
			got = append(got, "?")
		}
	}
	assert.Equal(t, []string{"N", "floor(h/2 - 1)", "2*N+1", "4", "?"}, got)
}

func TestOpaqueNodeComesBackAsItWas(t *testing.T) {
	float := &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: 1, Shape: &onnxwire.Shape{Dims: []*onnxwire.Dim{{Kind: onnxwire.DimValue, Value: 2}}}}}
	branch := func(out string) *onnxwire.Graph {
		return &onnxwire.Graph{Name: "b", Nodes: []*onnxwire.Node{{OpType: "Relu", Inputs: []string{"x"}, Outputs: []string{out}}},
			Outputs: []*onnxwire.ValueInfo{{Name: out, Type: float}}}
	}
	node := &onnxwire.Node{OpType: "Gadget", Domain: "my.own", Name: "n", DocString: "doc", Inputs: []string{"x", "", "x"}, Outputs: []string{"", "o"},
		MetadataProps: []*onnxwire.StringEntry{{Key: "k", Value: "v"}},
		Attributes: []*onnxwire.Attribute{
			{Name: "f", Type: onnxwire.AttrFloat, F: float32(math.Pi), DocString: "attr doc"},
			{Name: "empty", Type: onnxwire.AttrInts},
			{Name: "t", Type: onnxwire.AttrTensor, T: &onnxwire.Tensor{DataType: 22, Dims: []int64{3}, RawData: []byte{0x21, 0x03}}},
			{Name: "types", Type: onnxwire.AttrTypeProtos, TypeProtos: []*onnxwire.Type{float}},
			{Name: "tp", Type: onnxwire.AttrTypeProto, TP: float},
			{Name: "cases", Type: onnxwire.AttrGraphs, Graphs: []*onnxwire.Graph{branch("p"), branch("q")}},
		}}
	m := &onnxwire.Model{IRVersion: 8, OpsetImports: []*onnxwire.OperatorSetID{{Version: 13}, {Domain: "my.own", Version: 2}}, Graph: &onnxwire.Graph{
		Name: "g", Nodes: []*onnxwire.Node{node}, Inputs: []*onnxwire.ValueInfo{{Name: "x", Type: float}}, Outputs: []*onnxwire.ValueInfo{{Name: "o", Type: float}}}}
	want, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	mod, err := onnximport.FromBytes(want, "", onnximport.Options{})
	require.NoError(t, err)
	w := export(t, mod, Options{})
	assert.Equal(t, node, w.Graph.Nodes[0])
	w.OpsetImports[0].Extra = onnxwire.Extra{}
	got, err := onnxwire.Marshal(w)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestSaveExternal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	g := ssa.NewGraph("g")
	for _, n := range []int{3, 100, 70, 1 << 19, 5} {
		w := make([]float32, n)
		w[n-1] = float32(n)
		g.Results = append(g.Results, g.AddConst("w"+ssa.D(int64(n)).String(), ssa.NewConstant(ndarray.Of(w, n))))
	}
	m := module(t, g)
	require.NoError(t, Save(m, path, Options{External: 100}))
	file, err := onnxwire.Open(path)
	require.NoError(t, err)
	defer file.Close()
	want := map[string]string{"w100": "0", "w70": "448", "w524288": "4096"} // byte offsets
	for _, w := range file.Model.Graph.Initializers {
		if at, ok := want[w.Name]; ok {
			assert.Nil(t, w.RawData)
			assert.Regexp(t, `^m\.onnx\.[0-9a-f]{16}\.data$`, w.ExternalData[0].Value)
			assert.Equal(t, at, w.ExternalData[1].Value, w.Name)
		} else {
			assert.NotNil(t, w.RawData, w.Name)
		}
	}
	back, err := onnximport.Load(path, onnximport.Options{})
	require.NoError(t, err)
	defer back.Close()
	assert.Empty(t, ssa.Compare{Types: true}.Diff(g, back.Graph))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, list, 2, "no temporary files are left")
}

// TestExplicitDefaults writes attributes that say what their absence does: they need
// no newer operator set, and are left out where an older one does not have them.
func TestExplicitDefaults(t *testing.T) {
	for _, c := range []struct {
		op      string
		attr    ssa.Attr
		version int64
		written int
	}{
		{"Shape", ssa.IntAttr("start", 0), 13, 0},
		{"Shape", ssa.IntAttr("start", 1), 15, 1},
		{"CastLike", ssa.IntAttr("saturate", 1), 15, 0},
		{"CastLike", ssa.IntAttr("saturate", 0), 19, 1},
		{"Softmax", ssa.IntAttr("axis", -1), 13, 1},
	} {
		g := ssa.NewGraph("g")
		in := []*ssa.Value{g.AddParam("x", f23), g.AddParam("y", f23)}
		g.Results = g.NewNode(c.op, in[:ops.Lookup("", c.op).MinIn], 1, c.attr).Out
		w := export(t, module(t, g), Options{})
		assert.Equal(t, c.version, w.OpsetImports[0].Version, c.op)
		assert.Len(t, w.Graph.Nodes[0].Attributes, c.written, c.op)
	}
}

// TestPassedParameters: what a loop gives of its body's parameters as they are goes through an Identity, for ONNX Runtime; a
// state passed on to itself does not. Names of the Identities differ from those in bodies of the body.
func TestPassedParameters(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a state stacked", `in %h0: float32[2] in %x: float32[4,2]
			%h, %before = Scan(%h0, %x) [num_scan_inputs=1] { body: graph "b" {
				in %h: float32[2] in %v: float32[2] %next = Add(%h, %v) out %next, %h } }
			out %h, %before`, "Add h_1 v -> next; Identity h_1 -> h_2"},
		{"a state set to another", `in %a0: float32[2] in %b0: float32[2] in %x: float32[4,2]
			%a, %b = Scan(%a0, %b0, %x) [num_scan_inputs=1] { body: graph "b" {
				in %p: float32[2] in %q: float32[2] in %v: float32[2] %next = Add(%p, %v) out %next, %p } }
			out %a, %b`, "Add p v -> next; Identity p -> p_1"},
		{"a state set to a slice", `in %a0: float32[2] in %x: float32[4,2]
			%a = Scan(%a0, %x) [num_scan_inputs=1] { body: graph "b" {
				in %p: float32[2] in %v: float32[2] out %v } }
			out %a`, "Identity v -> v_1"},
		{"a state kept", `in %a0: float32[2] in %x: float32[4,2]
			%a, %y = Scan(%a0, %x) [num_scan_inputs=1] { body: graph "b" {
				in %p: float32[2] in %v: float32[2] %n = Add(%p, %v) out %p, %n } }
			out %a, %y`, "Add p v -> n"},
		{"the number of the iteration", `in %n: int64[] in %a0: int64[]
			%a, %y = Loop(%n, _, %a0) { body: graph "b" {
				in %i: int64[] in %c: bool[] in %p: int64[] out %c, %p, %i } }
			out %a, %y`, "Identity i -> i_1"},
		{"states exchanged", `in %n: int64[] in %a0: int64[] in %b0: int64[]
			%a, %b = Loop(%n, _, %a0, %b0) { body: graph "b" {
				in %i: int64[] in %c: bool[] in %p: int64[] in %q: int64[] out %c, %q, %p } }
			out %a, %b`, "Identity q -> q_1; Identity p -> p_1"},
		{"a captured value at two depths", `in %n: int64[] in %k: float32[2]
			%y = Loop(%n, _ | %k) { body: graph "b" {
				in %i: int64[] in %c: bool[] in %k1: float32[2]
				%inner = Loop(%i, _ | %k1) { body: graph "d" {
					in %j: int64[] in %e: bool[] in %k2: float32[2] out %e, %k2 } }
				out %c, %k1 } }
			out %y`, "Loop i  -> inner {Identity k -> k2}; Identity k -> k1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph("graph \"g\" {\n" + c.text + "\n}")
			require.NoError(t, err)
			w := export(t, module(t, g), Options{})
			var bodies []string
			for _, a := range w.Graph.Nodes[0].Attributes {
				if a.G != nil {
					bodies = append(bodies, text(a.G))
				}
			}
			assert.Equal(t, []string{c.want}, bodies)
		})
	}
}

// TestLiteralsStayNodes: tensors that a file writes as Constant nodes, beside weights, are written so again, and are literals when they are read.
func TestLiteralsStayNodes(t *testing.T) {
	literal := func(elems int) *ssa.Constant {
		c := ssa.NewConstant(ndarray.Must(ndarray.Float32, elems))
		c.SetLiteral()
		return c
	}
	tests := []struct {
		name          string
		weight, bias  *ssa.Constant
		want          string
		isLiteralThen bool
	}{
		{"beside a weight", ssa.NewConstant(ndarray.Of([]float32{1, 2}, 2)), literal(2), "Constant -> b; Mul x w -> Mul_0_0; Add Mul_0_0 b -> Add_1_0", true},
		{"alone", literal(2), literal(2), "Mul x w -> Mul_0_0; Add Mul_0_0 b -> Add_1_0", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := ssa.NewGraph("g")
			x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2))
			y := g.NewNode("Mul", []*ssa.Value{x, g.AddConst("w", tt.weight)}, 1).Out[0]
			g.Results = []*ssa.Value{g.NewNode("Add", []*ssa.Value{y, g.AddConst("b", tt.bias)}, 1).Out[0]}
			w := export(t, module(t, g), Options{})
			assert.Equal(t, tt.want, text(w.Graph))
			for _, v := range imported(t, w).Graph.Values() {
				if v.Const != nil {
					assert.Equal(t, tt.isLiteralThen && v.Name == "b", v.Const.Literal(), v.Name)
				}
			}
		})
	}
}

// TestLiteralsNeedTheDomain: a model without operators of the default domain names it for the Constant nodes that are written.
func TestLiteralsNeedTheDomain(t *testing.T) {
	literal := ssa.NewConstant(ndarray.Of([]float32{3, 4}, 2))
	literal.SetLiteral()
	g := ssa.NewGraph("g")
	at := g.AddParam("at", ssa.StaticTensor(ndarray.Int64, 1))
	for name, c := range map[string]*ssa.Constant{"w": ssa.NewConstant(ndarray.Of([]float32{1, 2}, 2)), "b": literal} {
		n := g.NewNode("ArrayFeatureExtractor", []*ssa.Value{g.AddConst(name, c), at}, 1)
		n.Domain = "ai.onnx.ml"
		g.Results = append(g.Results, n.Out[0])
	}
	m := module(t, g)
	m.Opsets = []ssa.Opset{{Domain: "ai.onnx.ml", Version: 3}}
	w := export(t, m, Options{})
	require.Equal(t, "Constant", w.Graph.Nodes[0].OpType)
	require.Len(t, w.OpsetImports, 2)
	assert.Equal(t, "", w.OpsetImports[1].Domain)
	imported(t, w)
}
