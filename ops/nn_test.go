package ops_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestNNGolden(t *testing.T) { runGolden(t, "nn") }

// TestNNFloatTypes runs every recorded case in the other float types and
// compares with float32 on the same, rounded operands.
func TestNNFloatTypes(t *testing.T) {
	for _, c := range readGolden(t, "nn") {
		if strings.Contains(c.Name, "Threshold") || c.Inputs[0].DType != "float32" {
			continue // a jump: rounding moves elements over it
		}
		for dt, tol := range map[ndarray.DType]float64{ndarray.Float16: 4e-3, ndarray.BFloat16: 3e-2, ndarray.Float64: 1e-5} {
			t.Run(fmt.Sprintf("%s/%s", c.Name, dt), func(t *testing.T) {
				_, in := c.node(t)
				rounded, wide := retype(in, dt), retype(retype(in, dt), ndarray.Float32)
				got, want := c.run(t, rounded), c.run(t, wide)
				for i := range want {
					if want[i] == nil {
						continue
					}
					a, b := got[i].(*ndarray.Array), want[i].(*ndarray.Array)
					require.Equal(t, b.Shape, a.Shape)
					if b.DType != ndarray.Float32 {
						continue
					}
					if i == 0 {
						require.Equal(t, dt, a.DType)
					}
					for k := range b.Len() {
						require.InDelta(t, b.Float(k), a.Float(k), tol*max(1, math.Abs(b.Float(k))), "result %d, element %d", i, k)
					}
				}
			})
		}
	}
}

// retype converts float tensors to another float type.
func retype(in []ndarray.Value, dt ndarray.DType) []ndarray.Value {
	out := make([]ndarray.Value, len(in))
	for i, v := range in {
		a, ok := v.(*ndarray.Array)
		if !ok || !a.DType.IsFloat() {
			out[i] = v
			continue
		}
		b := ndarray.Must(dt, a.Shape...)
		for k := range a.Len() {
			b.SetFloat(k, a.Float(k))
		}
		out[i] = b
	}
	return out
}

// run evaluates the case's operator on other operands.
func (c *goldenCase) run(t *testing.T, in []ndarray.Value) []ndarray.Value {
	n, _ := c.node(t)
	call := &ops.Call{Node: n, In: in, Threads: 1}
	require.NoError(t, ops.Eval(call))
	return call.Out
}

// nodeOf builds a node of typed operands, "" for an absent one; an operand of
// the form "int64 3,4" is a constant.
func nodeOf(t *testing.T, domain, op string, operands []string, results int, attrs ...ssa.Attr) *ssa.Node {
	g := ssa.NewGraph("test")
	var in []*ssa.Value
	for i, text := range operands {
		switch {
		case text == "":
			in = append(in, nil)
		case strings.HasPrefix(text, "int64 "):
			var list []int64
			for _, s := range strings.Split(text[6:], ",") {
				var v int64
				_, err := fmt.Sscan(s, &v)
				require.NoError(t, err)
				list = append(list, v)
			}
			c := ssa.Int64s(list...)
			if len(list) == 1 {
				c = c.Reshaped()
			}
			in = append(in, g.AddConst(fmt.Sprintf("c%d", i), c))
		default:
			typ, err := ssa.ParseType(text)
			require.NoError(t, err, text)
			in = append(in, g.AddParam(fmt.Sprintf("p%d", i), typ))
		}
	}
	n := g.NewNode(op, in, results, attrs...)
	n.Domain = domain
	return n
}

func attrInts(name string, v ...int64) ssa.Attr { return ssa.IntsAttr(name, v...) }

func attrInt(name string, v int64) ssa.Attr { return ssa.IntAttr(name, v) }

// TestNNShapes checks the shape rules on symbolic, unknown and unranked operands.
func TestNNShapes(t *testing.T) {
	list := func(a ...ssa.Attr) []ssa.Attr { return a }
	for _, c := range []struct {
		op    string
		in    string // operand types, separated by ;
		attrs []ssa.Attr
		want  string // result types, separated by ;
	}{
		{"Conv", "float32[N,3,H,W]; float32[8,3,3,3]", list(attrInts("pads", 1, 1, 1, 1), attrInts("strides", 2, 2)),
			"float32[N,8,floor((H+1)/2),floor((W+1)/2)]"},
		{"Conv", "float32[N,3,H,W]; float32[8,3,3,3]", list(ssa.StringAttr("auto_pad", "SAME_UPPER")), "float32[N,8,H,W]"},
		{"Conv", "float32[N,3,32,W]; float32[8,3,K,3]", nil, "float32[N,8,?,?]"},
		{"Conv", "float32[...]; float32[8,3,3,3]", nil, "float32[?,8,?,?]"},
		{"Conv", "float32[...]; float32[...]", nil, "float32[...]"},
		{"Conv", "float32[N,3,L]; float32[...]", list(attrInts("kernel_shape", 5)), "float32[N,?,L-4]"},
		{"ConvTranspose", "float32[N,4,H,7]; float32[4,2,3,3]", list(attrInt("group", 2), attrInts("strides", 2, 2)), "float32[N,4,2*H+1,15]"},
		{"ConvTranspose", "float32[N,4,H]; float32[4,2,3]", list(attrInts("output_shape", 9)), "float32[N,2,9]"},
		{"MaxPool", "float32[N,C,H]", list(attrInts("kernel_shape", 2), attrInts("strides", 2)), "float32[N,C,floor(H/2)]; int64[N,C,floor(H/2)]"},
		{"MaxPool", "float32[N,C,5]", list(attrInts("kernel_shape", 2), attrInts("strides", 2), attrInt("ceil_mode", 1)), "float32[N,C,3]; int64[N,C,3]"},
		{"MaxPool", "float32[...]", list(attrInts("kernel_shape", 2, 2)), "float32[?,?,?,?]; int64[?,?,?,?]"},
		{"GlobalAveragePool", "float32[N,C,H,W]", nil, "float32[N,C,1,1]"},
		{"GlobalMaxPool", "float32[...]", nil, "float32[...]"},
		{"BatchNormalization", "float32[N,C,H]; float32[C]; float32[C]; float32[C]; float32[C]", list(attrInt("training_mode", 1)),
			"float32[N,C,H]; float32[C]; float32[C]"},
		{"LayerNormalization", "float16[N,S,8]; float16[8]", list(attrInt("axis", 1)), "float16[N,S,8]; float32[N,1,1]; float32[N,1,1]"},
		{"RMSNormalization", "float32[N,8]; float16[8]", nil, "float16[N,8]"},
		{"LSTM", "float32[T,B,I]; float32[2,32,I]; float32[2,32,8]", list(ssa.StringAttr("direction", "bidirectional")),
			"float32[T,2,B,8]; float32[2,B,8]; float32[2,B,8]"},
		{"GRU", "float32[B,T,I]; float32[1,24,I]; float32[1,24,8]", list(attrInt("layout", 1)), "float32[B,T,1,8]; float32[B,1,8]"},
		{"Attention", "float32[B,4,S,16]; float32[B,2,T,16]; float32[B,2,T,8]; ; float32[B,2,P,16]; float32[B,2,P,8]", nil,
			"float32[B,4,S,8]; float32[B,2,P+T,16]; float32[B,2,P+T,8]; float32[B,4,S,P+T]"},
		{"Attention", "float32[B,S,64]; float32[B,T,32]; float32[B,T,16]", list(attrInt("q_num_heads", 4), attrInt("kv_num_heads", 2)),
			"float32[B,S,32]; float32[B,2,T,16]; float32[B,2,T,8]; float32[B,4,S,T]"},
		{"DFT", "float32[B,N,1]; ; int64 1", list(attrInt("onesided", 1)), "float32[B,floor(N/2)+1,2]"},
		{"DFT", "float32[B,N,2]; int64 10", nil, "float32[B,10,2]"},
		{"STFT", "float32[B,N,1]; int64 4; float32[16]", nil, "float32[B,floor(N/4)-3,9,2]"},
		{"MelWeightMatrix", "int64 8; int64 16; int64 100; float32[]; float32[]", nil, "float32[9,8]"},
		{"SoftmaxCrossEntropyLoss", "float32[N,C,D]; int64[N,D]", list(ssa.StringAttr("reduction", "none")), "float32[N,D]; float32[N,C,D]"},
		{"NegativeLogLikelihoodLoss", "float32[N,C,D]; int64[N,D]", nil, "float32[]"},
		{"MaxUnpool", "float32[1,1,H,2]; int64[1,1,H,2]", list(attrInts("kernel_shape", 2, 2), attrInts("strides", 2, 2)), "float32[1,1,2*H,4]"},
		{"Dropout", "float32[N,8]", nil, "float32[N,8]; bool[N,8]"},
		{"LinearAttention", "float16[B,T,32]; float16[B,T,16]; float16[B,T,8]", list(attrInt("q_num_heads", 4), attrInt("kv_num_heads", 2)),
			"float16[B,T,16]; float16[B,2,8,4]"},
		{"CausalConvWithState", "float32[B,C,L]; float32[C,1,4]", nil, "float32[B,C,L]; float32[B,C,3]"},
	} {
		t.Run(c.op+" "+c.in, func(t *testing.T) {
			want := strings.Split(c.want, "; ")
			var in []string
			for _, s := range strings.Split(c.in, ";") {
				in = append(in, strings.TrimSpace(s))
			}
			n := nodeOf(t, "", c.op, in, len(want), c.attrs...)
			require.NoError(t, ops.Infer(n))
			for i, w := range want {
				assert.Equal(t, w, n.Out[i].Type.String(), "result %d", i)
			}
		})
	}
}

// TestNNRefuses checks that operands that do not fit are errors, in shape
// inference or at the latest in the kernel, and never panics.
func TestNNRefuses(t *testing.T) {
	list := func(a ...ssa.Attr) []ssa.Attr { return a }
	for _, c := range []struct {
		op    string
		in    string
		attrs []ssa.Attr
		want  string
	}{
		{"Conv", "float32[1,3,4,4]; float32[2,4,3,3]", nil, "do not fit"},
		{"Conv", "float32[1,3,2,2]; float32[2,3,4,4]", nil, "window spans 4"},
		{"Conv", "float32[1,3,4,4]; float32[2,3,3,3]", list(attrInts("strides", 0, 1)), "strides"},
		{"Conv", "float32[1,3,4,4]; float32[2,3,3,3]", list(attrInts("pads", 1, 1)), "pads"},
		{"Conv", "float32[1,3,4,4]; float32[2,3,3,3]; float32[3]", nil, "bias"},
		{"Conv", "float32[1,3,4,4]; float32[2,3,3,3]", list(attrInts("dilations", 1<<30, 1<<30)), "too large"},
		{"Conv", "float32[1,3,4,4]; float32[2,3,3,3]", list(attrInts("kernel_shape", 2, 2)), "kernel_shape"},
		{"Conv", "int32[1,3,4,4]; int32[2,3,3,3]", nil, "not supported"},
		{"ConvTranspose", "float32[1,3,4]; float32[2,3,3]", nil, "do not fit"},
		{"MaxPool", "float32[1,3,4,4]", list(attrInts("kernel_shape", 2)), "kernel_shape"},
		{"MaxPool", "float32[1,3,4]", list(attrInts("kernel_shape", 2), attrInt("storage_order", 3)), "storage_order"},
		{"MaxPool", "float32[1,3,4]", nil, "required attribute"},
		{"LpPool", "float32[1,3,4]", list(attrInts("kernel_shape", 2), attrInt("p", 0)), `"p" holds 0`},
		{"BatchNormalization", "float32[1,3]; float32[2]; float32[3]; float32[3]; float32[3]", nil, "operand 1"},
		{"GroupNormalization", "float32[1,4,2]; float32[4]; float32[4]", list(attrInt("num_groups", 3)), "do not divide"},
		{"LayerNormalization", "float32[2,3]; float32[2]", nil, "does not broadcast"},
		{"LayerNormalization", "float32[2,3]; float32[3]", list(attrInt("axis", 2)), "out of range"},
		{"LRN", "float32[2,3]", list(attrInt("size", 0)), "size"},
		{"LSTM", "float32[2,1,3]; float32[1,16,3]; float32[1,12,4]", nil, "R has shape"},
		{"LSTM", "float32[2,1,3]; float32[1,16,3]; float32[1,16,4]", list(ssa.StringAttr("direction", "up")), "direction"},
		{"LSTM", "float32[2,1,3]; float32[1,16,3]; float32[1,16,4]", list(ssa.StringsAttr("activations", "Sine", "Tanh", "Tanh")), "Sine"},
		{"GRU", "float32[2,1,3]; float32[1,12,3]; float32[1,12,4]", list(attrInt("hidden_size", 5)), "hidden_size"},
		{"Attention", "float32[1,3,2,4]; float32[1,2,2,4]; float32[1,2,2,4]", nil, "can not share"},
		{"Attention", "float32[1,2,8]; float32[1,2,8]; float32[1,2,8]", nil, "num_heads"},
		{"Attention", "float32[1,2,8]; float32[1,2,1]; float32[1,2,1]", list(attrInt("q_num_heads", 2), attrInt("kv_num_heads", 2)), "does not split into 2 heads"},
		{"Attention", "float32[1,2,2,4]; float32[1,2,2,4]; float32[1,2,2,4]; bool[3,1,2,2]", nil, "does not broadcast"},
		{"DFT", "float32[4]", nil, "component"},
		{"DFT", "float32[4,2]; ; int64 1", nil, "components"},
		{"STFT", "float32[1,4,1]; int64 0", nil, "frame_step"},
		{"SoftmaxCrossEntropyLoss", "float32[2,3]; int64[4]", nil, "labels"},
		{"MaxUnpool", "float32[1,1,2]; int64[1,1,3]", list(attrInts("kernel_shape", 2)), "indices"},
		{"RotaryEmbedding", "float32[1,2,3,4]; float32[9,3]; float32[9,3]; int64[1,3]", nil, "cos_cache"},
		{"LinearAttention", "float32[1,2,4]; float32[1,2,4]; float32[1,2,4]", list(attrInt("q_num_heads", 1), attrInt("kv_num_heads", 1)), "decay"},
		{"SwiGLU", "float32[2,3]; float32[3]", nil, "operand 1"},
	} {
		t.Run(c.op+" "+c.want, func(t *testing.T) {
			var in []string
			for _, s := range strings.Split(c.in, ";") {
				in = append(in, strings.TrimSpace(s))
			}
			refuses(t, nodeOf(t, "", c.op, in, 1, c.attrs...), c.want)
		})
	}
}

// refuses checks that inference or the kernel of a node gives an error, of operands of 0 where they are not constant.
func refuses(t *testing.T, n *ssa.Node, want string) {
	t.Helper()
	err := ops.Infer(n)
	if err == nil {
		err = ops.Eval(&ops.Call{Node: n, In: zerosFor(t, n), Threads: 1})
	}
	var p *ops.PanicError
	require.NotErrorAs(t, err, &p)
	require.ErrorContains(t, err, want)
}

// zerosFor makes operands of 0 for a node of static types.
func zerosFor(t *testing.T, n *ssa.Node) []ndarray.Value {
	out := make([]ndarray.Value, len(n.In))
	for i, v := range n.In {
		switch {
		case v == nil:
		case v.Const != nil:
			a, err := v.Const.Array()
			require.NoError(t, err)
			out[i] = a
		default:
			shape, ok := v.Type.Static()
			require.True(t, ok)
			out[i] = ndarray.Must(v.Type.DType, shape...)
		}
	}
	return out
}

// evalNN runs an operator on float32 vectors given with their shapes.
func evalNN(t *testing.T, op string, results int, attrs []ssa.Attr, in ...*ndarray.Array) []*ndarray.Array {
	out, err := evalIn(t, "", op, results, attrs, in...)
	require.NoError(t, err)
	return out
}

// evalIn runs an operator of a domain; the results are of the types inferred.
func evalIn(t *testing.T, domain, op string, results int, attrs []ssa.Attr, in ...*ndarray.Array) ([]*ndarray.Array, error) {
	g := ssa.NewGraph("test")
	var operands []*ssa.Value
	var values []ndarray.Value
	for i, a := range in {
		if a == nil {
			operands, values = append(operands, nil), append(values, nil)
			continue
		}
		operands = append(operands, g.AddParam(fmt.Sprintf("p%d", i), ssa.StaticTensor(a.DType, a.Shape...)))
		values = append(values, a)
	}
	n := g.NewNode(op, operands, results, attrs...)
	n.Domain = domain
	if err := ops.Infer(n); err != nil {
		return nil, err
	}
	call := &ops.Call{Node: n, In: values, Threads: 1}
	if err := ops.Eval(call); err != nil {
		return nil, err
	}
	out := make([]*ndarray.Array, results)
	for i := range out {
		out[i] = call.Out[i].(*ndarray.Array)
		_, ok := ssa.StaticTensor(out[i].DType, out[i].Shape...).Refine(n.Out[i].Type)
		require.True(t, ok, "result %d is %s, inferred as %s", i, out[i], n.Out[i].Type)
	}
	return out, nil
}

// TestNNEmpty checks that dimensions of 0 give empty or neutral results.
func TestNNEmpty(t *testing.T) {
	z := func(shape ...int) *ndarray.Array { return ndarray.Must(ndarray.Float32, shape...) }
	list := func(a ...ssa.Attr) []ssa.Attr { return a }
	for _, c := range []struct {
		op    string
		attrs []ssa.Attr
		in    []*ndarray.Array
		want  []int
	}{
		{"Conv", nil, []*ndarray.Array{z(0, 3, 4, 4), z(2, 3, 3, 3)}, []int{0, 2, 2, 2}},
		{"Conv", nil, []*ndarray.Array{z(1, 0, 4), z(2, 0, 3), z(2)}, []int{1, 2, 2}},
		{"Conv", list(attrInts("pads", 2, 1)), []*ndarray.Array{z(1, 1, 0), z(2, 1, 3), z(2)}, []int{1, 2, 1}},
		{"ConvTranspose", nil, []*ndarray.Array{z(0, 3, 4), z(3, 2, 3)}, []int{0, 2, 6}},
		{"MaxPool", list(attrInts("kernel_shape", 2)), []*ndarray.Array{z(1, 0, 4)}, []int{1, 0, 3}},
		{"GlobalAveragePool", nil, []*ndarray.Array{z(0, 2, 3)}, []int{0, 2, 1}},
		{"InstanceNormalization", nil, []*ndarray.Array{z(2, 3, 0), z(3), z(3)}, []int{2, 3, 0}},
		{"LayerNormalization", nil, []*ndarray.Array{z(0, 3), z(3)}, []int{0, 3}},
		{"LSTM", nil, []*ndarray.Array{z(0, 2, 3), z(1, 16, 3), z(1, 16, 4)}, []int{0, 1, 2, 4}},
		{"Attention", nil, []*ndarray.Array{z(1, 2, 0, 4), z(1, 2, 3, 4), z(1, 2, 3, 5)}, []int{1, 2, 0, 5}},
		{"Attention", nil, []*ndarray.Array{z(1, 2, 3, 4), z(1, 2, 0, 4), z(1, 2, 0, 5)}, []int{1, 2, 3, 5}},
		{"LpNormalization", nil, []*ndarray.Array{z(2, 0)}, []int{2, 0}},
		{"Dropout", nil, []*ndarray.Array{z(0)}, []int{0}},
		{"SwiGLU", nil, []*ndarray.Array{z(0, 2), z(0, 2)}, []int{0, 2}},
	} {
		t.Run(c.op, func(t *testing.T) {
			out := evalNN(t, c.op, 1, c.attrs, c.in...)[0]
			assert.Equal(t, c.want, out.Shape)
			for i := range out.Len() {
				assert.Zero(t, out.Float(i))
			}
		})
	}
}

// TestNNValues checks single results by hand: ties, NaN, padding, seeds.
func TestNNValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	vec := func(v ...float32) *ndarray.Array { return ndarray.Of(v, 1, 1, len(v)) }
	list := func(a ...ssa.Attr) []ssa.Attr { return a }
	for _, c := range []struct {
		name, op string
		attrs    []ssa.Attr
		in       []*ndarray.Array
		want     []float64
	}{
		{"NaN wins", "MaxPool", list(attrInts("kernel_shape", 2)), []*ndarray.Array{vec(1, nan, 3, 2)}, []float64{math.NaN(), math.NaN(), 3}},
		{"padding never wins", "MaxPool", list(attrInts("kernel_shape", 2), attrInts("pads", 1, 1)), []*ndarray.Array{vec(-3, -1)}, []float64{-3, -1, -1}},
		{"infinity", "GlobalMaxPool", nil, []*ndarray.Array{vec(-inf, -inf)}, []float64{math.Inf(-1)}},
		{"NaN", "GlobalMaxPool", nil, []*ndarray.Array{vec(1, nan, 5)}, []float64{math.NaN()}},
		{"pad counts", "AveragePool", list(attrInts("kernel_shape", 2), attrInts("pads", 1, 0), attrInt("count_include_pad", 1)), []*ndarray.Array{vec(4, 6)}, []float64{2, 5}},
		{"pad does not count", "AveragePool", list(attrInts("kernel_shape", 2), attrInts("pads", 1, 0)), []*ndarray.Array{vec(4, 6)}, []float64{4, 5}},
		{"zero times infinity", "Conv", nil, []*ndarray.Array{vec(inf), vec(0)}, []float64{math.NaN()}},
		{"norm of zero", "LpNormalization", nil, []*ndarray.Array{vec(0, 0)}, []float64{0, 0}},
		{"even window reaches up", "LRN", list(attrInt("size", 2), ssa.FloatAttr("alpha", 2), ssa.FloatAttr("beta", 1)),
			[]*ndarray.Array{ndarray.Of([]float32{1, 2, 3}, 1, 3)}, []float64{1. / 6, 2. / 14, 3. / 10}},
		{"constant row", "LayerNormalization", nil, []*ndarray.Array{ndarray.Of([]float32{7, 7}, 2), ndarray.Of([]float32{2, 3}, 2)}, []float64{0, 0}},
		{"constant channel", "InstanceNormalization", nil, []*ndarray.Array{vec(5, 5), ndarray.Of([]float32{2}, 1), ndarray.Of([]float32{1}, 1)}, []float64{1, 1}},
	} {
		t.Run(c.op+" "+c.name, func(t *testing.T) {
			out := evalNN(t, c.op, 1, c.attrs, c.in...)[0]
			require.Equal(t, len(c.want), out.Len())
			for i, w := range c.want {
				if math.IsNaN(w) {
					assert.True(t, math.IsNaN(out.Float(i)), "element %d", i)
				} else if math.IsInf(w, 0) {
					assert.Equal(t, w, out.Float(i))
				} else {
					assert.InDelta(t, w, out.Float(i), 1e-6, "element %d", i)
				}
			}
		})
	}
}

// TestDropoutTraining checks seeds, the mask and the scale.
func TestDropoutTraining(t *testing.T) {
	x := ndarray.Must(ndarray.Float32, 1000)
	for i := range x.Len() {
		x.SetFloat(i, 1)
	}
	ratio, training := ndarray.Scalar(float32(0.25)), ndarray.Scalar(true)
	run := func(seed int64) []*ndarray.Array {
		return evalNN(t, "Dropout", 2, []ssa.Attr{attrInt("seed", seed)}, x, ratio, training)
	}
	a, b, other := run(3), run(3), run(4)
	assert.Equal(t, a[0].Data, b[0].Data)
	assert.NotEqual(t, a[0].Data, other[0].Data)
	kept := 0
	for i := range x.Len() {
		if a[1].Data[i] == 1 {
			kept++
			assert.InDelta(t, 1/0.75, a[0].Float(i), 1e-6)
		} else {
			assert.Zero(t, a[0].Float(i))
		}
	}
	assert.InDelta(t, 750, kept, 60)
}

// TestAttentionMasked checks that a row without keys is 0 and that values of
// masked keys do not matter.
func TestAttentionMasked(t *testing.T) {
	nan := float32(math.NaN())
	q := ndarray.Of([]float32{1, 2}, 1, 1, 2, 1)
	k := ndarray.Of([]float32{1, nan}, 1, 1, 2, 1)
	v := ndarray.Of([]float32{5, nan}, 1, 1, 2, 1)
	mask := ndarray.Of([]bool{true, false, false, false}, 2, 2)
	out := evalNN(t, "Attention", 1, nil, q, k, v, mask)[0]
	assert.InDelta(t, 5, out.Float(0), 1e-6)
	assert.Zero(t, out.Float(1))
}

// TestInferRefuses: shapes that onnx's own inference refuses, found by changing one dimension or rank in its node tests.
func TestInferRefuses(t *testing.T) {
	for _, c := range []struct {
		op, in string
		attrs  []ssa.Attr
	}{
		{"BatchNormalization", "float32[N,3,4]; float32[4]; float32[4]; float32[4]; float32[4]", nil},
		{"BatchNormalization", "float32[1,3,4]; float32[3,1]; float32[3]; float32[3]; float32[3]", nil},
		{"ConvTranspose", "float32[1,3,8]; float32[3,1,3]", []ssa.Attr{ssa.IntAttr("group", 2)}},
		{"Dropout", "float32[3]; float32[1]", nil},
		{"GridSample", "float32[1,1,4,4]; float32[2,6,6,2]", nil},
		{"GridSample", "float32[1,1,4,4]; float32[1,6,6,3]", nil},
		{"NegativeLogLikelihoodLoss", "float32[3,5,2]; int64[3,4]", nil},
		{"NegativeLogLikelihoodLoss", "float32[3,5]; int64[3]; float32[4]", nil},
		{"OneHot", "int64[3]; int64[]; float32[3]", nil},
		{"OneHot", "int64[3]; int64[2]; float32[2]", nil},
		{"ReverseSequence", "float32[4]; int64[4]", nil},
		{"RoiAlign", "float32[1,1,9,9]; float32[3,5]; int64[3]", nil},
		{"RoiAlign", "float32[1,1,9,9]; float32[3,4]; int64[2]", nil},
		{"RotaryEmbedding", "float32[1,2,8]; float32[9,4]; float32[9,4]; int64[1,2]", nil},
		{"SwiGLU", "float32[2,3]; float32[2,4]", nil},
		{"TensorScatter", "float32[2,1,4,5]; float32[3,1,1,5]; int64[3]", nil},
		{"TensorScatter", "float32[2,1,4,5]; float32[2,1,5]; int64[2]", nil},
		{"TopK", "float32[2,3]; int64 4", nil},
		{"STFT", "float32[1,8,1]; int64 2; float32[4,1]", nil},
		{"DFT", "float32[1,8,1]; ; ", []ssa.Attr{ssa.IntAttr("inverse", 1), ssa.IntAttr("onesided", 1)}},
	} {
		t.Run(c.op+" "+c.in, func(t *testing.T) {
			var in []string
			for _, s := range strings.Split(c.in, ";") {
				in = append(in, strings.TrimSpace(s))
			}
			require.Error(t, ops.Infer(nodeOf(t, "", c.op, in, 1, c.attrs...)))
		})
	}
}

// TestDisputedGrowth: auto_pad cuts a transposed convolution to input times stride; onnx infers that only where the kernel
// reaches as far as the stride and nothing is added.
func TestDisputedGrowth(t *testing.T) {
	for attributes, disputed := range map[string]bool{
		`auto_pad="SAME_UPPER", strides=[2], kernel_shape=[1]`:                     true,
		`auto_pad="SAME_LOWER", strides=[3], kernel_shape=[1]`:                     true,
		`auto_pad="SAME_UPPER", strides=[1], kernel_shape=[1]`:                     false,
		`auto_pad="SAME_UPPER", strides=[1], kernel_shape=[1], output_padding=[1]`: true,
		`auto_pad="SAME_UPPER", strides=[2], output_shape=[6], kernel_shape=[1]`:   false,
		`auto_pad="SAME_UPPER", strides=[1], kernel_shape=[1], dilations=[4]`:      false,
		`auto_pad="VALID", strides=[2], kernel_shape=[1]`:                          false,
		`strides=[2], kernel_shape=[1]`:                                            false,
	} {
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[1,2,3] in %w: float32[2,1,1] %y = ConvTranspose(%x, %w) [` + attributes + `] out %y }`)
		require.NoError(t, err, attributes)
		assert.Equal(t, disputed, ops.Of(g.Nodes[0]).Facts.Disputed(g.Nodes[0]), attributes)
	}
}

// TestDisputedSpectrum: onnx infers all values of a frame where onesided is not given, although it is 1 then.
func TestDisputedSpectrum(t *testing.T) {
	for attribute, disputed := range map[string]bool{"": true, " [onesided=1]": false, " [onesided=0]": false} {
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2,32,1] const %s: int64[] = 8 const %l: int64[] = 16 %y = STFT(%x, %s, _, %l)` + attribute + ` out %y }`)
		require.NoError(t, err)
		n := g.Nodes[0]
		assert.Equal(t, disputed, ops.Of(n).Facts.Disputed(n), attribute)
	}
}
