package hostile

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// Kind is a hostile model file.
type Kind struct {
	Name string // "family/what"
	Data []byte
}

// Kinds makes a file of every kind: cut short, with wrong lengths and wire types, nested too deeply, with cycles, endless
// loops, sizes that overflow or that no machine has, attributes and types out of range, names twice, absent or too long,
// and external data at paths that must not be read ([Traps] are the names of files that a test lays out beside the model).
func Kinds() []Kind {
	var k kinds
	k.bytes()
	k.structure()
	k.names()
	k.sizes()
	k.attributes()
	k.loops()
	k.calls()
	k.external()
	k.metadata()
	return k
}

type kinds []Kind

func (k *kinds) add(name string, data []byte) { *k = append(*k, Kind{name, data}) }

// model adds a small model, Relu(Add(x, w)), after a change.
func (k *kinds) model(name string, change func(m *onnxwire.Model)) {
	m := small()
	change(m)
	data, err := onnxwire.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	k.add(name, data)
}

func small() *onnxwire.Model {
	return &onnxwire.Model{IRVersion: 10, OpsetImports: []*onnxwire.OperatorSetID{{Version: 21}}, Graph: &onnxwire.Graph{
		Name: "g", Inputs: []*onnxwire.ValueInfo{value("x", 2, 3)}, Outputs: []*onnxwire.ValueInfo{value("y", 2, 3)},
		Initializers: []*onnxwire.Tensor{{Name: "w", DataType: onnxwire.TypeFloat, Dims: []int64{3}, RawData: make([]byte, 12)}},
		Nodes:        []*onnxwire.Node{node("Add", "x w", "s"), node("Relu", "s", "y")},
	}}
}

func value(name string, dims ...int64) *onnxwire.ValueInfo {
	s := &onnxwire.Shape{}
	for _, d := range dims {
		s.Dims = append(s.Dims, &onnxwire.Dim{Kind: onnxwire.DimValue, Value: d})
	}
	return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat, Shape: s}}}
}

func node(op, in, out string, attrs ...*onnxwire.Attribute) *onnxwire.Node {
	n := &onnxwire.Node{OpType: op, Name: op, Attributes: attrs}
	for _, name := range strings.Fields(in) {
		n.Inputs = append(n.Inputs, strings.Trim(name, "-"))
	}
	n.Outputs = strings.Fields(out)
	return n
}

func ints(name string, v ...int64) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInts, Ints: v}
}

func number(name string, v int64) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInt, I: v}
}

func int64s(name string, v ...int64) *onnxwire.Tensor {
	return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeInt64, Dims: []int64{int64(len(v))}, Int64Data: v}
}

func scalar(name string, v int64) *onnxwire.Tensor {
	return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeInt64, Int64Data: []int64{v}}
}

// only makes the graph one node of x and constants; y may have any type.
func only(m *onnxwire.Model, n *onnxwire.Node, constants ...*onnxwire.Tensor) {
	m.Graph.Nodes, m.Graph.Initializers = []*onnxwire.Node{n}, constants
	m.Graph.Outputs = []*onnxwire.ValueInfo{{Name: "y"}}
}

func (k *kinds) bytes() {
	whole, err := onnxwire.Marshal(small())
	if err != nil {
		panic(err)
	}
	for i := range 16 {
		k.add(fmt.Sprint("cut/", i), whole[:len(whole)*i/16])
	}
	for wire := range byte(8) {
		k.add(fmt.Sprint("wire/field 7 of type ", wire), append(bytes.Clone(whole), 7<<3|wire, 1, 0))
	}
	k.add("length/beyond the end", []byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	k.add("length/2^63", []byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	k.add("length/varint of 11 bytes", append([]byte{0x3a}, bytes.Repeat([]byte{0xff}, 11)...))
	k.add("length/varint without end", []byte{0x08, 0x80, 0x80})
	k.add("tag/field 0", []byte{0x00, 0x00})
	k.add("text", []byte("#!/bin/sh\necho no model\n"))
	k.add("zeros", make([]byte, 4096))
	k.add("ones", bytes.Repeat([]byte{0xff}, 4096))
	for name, tags := range map[string][]byte{"types": {0x22}, "graphs": {0x0a, 0x2a, 0x32}} {
		for _, depth := range []int{100, 10_000} {
			var b []byte
			for i := range depth {
				b = append(appendLength([]byte{tags[i%len(tags)]}, len(b)), b...)
			}
			k.add(fmt.Sprintf("deep/%s %d", name, depth), append(appendLength([]byte{0x3a}, len(b)), b...))
		}
	}
	for seed := range uint64(24) {
		k.add(fmt.Sprint("mutated/", seed), Mutate(newRand(seed), whole))
	}
}

func (k *kinds) structure() {
	k.model("graph/absent", func(m *onnxwire.Model) { m.Graph = nil })
	k.model("graph/empty", func(m *onnxwire.Model) { m.Graph = &onnxwire.Graph{} })
	k.model("graph/no outputs", func(m *onnxwire.Model) { m.Graph.Outputs = nil })
	k.model("graph/no nodes", func(m *onnxwire.Model) { m.Graph.Nodes = nil })
	k.model("cycle/itself", func(m *onnxwire.Model) { m.Graph.Nodes[0].Inputs[0] = "s" })
	k.model("cycle/two nodes", func(m *onnxwire.Model) { m.Graph.Nodes[0].Inputs[0] = "y" })
	k.model("operator/unknown", func(m *onnxwire.Model) { m.Graph.Nodes[0].OpType = "Nope" })
	k.model("operator/unknown domain", func(m *onnxwire.Model) { m.Graph.Nodes[0].Domain = "nope" })
	k.model("operator/without a name", func(m *onnxwire.Model) { m.Graph.Nodes[0].OpType = "" })
	for _, n := range []int{0, 1, 3, 1000} {
		k.model(fmt.Sprint("operands/", n), func(m *onnxwire.Model) { m.Graph.Nodes[0].Inputs = strings.Fields(strings.Repeat("x ", n)) })
		k.model(fmt.Sprint("results/", n), func(m *onnxwire.Model) {
			for i := range n {
				m.Graph.Nodes[1].Outputs = append(m.Graph.Nodes[1].Outputs, fmt.Sprint("z", i))
			}
		})
	}
	for _, v := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		k.model(fmt.Sprint("opset/", v), func(m *onnxwire.Model) { m.OpsetImports[0].Version = v })
		k.model(fmt.Sprint("ir/", v), func(m *onnxwire.Model) { m.IRVersion = v })
		k.model(fmt.Sprint("dimension/input ", v), func(m *onnxwire.Model) { m.Graph.Inputs[0].Type.Tensor.Shape.Dims[0].Value = v })
		k.model(fmt.Sprint("dimension/output ", v), func(m *onnxwire.Model) { m.Graph.Outputs[0].Type.Tensor.Shape.Dims[0].Value = v })
		k.model(fmt.Sprint("dimension/weight ", v), func(m *onnxwire.Model) { m.Graph.Initializers[0].Dims[0] = v })
		k.model(fmt.Sprint("type/", v), func(m *onnxwire.Model) { m.Graph.Inputs[0].Type.Tensor.ElemType = onnxwire.DataType(v) })
		k.model(fmt.Sprint("type/weight ", v), func(m *onnxwire.Model) { m.Graph.Initializers[0].DataType = onnxwire.DataType(v) })
	}
	k.model("opset/none", func(m *onnxwire.Model) { m.OpsetImports = nil })
	k.model("opset/twice", func(m *onnxwire.Model) { m.OpsetImports = append(m.OpsetImports, &onnxwire.OperatorSetID{Version: 7}) })
	k.model("type/absent", func(m *onnxwire.Model) { m.Graph.Inputs[0].Type = nil })
	k.model("type/empty", func(m *onnxwire.Model) { m.Graph.Inputs[0].Type = &onnxwire.Type{} })
	k.model("type/sequence of nothing", func(m *onnxwire.Model) { m.Graph.Inputs[0].Type = &onnxwire.Type{Sequence: &onnxwire.SequenceType{}} })
	k.model("type/map of nothing", func(m *onnxwire.Model) { m.Graph.Inputs[0].Type = &onnxwire.Type{Map: &onnxwire.MapType{}} })
	k.model("type/optional of nothing", func(m *onnxwire.Model) { m.Graph.Inputs[0].Type = &onnxwire.Type{Optional: &onnxwire.OptionalType{}} })
}

func (k *kinds) names() {
	for what, name := range map[string]string{"empty": "", "long": strings.Repeat("n", 1<<20), "no UTF-8": "\xff\xfe", "zero byte": "a\x00b", "path": "../../x", "markup": "<script>"} {
		k.model("name/input "+what, func(m *onnxwire.Model) { m.Graph.Inputs[0].Name, m.Graph.Nodes[0].Inputs[0] = name, name })
		k.model("name/output "+what, func(m *onnxwire.Model) { m.Graph.Outputs[0].Name, m.Graph.Nodes[1].Outputs[0] = name, name })
		k.model("name/weight "+what, func(m *onnxwire.Model) { m.Graph.Initializers[0].Name, m.Graph.Nodes[0].Inputs[1] = name, name })
		k.model("name/node "+what, func(m *onnxwire.Model) { m.Graph.Nodes[0].Name = name })
		k.model("name/symbol "+what, func(m *onnxwire.Model) {
			m.Graph.Inputs[0].Type.Tensor.Shape.Dims[0] = &onnxwire.Dim{Kind: onnxwire.DimParam, Param: name}
		})
	}
	k.model("twice/output", func(m *onnxwire.Model) { m.Graph.Outputs = append(m.Graph.Outputs, m.Graph.Outputs[0]) })
	k.model("twice/input", func(m *onnxwire.Model) { m.Graph.Inputs = append(m.Graph.Inputs, m.Graph.Inputs[0]) })
	k.model("twice/weight", func(m *onnxwire.Model) { m.Graph.Initializers = append(m.Graph.Initializers, m.Graph.Initializers[0]) })
	k.model("twice/result", func(m *onnxwire.Model) { m.Graph.Nodes[0].Outputs[0] = "y" })
	k.model("undefined/output", func(m *onnxwire.Model) { m.Graph.Outputs[0].Name = "nothing" })
	k.model("undefined/operand", func(m *onnxwire.Model) { m.Graph.Nodes[0].Inputs[0] = "nothing" })
}

func (k *kinds) sizes() {
	for _, dims := range [][]int64{{1 << 40}, {1 << 31, 1 << 31}, {1 << 62, 4}, {math.MaxInt64}, {0, math.MaxInt64}, {-1, -1}} {
		name := strings.ReplaceAll(fmt.Sprint(dims), " ", "x")
		k.model("size/weight "+name, func(m *onnxwire.Model) { m.Graph.Initializers[0].Dims = dims })
		k.model("size/weight without data "+name, func(m *onnxwire.Model) { m.Graph.Initializers[0].Dims, m.Graph.Initializers[0].RawData = dims, nil })
		k.model("size/ConstantOfShape "+name, func(m *onnxwire.Model) { only(m, node("ConstantOfShape", "c", "y"), int64s("c", dims...)) })
		k.model("size/Expand "+name, func(m *onnxwire.Model) { only(m, node("Expand", "w c", "y"), int64s("c", dims...), scalar("w", 1)) })
		k.model("size/Reshape "+name, func(m *onnxwire.Model) { only(m, node("Reshape", "x c", "y"), int64s("c", dims...)) })
		k.model("size/RandomNormal "+name, func(m *onnxwire.Model) { only(m, node("RandomNormal", "", "y", ints("shape", dims...))) })
	}
	for _, n := range []int64{1 << 40, math.MaxInt64, math.MinInt64, -1} {
		k.model(fmt.Sprint("size/Tile ", n), func(m *onnxwire.Model) { only(m, node("Tile", "x c", "y"), int64s("c", n, n)) })
		k.model(fmt.Sprint("size/Range ", n), func(m *onnxwire.Model) {
			only(m, node("Range", "a b c", "y"), scalar("a", 0), scalar("b", n), scalar("c", 1))
		})
		k.model(fmt.Sprint("size/Pad ", n), func(m *onnxwire.Model) { only(m, node("Pad", "x c", "y"), int64s("c", n, n, n, n)) })
		k.model(fmt.Sprint("size/OneHot ", n), func(m *onnxwire.Model) {
			only(m, node("OneHot", "a b c", "y"), int64s("a", 1), scalar("b", n), int64s("c", 0, 1))
		})
		k.model(fmt.Sprint("size/Slice ", n), func(m *onnxwire.Model) {
			only(m, node("Slice", "x c c c c", "y"), int64s("c", n))
		})
		k.model(fmt.Sprint("size/Split ", n), func(m *onnxwire.Model) { only(m, node("Split", "x c", "y z"), int64s("c", n, n)) })
		k.model(fmt.Sprint("size/TopK ", n), func(m *onnxwire.Model) { only(m, node("TopK", "x c", "y z"), int64s("c", n)) })
		k.model(fmt.Sprint("size/Gather ", n), func(m *onnxwire.Model) { only(m, node("Gather", "x c", "y"), int64s("c", n)) })
		k.model(fmt.Sprint("size/Resize ", n), func(m *onnxwire.Model) { only(m, node("Resize", "x - - c", "y"), int64s("c", n, n)) })
		k.model(fmt.Sprint("size/BlackmanWindow ", n), func(m *onnxwire.Model) { only(m, node("BlackmanWindow", "c", "y"), scalar("c", n)) })
	}
	for _, op := range []string{"Concat", "Einsum"} {
		k.model("size/doubled 60 times by "+op, func(m *onnxwire.Model) {
			m.Graph.Nodes, m.Graph.Outputs = nil, []*onnxwire.ValueInfo{{Name: "v59"}}
			last := "x"
			for i := range 60 {
				a := number("axis", 0)
				if op == "Einsum" {
					a = &onnxwire.Attribute{Name: "equation", Type: onnxwire.AttrString, S: []byte("...i,...j->...ij")}
				}
				m.Graph.Nodes = append(m.Graph.Nodes, node(op, last+" "+last, fmt.Sprint("v", i), a))
				last = fmt.Sprint("v", i)
			}
		})
	}
}

func (k *kinds) attributes() {
	conv := func(name string, attrs ...*onnxwire.Attribute) {
		for _, op := range []string{"Conv", "ConvTranspose", "MaxPool"} {
			k.model("attribute/"+op+" "+name, func(m *onnxwire.Model) {
				in := "x w"
				if op == "MaxPool" {
					in = "x"
					attrs = append(attrs, ints("kernel_shape", 2, 2))
				}
				only(m, node(op, in, "y", attrs...), &onnxwire.Tensor{Name: "w", DataType: onnxwire.TypeFloat, Dims: []int64{2, 2, 2, 2}, RawData: make([]byte, 64)})
				m.Graph.Inputs[0] = value("x", 1, 2, 8, 8)
			})
		}
	}
	for _, n := range []int64{0, -1, 1 << 40, math.MaxInt64, math.MinInt64} {
		conv(fmt.Sprint("strides ", n), ints("strides", n, n))
		conv(fmt.Sprint("dilations ", n), ints("dilations", n, n))
		conv(fmt.Sprint("pads ", n), ints("pads", n, n, n, n))
		k.model(fmt.Sprint("attribute/group ", n), func(m *onnxwire.Model) {
			only(m, node("Conv", "x w", "y", number("group", n)), &onnxwire.Tensor{Name: "w", DataType: onnxwire.TypeFloat, Dims: []int64{2, 2, 2, 2}, RawData: make([]byte, 64)})
			m.Graph.Inputs[0] = value("x", 1, 2, 8, 8)
		})
		for _, op := range []string{"Softmax", "Concat", "Flatten", "ArgMax", "Gather", "Split"} {
			k.model(fmt.Sprintf("attribute/%s axis %d", op, n), func(m *onnxwire.Model) { only(m, node(op, "x", "y", number("axis", n))) })
		}
		k.model(fmt.Sprint("attribute/perm ", n), func(m *onnxwire.Model) { only(m, node("Transpose", "x", "y", ints("perm", n, n))) })
		k.model(fmt.Sprint("attribute/to ", n), func(m *onnxwire.Model) { only(m, node("Cast", "x", "y", number("to", n))) })
		k.model(fmt.Sprint("attribute/blocksize ", n), func(m *onnxwire.Model) { only(m, node("DepthToSpace", "x", "y", number("blocksize", n))) })
	}
	for _, eq := range []string{"", "->", "ij,jk->ik->", "i...j...", strings.Repeat("i", 10000), "ii,jj,kk", "é"} {
		k.model(fmt.Sprintf("attribute/equation %.20q", eq), func(m *onnxwire.Model) {
			only(m, node("Einsum", "x", "y", &onnxwire.Attribute{Name: "equation", Type: onnxwire.AttrString, S: []byte(eq)}))
		})
	}
	k.model("attribute/unknown", func(m *onnxwire.Model) { m.Graph.Nodes[0].Attributes = []*onnxwire.Attribute{number("alpha", 3)} })
	k.model("attribute/twice", func(m *onnxwire.Model) { only(m, node("Softmax", "x", "y", number("axis", 0), number("axis", 1))) })
}

// loop is a model whose graph is one Loop; the condition of the body is cond.
func loop(m *onnxwire.Model, trips, cond string, body *onnxwire.Graph, constants ...*onnxwire.Tensor) {
	only(m, node("Loop", trips+" "+cond+" x", "y", &onnxwire.Attribute{Name: "body", Type: onnxwire.AttrGraph, G: body}), constants...)
}

func (k *kinds) loops() {
	boolean := func(name string, v byte) *onnxwire.Tensor {
		return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeBool, RawData: []byte{v}}
	}
	typed := func(name string, t onnxwire.DataType) *onnxwire.ValueInfo {
		v := value(name)
		v.Type.Tensor.ElemType = t
		return v
	}
	body := func(nodes ...*onnxwire.Node) *onnxwire.Graph {
		return &onnxwire.Graph{Name: "body", Nodes: append(nodes, node("Identity", "c", "c2")), Inputs: []*onnxwire.ValueInfo{typed("i", onnxwire.TypeInt64), typed("c", onnxwire.TypeBool), {Name: "v"}},
			Outputs: []*onnxwire.ValueInfo{typed("c2", onnxwire.TypeBool), {Name: "v2"}}}
	}
	for _, trips := range []int64{math.MaxInt64, math.MinInt64, 1 << 40} {
		k.model(fmt.Sprint("loop/trips ", trips), func(m *onnxwire.Model) { loop(m, "t", "-", body(node("Neg", "v", "v2")), scalar("t", trips)) })
	}
	k.model("loop/always true", func(m *onnxwire.Model) { loop(m, "-", "b", body(node("Neg", "v", "v2")), boolean("b", 1)) })
	k.model("loop/neither trips nor condition", func(m *onnxwire.Model) { loop(m, "-", "-", body(node("Neg", "v", "v2"))) })
	k.model("loop/doubles", func(m *onnxwire.Model) {
		loop(m, "t", "-", body(node("Concat", "v v", "v2", number("axis", 0))), scalar("t", 64))
	})
	k.model("loop/body without results", func(m *onnxwire.Model) { loop(m, "t", "-", &onnxwire.Graph{Name: "b"}, scalar("t", 3)) })
	k.model("loop/body is its own input", func(m *onnxwire.Model) { loop(m, "t", "-", body(node("Neg", "y", "v2")), scalar("t", 3)) })
	k.model("loop/scan of nothing", func(m *onnxwire.Model) {
		only(m, node("Scan", "x", "y", number("num_scan_inputs", math.MaxInt64), &onnxwire.Attribute{Name: "body", Type: onnxwire.AttrGraph, G: body(node("Neg", "v", "v2"))}))
	})
	k.model("if/branches of other kinds", func(m *onnxwire.Model) {
		then := &onnxwire.Graph{Name: "then", Nodes: []*onnxwire.Node{node("Neg", "x", "a")}, Outputs: []*onnxwire.ValueInfo{{Name: "a"}}}
		otherwise := &onnxwire.Graph{Name: "else", Nodes: []*onnxwire.Node{node("Shape", "x", "a")}, Outputs: []*onnxwire.ValueInfo{{Name: "a"}}}
		only(m, node("If", "b", "y", &onnxwire.Attribute{Name: "then_branch", Type: onnxwire.AttrGraph, G: then}, &onnxwire.Attribute{Name: "else_branch", Type: onnxwire.AttrGraph, G: otherwise}), boolean("b", 1))
	})
}

func (k *kinds) calls() {
	call := func(name string, depth, fan int, last string) {
		k.model("calls/"+name, func(m *onnxwire.Model) {
			m.OpsetImports = append(m.OpsetImports, &onnxwire.OperatorSetID{Domain: "f", Version: 1})
			for i := range depth {
				f := &onnxwire.Function{Name: fmt.Sprint("F", i), Domain: "f", Inputs: []string{"a"}, Outputs: []string{"b"}, OpsetImports: m.OpsetImports}
				next := fmt.Sprint("F", i+1)
				if i == depth-1 {
					next = last
				}
				from := "a"
				for j := range fan {
					to := fmt.Sprint("t", j)
					if j == fan-1 {
						to = "b"
					}
					n := node(next, from, to)
					if strings.HasPrefix(next, "F") {
						n.Domain = "f"
					}
					f.Nodes, from = append(f.Nodes, n), to
				}
				m.Functions = append(m.Functions, f)
			}
			n := node("F0", "x", "y")
			n.Domain = "f"
			only(m, n)
		})
	}
	call("itself", 1, 1, "F0")
	call("in a ring", 3, 1, "F0")
	call("deep", 200, 1, "Neg")
	call("twice each", 8, 2, "Neg")
	call("to nothing", 2, 1, "F9")
}

// Traps are the names that a test creates beside the model: files, links and folders that external data must not lead to.
var Traps = []string{"weights.bin", "short.bin", "folder", "symlink-out", "hardlink-out", "pipe"}

func (k *kinds) external() {
	with := func(name string, entries ...string) {
		k.model("external/"+name, func(m *onnxwire.Model) {
			w := m.Graph.Initializers[0]
			w.RawData, w.DataLocation = nil, onnxwire.DataExternal
			for i := 0; i < len(entries); i += 2 {
				w.ExternalData = append(w.ExternalData, &onnxwire.StringEntry{Key: entries[i], Value: entries[i+1]})
			}
		})
	}
	with("none")
	for _, path := range append(Traps, "", ".", "..", "../secret", "/etc/passwd", "/dev/zero", "/proc/self/mem", "a\x00b", strings.Repeat("d/", 3000)+"x", "model.onnx", "weights.bin/x", "C:\\x", "file:///etc/passwd") {
		with(fmt.Sprintf("path %.30q", path), "location", path)
	}
	for _, v := range []string{"-1", "", "x", "9223372036854775807", "9223372036854775808", "1e3", "0x10", " 4"} {
		with(fmt.Sprintf("offset %q", v), "location", "weights.bin", "offset", v)
		with(fmt.Sprintf("length %q", v), "location", "weights.bin", "length", v)
	}
}

func (k *kinds) metadata() {
	for _, plan := range []string{"", "x", "1 2 3", strings.Repeat("9", 1<<16), "-1\n-1", "\x00"} {
		k.model(fmt.Sprintf("plan/%.10q", plan), func(m *onnxwire.Model) {
			m.MetadataProps = []*onnxwire.StringEntry{{Key: "berth.plan", Value: plan}}
		})
	}
}
