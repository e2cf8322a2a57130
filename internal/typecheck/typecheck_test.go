package typecheck

import (
	"cmp"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

func tensor(name string, t onnxwire.DataType) *onnxwire.ValueInfo {
	return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: t}}}
}

func node(op, in, out string, attrs ...*onnxwire.Attribute) *onnxwire.Node {
	return &onnxwire.Node{OpType: op, Inputs: strings.Split(in, " "), Outputs: strings.Split(out, " "), Attributes: attrs}
}

// branch is a body whose result is a value around it.
func branch(name, result string) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, G: &onnxwire.Graph{Outputs: []*onnxwire.ValueInfo{{Name: result}}}}
}

// ml makes a node one of ai.onnx.ml.
func ml(n *onnxwire.Node) *onnxwire.Node {
	n.Domain = "ai.onnx.ml"
	return n
}

// mapTo is the type of maps from integers to tensors of an element type.
func mapTo(t onnxwire.DataType) *onnxwire.Type {
	return &onnxwire.Type{Map: &onnxwire.MapType{KeyType: onnxwire.TypeInt64, ValueType: tensor("", t).Type}}
}

// TestCheck: f is float32, h bfloat16, i int32, l int64, b bool, s a sequence of int32, m a map from int64 to float32, p and q sequences of maps
// to float32 and float64 in each graph.
func TestCheck(t *testing.T) {
	body := &onnxwire.Attribute{Name: "then_branch", G: &onnxwire.Graph{Nodes: []*onnxwire.Node{node("ScatterND", "f i f", "y")}}}
	shadowing := &onnxwire.Attribute{Name: "then_branch", G: &onnxwire.Graph{
		Nodes: []*onnxwire.Node{node("Unknown", "f", "i"), node("ScatterND", "f i f", "y")}}}
	ints := &onnxwire.Attribute{Name: "value", T: &onnxwire.Tensor{DataType: onnxwire.TypeInt32}}
	for _, c := range []struct {
		name    string
		version int64
		nodes   []*onnxwire.Node
		want    []string
	}{
		{"allowed", 13, []*onnxwire.Node{node("ScatterND", "f l f", "y"), node("Add", "i i", "z"), node("Clip", "f  f", "w")}, nil},
		{"a type of no version", 13, []*onnxwire.Node{node("ScatterND", "f i f", "y")},
			[]string{`node ScatterND "-> y": operand "indices" is int32, version 13 of the operator set allows int64`}},
		{"a type of a later version", 18, []*onnxwire.Node{node("Conv", "h h", "y")}, []string{
			`node Conv "-> y": operand "X" is bfloat16, version 18 of the operator set allows double, float, float16`,
			`node Conv "-> y": operand "W" is bfloat16, version 18 of the operator set allows double, float, float16`}},
		{"that version", 22, []*onnxwire.Node{node("Conv", "h h", "y")}, nil},
		{"two types of one variable", 14, []*onnxwire.Node{node("Add", "f i", "y")},
			[]string{`node Add "-> y": operand "B" is int32, and operand "A", which is to have the same type, is float`}},
		{"a result", 14, []*onnxwire.Node{node("Add", "i i", "f")},
			[]string{`node Add "-> f": result "C" is float, and operand "A", which is to have the same type, is int32`}},
		{"any number of one type", 13, []*onnxwire.Node{node("Concat", "f f l", "y")},
			[]string{`node Concat "-> y": operand "inputs" is int64, and operand "inputs", which is to have the same type, is float`}},
		{"any number of any type", 13, []*onnxwire.Node{node("Loop", "l b f i", "y z")}, nil},
		{"sequences", 11, []*onnxwire.Node{node("SequenceAt", "s b", "y"), node("SequenceLength", "s", "l"), node("Abs", "s", "z")}, []string{
			`node SequenceAt "-> y": operand "position" is bool, version 11 of the operator set allows int32, int64`,
			`node Abs "-> z": operand "X" is seq(tensor(int32)), version 11 of the operator set allows double, float, float16, int16, int32, int64, int8, uint16, uint32, uint64, uint8`}},
		{"maps", 13, []*onnxwire.Node{ml(node("ZipMap", "f", "p")), ml(node("CastMap", "m", "f")), ml(node("ZipMap", "f", "q"))}, []string{
			`node ai.onnx.ml.ZipMap "-> q": result "Z" is seq(map(int64,double)), version 1 of the operator set allows seq(map(int64,float)), seq(map(string,float))`}},
		{"a body sees values around it", 13, []*onnxwire.Node{node("If", "b", "o", body)},
			[]string{`node ScatterND "-> y": operand "indices" is int32, version 13 of the operator set allows int64`}},
		{"branches of one type", 13, []*onnxwire.Node{node("If", "b", "f", branch("then_branch", "f"), branch("else_branch", "f"))}, nil},
		{"a branch of another type", 13, []*onnxwire.Node{node("If", "b", "o", branch("then_branch", "f"), branch("else_branch", "l"))},
			[]string{`node If "-> o": result 0 of else_branch is int64, and result 0 of then_branch, which is to have the same type, is float`}},
		{"branches of another type than the node's result", 13, []*onnxwire.Node{node("If", "b", "l", branch("then_branch", "f"), branch("else_branch", "o"))},
			[]string{`node If "-> l": result 0 of then_branch is float, and result 0, which is to have the same type, is int64`}},
		{"a body's own value of no known type", 13, []*onnxwire.Node{node("If", "b", "o", shadowing)}, nil},
		{"constants", 13, []*onnxwire.Node{node("ConstantOfShape", "l", "k", ints), node("ScatterND", "f k f", "y")},
			[]string{`node ScatterND "-> y": operand "indices" is int32, version 13 of the operator set allows int64`}},
		{"unknown operators and values", 13, []*onnxwire.Node{node("Unknown", "f i", "u"), node("ScatterND", "u u u", "v")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &onnxwire.Graph{Nodes: c.nodes, Outputs: []*onnxwire.ValueInfo{tensor("f", onnxwire.TypeFloat)},
				Inputs: []*onnxwire.ValueInfo{tensor("h", onnxwire.TypeBFloat16), tensor("i", onnxwire.TypeInt32), tensor("b", onnxwire.TypeBool),
					{Name: "s", Type: &onnxwire.Type{Sequence: &onnxwire.SequenceType{ElemType: tensor("", onnxwire.TypeInt32).Type}}},
					{Name: "p", Type: &onnxwire.Type{Sequence: &onnxwire.SequenceType{ElemType: mapTo(onnxwire.TypeFloat)}}},
					{Name: "q", Type: &onnxwire.Type{Sequence: &onnxwire.SequenceType{ElemType: mapTo(onnxwire.TypeDouble)}}},
					{Name: "m", Type: mapTo(onnxwire.TypeFloat)}},
				Initializers: []*onnxwire.Tensor{{Name: "l", DataType: onnxwire.TypeInt64}}}
			var got []string
			found, err := Check(t.Context(), &onnxwire.Model{Graph: g, OpsetImports: []*onnxwire.OperatorSetID{{Domain: "ai.onnx", Version: c.version}, {Domain: "ai.onnx.ml", Version: 1}}})
			require.NoError(t, err)
			for _, v := range found {
				got = append(got, v.String())
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestTable: every line parses, every variable has types, and every type is one that a file's type can be named by.
func TestTable(t *testing.T) {
	named := map[string]bool{}
	for dt := onnxwire.TypeFloat; dt <= onnxwire.TypeFloat6E3M2; dt++ {
		named[elementText(dt)] = true
	}
	nested := strings.NewReplacer("optional(", "", "seq(", "", "sparse_tensor(", "", "tensor(", "", "map(int64,", "", "map(string,", "", ")", "")
	versions := 0
	for name, all := range table() {
		for i, o := range all {
			versions++
			assert.Truef(t, i == 0 || all[i-1].version < o.version, "%s: versions ascend", name)
			for _, p := range append(o.operands, o.results...) {
				assert.NotEmptyf(t, p.types, "%s %d: %s", name, o.version, p.name)
				for _, typ := range p.types {
					assert.Truef(t, named[nested.Replace(typ)], "%s %d: %s: %s", name, o.version, p.name, typ)
				}
			}
		}
	}
	assert.Greater(t, versions, 600)
}

// TestTableIsUpToDate compares the table with the packages onnx and onnxruntime, where BERTH_PYTHON or the path has a Python with
// the version of onnx that the table is from.
func TestTableIsUpToDate(t *testing.T) {
	python := cmp.Or(os.Getenv("BERTH_PYTHON"), "python3")
	version, err := exec.Command(python, "-c", "import onnx, onnxruntime; print(f'# onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}')").Output()
	head, _, _ := strings.Cut(text, "\n")
	if err != nil || strings.TrimSpace(string(version)) != head {
		t.Skipf("no Python with %s (%v, %s): set BERTH_PYTHON to one", head, err, version)
	}
	out, err := exec.Command(python, "-B", "../tools/onnxschema/constraints.py").Output()
	require.NoError(t, err)
	assert.Equal(t, text, string(out), "internal/tools/onnxschema/constraints.py writes another table")
}

// shaped is an output of float32.
func shaped(name string, dims ...int64) *onnxwire.ValueInfo {
	v := tensor(name, onnxwire.TypeFloat)
	v.Type.Tensor.Shape = &onnxwire.Shape{}
	for _, n := range dims {
		d := &onnxwire.Dim{Kind: onnxwire.DimValue, Value: n}
		if n < 0 {
			d = &onnxwire.Dim{Kind: onnxwire.DimParam, Param: "N"}
		}
		v.Type.Tensor.Shape.Dims = append(v.Type.Tensor.Shape.Dims, d)
	}
	return v
}

// TestCorrected: what the first file violates and the second does not; x is float32 and s, which nothing declares, int32.
func TestCorrected(t *testing.T) {
	relu := []*onnxwire.Node{node("Relu", "x", "y")}
	branchOf := &onnxwire.Attribute{Name: "then_branch", G: &onnxwire.Graph{Nodes: []*onnxwire.Node{node("Where", "x x x", "w")}}}
	for _, c := range []struct {
		name          string
		version       int64
		before, after []*onnxwire.Node
		declared, is  *onnxwire.ValueInfo
		want          []string
	}{
		{"nothing", 17, relu, relu, shaped("y", 2, 3), shaped("y", 2, 3), nil},
		{"what was open", 17, relu, relu, shaped("y", -1, 3), shaped("y", 2, 3), nil},
		{"no shape", 17, relu, relu, tensor("y", onnxwire.TypeFloat), shaped("y", 2, 3), nil},
		{"a length", 17, relu, relu, shaped("y", -1, 4), shaped("y", 2, 3), []string{`output "y" is declared as float[N,4], it is float[2,3]`}},
		{"a rank", 17, relu, relu, shaped("y", 6), shaped("y", 2, 3), []string{`output "y" is declared as float[6], it is float[2,3]`}},
		{"a type", 17, relu, relu, tensor("y", onnxwire.TypeDouble), shaped("y", 2, 3), []string{`output "y" is declared as double, it is float[2,3]`,
			`node Relu "-> y": result "Y" is double, and operand "X", which is to have the same type, is float`}},
		{"an operand that is gone", 17, []*onnxwire.Node{node("Reshape", "x s", "y")}, relu, shaped("y"), shaped("y"),
			[]string{`node Reshape "-> y": operand "shape" is int32, version 17 of the operator set allows int64`}},
		{"an operand that is still there", 17, []*onnxwire.Node{node("Expand", "x i", "y")}, []*onnxwire.Node{node("Expand", "x i", "z")}, shaped("y"), shaped("y"), nil},
		{"no operator set", 0, relu, relu, shaped("y"), shaped("y"), []string{"the file imports no operator set, it is written for version 17"}},
		{"an operator of a later set", 8, []*onnxwire.Node{node("Where", "x x x", "y"), node("If", "b", "z", branchOf)}, relu, shaped("y"), shaped("y"), []string{
			`node Where "-> y": version 8 of the operator set has no Where, version 9 has`, `node Where "-> w": version 8 of the operator set has no Where, version 9 has`}},
		{"a form of a later set", 7, []*onnxwire.Node{node("Clip", "x x", "y")}, relu, shaped("y"), shaped("y"), []string{`node Clip "-> y": has 2 operands, version 7 of the operator set allows 1`}},
		{"an absent operand", 7, []*onnxwire.Node{node("Clip", "x ", "y")}, relu, shaped("y"), shaped("y"), nil},
		{"any number of operands", 7, []*onnxwire.Node{node("Concat", "x x x x x", "y")}, relu, shaped("y"), shaped("y"), nil},
		{"an order", 17, []*onnxwire.Node{node("Neg", "t", "y"), node("Relu", "x", "t")}, relu, shaped("y"), shaped("y"), []string{`node Neg "-> y": stands before node Relu "-> t", whose result it reads`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := func(version int64, nodes []*onnxwire.Node, out *onnxwire.ValueInfo) *onnxwire.Model {
				m := &onnxwire.Model{Graph: &onnxwire.Graph{Nodes: nodes, Outputs: []*onnxwire.ValueInfo{out},
					Inputs: []*onnxwire.ValueInfo{tensor("x", onnxwire.TypeFloat), tensor("i", onnxwire.TypeInt32), tensor("b", onnxwire.TypeBool)}}}
				if version > 0 {
					m.OpsetImports = []*onnxwire.OperatorSetID{{Version: version}}
				}
				return m
			}
			types := map[string]onnxwire.DataType{"s": onnxwire.TypeInt32, "x": onnxwire.TypeDouble}
			got, err := Corrected(t.Context(), file(c.version, c.before, c.declared), file(max(c.version, 17), c.after, c.is), types)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}
