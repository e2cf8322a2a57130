package ops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestMicrosoftGolden(t *testing.T) { runGolden(t, "microsoft") }

// evalMS is evalIn for the com.microsoft domain.
func evalMS(t *testing.T, op string, results int, attrs []ssa.Attr, in ...*ndarray.Array) ([]*ndarray.Array, error) {
	return evalIn(t, contrib.Microsoft, op, results, attrs, in...)
}

func mustMS(t *testing.T, op string, results int, attrs []ssa.Attr, in ...*ndarray.Array) []*ndarray.Array {
	out, err := evalMS(t, op, results, attrs, in...)
	require.NoError(t, err)
	return out
}

// wavy is an array of small varied numbers.
func wavy(seed int, shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64((i*37+seed*11)%23-11)/8)
	}
	return a
}

// movedChannels copies an array with channels first to channels last.
func movedChannels(a *ndarray.Array) *ndarray.Array {
	shape := append(append([]int{a.Shape[0]}, a.Shape[2:]...), a.Shape[1])
	out := ndarray.Must(ndarray.Float32, shape...)
	channels, plane := a.Shape[1], a.Len()/a.Shape[0]/a.Shape[1]
	for i := range a.Len() {
		image, c, p := i/plane/channels, i/plane%channels, i%plane
		out.SetFloat((image*plane+p)*channels+c, a.Float(i))
	}
	return out
}

// TestNhwcConv compares both layouts with each other.
func TestNhwcConv(t *testing.T) {
	x, w, b, z := wavy(1, 2, 4, 5, 6), wavy(2, 6, 2, 3, 2), wavy(3, 6), wavy(4, 2, 6, 3, 5)
	attrs := []ssa.Attr{attrInt("group", 2), ssa.StringAttr("activation", "Relu")}
	want := movedChannels(mustMS(t, "FusedConv", 1, attrs, x, w, b, z)[0])
	got := mustMS(t, "NhwcFusedConv", 1, attrs, movedChannels(x), w, b, movedChannels(z))[0]
	assert.Equal(t, want.Shape, got.Shape)
	assert.Equal(t, want.Data, got.Data)
	plain := movedChannels(mustMS(t, "FusedConv", 1, attrs[:1], x, w, b)[0])
	assert.Equal(t, plain.Data, mustMS(t, "NhwcConv", 1, attrs[:1], movedChannels(x), w, b)[0].Data)
}

// TestGroupNormLayouts compares GroupNorm and SkipGroupNorm with the standard
// operator.
func TestGroupNormLayouts(t *testing.T) {
	x, gamma, beta, skip, bias := wavy(1, 2, 4, 3, 2), wavy(2, 4), wavy(3, 4), wavy(4, 2, 4), wavy(5, 4)
	want := evalNN(t, "GroupNormalization", 1, []ssa.Attr{attrInt("num_groups", 2)}, x, gamma, beta)[0]
	attrs := []ssa.Attr{attrInt("groups", 2), attrInt("activation", 0), attrInt("channels_last", 0)}
	first := mustMS(t, "GroupNorm", 1, attrs, x, gamma, beta)[0]
	last := mustMS(t, "GroupNorm", 1, attrs[:2], movedChannels(x), gamma, beta)[0]
	for i := range want.Len() {
		require.InDelta(t, want.Float(i), first.Float(i), 1e-5)
		require.InDelta(t, movedChannels(want).Float(i), last.Float(i), 1e-5)
	}
	moved := movedChannels(x)
	sum := mustMS(t, "BiasAdd", 1, nil, moved, bias, evalNN(t, "Expand", 1, nil, skip.Reshaped(2, 1, 1, 4), ndarray.Of([]int64{2, 3, 2, 4}, 4))[0])[0]
	silu := []ssa.Attr{attrInt("groups", 2), attrInt("activation", 1)}
	skipped := mustMS(t, "SkipGroupNorm", 2, silu, moved, gamma, beta, skip, bias)
	plain := mustMS(t, "GroupNorm", 1, silu, sum, gamma, beta)[0]
	assert.Equal(t, numbersOf(sum), numbersOf(skipped[1]))
	assert.Equal(t, numbersOf(plain), numbersOf(skipped[0]))
}

// numbersOf reads an array with three digits, so that the order of sums does not
// matter.
func numbersOf(a *ndarray.Array) []string {
	out := make([]string, a.Len())
	for i := range out {
		out[i] = fmt.Sprintf("%.3f", a.Float(i))
	}
	return out
}

// interleave packs [B,S,N*H] operands as [B,S,N,count,H].
func interleave(n int, parts ...*ndarray.Array) *ndarray.Array {
	b, s, h := parts[0].Shape[0], parts[0].Shape[1], parts[0].Shape[2]/n
	out := ndarray.Must(ndarray.Float32, b, s, n, len(parts), h)
	for i, p := range parts {
		for r := range b * s * n {
			kit.CopyElems(new(kit.Watch), out, (r*len(parts)+i)*h, p, r*h, h)
		}
	}
	return out
}

// TestMultiHeadPacked compares the packings of Q, K and V with separate ones.
func TestMultiHeadPacked(t *testing.T) {
	q, k, v := wavy(1, 2, 3, 8), wavy(2, 2, 3, 8), wavy(3, 2, 3, 8)
	bias := wavy(4, 24)
	attrs := []ssa.Attr{attrInt("num_heads", 2)}
	want := mustMS(t, "MultiHeadAttention", 3, attrs, q, k, v, bias)
	for i, got := range mustMS(t, "MultiHeadAttention", 3, attrs, interleave(2, q, k, v), nil, nil, bias) {
		assert.Equal(t, want[i].Data, got.Data)
	}
	for i, got := range mustMS(t, "MultiHeadAttention", 3, attrs, q, interleave(2, k, v), nil, bias) {
		assert.Equal(t, want[i].Data, got.Data)
	}
}

// TestGroupQueryForms compares packed operands, a shared cache and a norm of
// ones with the plain form.
func TestGroupQueryForms(t *testing.T) {
	const n, k, h = 4, 2, 4
	q, key, val := wavy(1, 1, 2, n*h), wavy(2, 1, 2, k*h), wavy(3, 1, 2, k*h)
	past := []*ndarray.Array{wavy(4, 1, k, 3, h), wavy(5, 1, k, 3, h)}
	lens, total := ndarray.Of([]int32{4}, 1), ndarray.Scalar(int32(5))
	attrs := []ssa.Attr{attrInt("num_heads", n), attrInt("kv_num_heads", k)}
	want := mustMS(t, "GroupQueryAttention", 3, attrs, q, key, val, past[0], past[1], lens, total)
	packed := ndarray.Must(ndarray.Float32, 1, 2, (n+2*k)*h)
	for s := range 2 {
		at := s * (n + 2*k) * h
		kit.CopyElems(new(kit.Watch), packed, at, q, s*n*h, n*h)
		kit.CopyElems(new(kit.Watch), packed, at+n*h, key, s*k*h, k*h)
		kit.CopyElems(new(kit.Watch), packed, at+(n+k)*h, val, s*k*h, k*h)
	}
	for i, got := range mustMS(t, "GroupQueryAttention", 3, attrs, packed, nil, nil, past[0], past[1], lens, total) {
		assert.Equal(t, want[i].Data, got.Data)
	}
	longer := make([]*ndarray.Array, 2)
	for i, p := range past {
		longer[i] = ndarray.Must(ndarray.Float32, 1, k, 9, h)
		for r := range k {
			kit.CopyElems(new(kit.Watch), longer[i], r*9*h, p, r*3*h, 3*h)
		}
	}
	got := mustMS(t, "GroupQueryAttention", 3, attrs, q, key, val, longer[0], longer[1], lens, total)
	assert.Equal(t, want[0].Data, got[0].Data, "a cache with room to spare")
	assert.Equal(t, []int{1, k, 9, h}, got[1].Shape)
	_, err := evalMS(t, "GroupQueryAttention", 3, append(slices.Clone(attrs), ssa.StringAttr("k_quant_type", "PER_TENSOR")), q, key, val, past[0], past[1], lens, total)
	assert.ErrorIs(t, err, ops.ErrUnsupported)
}

// TestMicrosoftValues checks operators that onnxruntime has no CPU kernel for,
// by hand.
func TestMicrosoftValues(t *testing.T) {
	f := func(v ...float32) *ndarray.Array { return ndarray.Of(v, len(v)) }
	s := func(v float32) *ndarray.Array { return ndarray.Scalar(v) }
	u8 := func(v ...uint8) *ndarray.Array { return ndarray.Of(v, len(v)) }
	list := func(a ...ssa.Attr) []ssa.Attr { return a }
	for _, c := range []struct {
		op    string
		attrs []ssa.Attr
		in    []*ndarray.Array
		want  []float64
	}{
		{"BiasSplitGelu", nil, []*ndarray.Array{f(1, 2, 0, 3).Reshaped(1, 1, 4), f(1, 0, 0, 0)}, []float64{0, 2 * 2.9959502}},
		{"QGemm", nil, []*ndarray.Array{u8(1, 3, 5, 7).Reshaped(4, 1), s(0.5), ndarray.Scalar(uint8(0)), ndarray.Of([]int8{1}, 1, 1), s(1), ndarray.Scalar(int8(0)), nil, s(1), ndarray.Scalar(uint8(3))},
			[]float64{3, 5, 5, 7}}, // 0.5, 1.5, 2.5 and 3.5 are rounded before 3 is added
		{"MultiHeadAttention", list(attrInt("num_heads", 1), attrInt("unidirectional", 1)), []*ndarray.Array{f(0).Reshaped(1, 1, 1), f(1, 2).Reshaped(1, 2, 1), f(1, 3).Reshaped(1, 2, 1)},
			[]float64{2}}, // a single query reads all keys
		{"MulInteger", nil, []*ndarray.Array{u8(3, 9), ndarray.Scalar(uint8(5)), u8(10), nil}, []float64{-20, 40}},
		{"ReduceSumInteger", list(attrInts("axes", 0), attrInt("keepdims", 0)), []*ndarray.Array{u8(200, 100)}, []float64{300}},
		{"QLinearReduceMean", list(attrInts("axes", -1), attrInt("keepdims", 1)), []*ndarray.Array{u8(10, 20).Reshaped(1, 2), s(0.5), nil, s(0.25)}, []float64{30}},
		{"BiasSoftmax", list(attrInt("axis", 1), attrInt("is_inner_broadcast", 1)), []*ndarray.Array{f(1, 2, 0, 0).Reshaped(2, 2), f(1, 0)}, []float64{0.5, 0.5, 0.7310586, 0.2689414}},
		{"GemmFastGelu", nil, []*ndarray.Array{f(1, 2).Reshaped(1, 2), f(1, 1).Reshaped(2, 1), f(-3)}, []float64{0}},
		{"FusedMatMulActivation", list(ssa.StringAttr("activation", "Relu")), []*ndarray.Array{f(1, -2).Reshaped(1, 2), f(1, 1).Reshaped(2, 1)}, []float64{0}},
		{"SimplifiedLayerNormalization", list(ssa.FloatAttr("epsilon", 0)), []*ndarray.Array{f(3, 4), f(1, 2)}, []float64{3 / 3.5355339, 8 / 3.5355339}},
	} {
		t.Run(c.op, func(t *testing.T) {
			y := mustMS(t, c.op, 1, c.attrs, c.in...)[0]
			require.Equal(t, len(c.want), y.Len())
			for i, w := range c.want {
				assert.InDelta(t, w, y.Float(i), 1e-4)
			}
		})
	}
}

func TestMicrosoftShapes(t *testing.T) {
	for _, c := range []struct {
		op, in, want string
		attrs        []ssa.Attr
	}{
		{"FusedMatMul", "float32[K,N]; float32[M,K]", "float32[N,M]", []ssa.Attr{attrInt("transA", 1), attrInt("transB", 1)}},
		{"FusedMatMul", "float32[M,B,K]; float32[B,K,8]", "float32[B,M,8]", []ssa.Attr{attrInt("transBatchA", 1)}},
		{"SkipLayerNormalization", "float16[B,S,8]; float16[B,S,8]; float16[8]", "float16[B,S,8]; float32[B,S,1]; float32[B,S,1]; float16[B,S,8]", nil},
		{"EmbedLayerNormalization", "int32[B,S]; ; float32[V,8]; float32[P,8]; ; float32[8]; float32[8]", "float32[B,S,8]; int32[B]; float32[B,S,8]", nil},
		{"Attention", "float32[B,S,8]; float32[8,24]; float32[24]; ; float32[2,B,2,P,4]", "float32[B,S,8]; float32[2,B,2,P+S,4]", []ssa.Attr{attrInt("num_heads", 2)}},
		{"MultiHeadAttention", "float32[B,S,8]; float32[B,L,8]; float32[B,L,6]", "float32[B,S,6]; float32[B,2,L,4]; float32[B,2,L,3]", []ssa.Attr{attrInt("num_heads", 2)}},
		{"GroupQueryAttention", "float32[B,S,32]; float32[B,S,16]; float32[B,S,16]; float32[B,2,P,8]; float32[B,2,P,8]; int32[B]; int32[]",
			"float32[B,S,32]; float32[B,2,?,8]; float32[B,2,?,8]", []ssa.Attr{attrInt("num_heads", 4), attrInt("kv_num_heads", 2)}},
		{"MatMulNBits", "float32[B,S,64]; uint8[24,2,16]; float32[24,2]", "float32[B,S,24]",
			[]ssa.Attr{attrInt("K", 64), attrInt("N", 24), attrInt("block_size", 32)}},
		{"QLinearConcat", "float32[]; uint8[]; uint8[A,3]; float32[]; uint8[]; uint8[B,3]; float32[]; uint8[]", "uint8[A+B,3]", []ssa.Attr{attrInt("axis", 0)}},
		{"QLinearGlobalAveragePool", "uint8[N,H,W,C]; float32[]; uint8[]; float32[]; uint8[]", "uint8[N,1,1,C]", []ssa.Attr{attrInt("channels_last", 1)}},
		{"QLinearAdd", "uint8[N,3]; float32[]; uint8[]; uint8[3]; float32[]; uint8[]; float32[]; uint8[]", "uint8[N,3]", nil},
		{"QGemm", "uint8[M,K]; float32[]; uint8[]; int8[N,K]; float32[]; int8[]", "float32[M,N]", []ssa.Attr{attrInt("transB", 1)}},
		{"GatherBlockQuantized", "uint8[V,16]; int64[B,S]; float16[V,1]", "float16[B,S,32]", nil},
		{"NhwcMaxPool", "uint8[N,H,W,C]", "uint8[N,H-1,W-1,C]", []ssa.Attr{attrInts("kernel_shape", 2, 2)}},
		{"CDist", "float32[M,8]; float32[N,8]", "float32[M,N]", nil},
		{"Range", "int64 2; int64 7", "int64[5]", nil},
		{"ExpandDims", "float32[A,B]; int64 1", "float32[A,1,B]", nil},
	} {
		t.Run(c.op, func(t *testing.T) {
			want := strings.Split(c.want, "; ")
			n := nodeOf(t, contrib.Microsoft, c.op, operandList(c.in), len(want), c.attrs...)
			require.NoError(t, ops.Infer(n))
			for i, w := range want {
				assert.Equal(t, w, n.Out[i].Type.String())
			}
		})
	}
}

func TestMicrosoftRefuses(t *testing.T) {
	for _, c := range []struct {
		op, in, want string
		attrs        []ssa.Attr
	}{
		{"FusedConv", "float32[1,1,3]; float32[1,1,2]", "Sine", []ssa.Attr{ssa.StringAttr("activation", "Sine")}},
		{"Attention", "float32[1,2,8]; float32[8,24]; float32[24]", "do not divide", []ssa.Attr{attrInt("num_heads", 3)}},
		{"Attention", "float32[1,2,8]; float32[8,24]; float32[24]; int32[7]", "the mask has shape", []ssa.Attr{attrInt("num_heads", 2)}},
		{"Attention", "float32[1,2,8]; float32[8,24]; float32[24]", "not supported", []ssa.Attr{attrInt("num_heads", 2), attrInt("do_rotary", 1)}},
		{"MultiHeadAttention", "float32[1,2,8]; float32[1,2,6]; float32[1,2,8]", "head size", []ssa.Attr{attrInt("num_heads", 2)}},
		{"GroupQueryAttention", "float32[1,2,8]; float32[1,2,8]; float32[1,2,8]; ; ; int32[1]; int32[]", "total_sequence_length", []ssa.Attr{attrInt("num_heads", 2), attrInt("kv_num_heads", 2)}},
		{"MatMulNBits", "float32[1,64]; uint8[24,2,16]; float32[24,2]", "block_size=7", []ssa.Attr{attrInt("K", 64), attrInt("N", 24), attrInt("block_size", 7)}},
		{"MatMulNBits", "float32[1,64]; uint8[24,2,8]; float32[24,2]", "B has", []ssa.Attr{attrInt("K", 64), attrInt("N", 24), attrInt("block_size", 32)}},
		{"EmbedLayerNormalization", "int32[1,2]; ; float32[0,8]; float32[4,8]; ; float32[8]; float32[8]", "outside an embedding table", nil},
		{"QLinearConcat", "float32[]; uint8[]; uint8[2]; float32[]; uint8[]; uint8[2]", "whole parts", []ssa.Attr{attrInt("axis", 0)}},
		{"Inverse", "float32[2,3]", "square", nil},
		{"Inverse", "float32[2,2]", "no inverse", nil},
		{"CDist", "float32[2,3]; float32[2,3]", "cosine", []ssa.Attr{ssa.StringAttr("metric", "cosine")}},
	} {
		t.Run(c.op+" "+c.want, func(t *testing.T) {
			refuses(t, nodeOf(t, contrib.Microsoft, c.op, operandList(c.in), 1, c.attrs...), c.want)
		})
	}
}

// TestStateWindow: slot j of the states is the state after the position it stands
// for, as a shorter run gives it, and zero before the first.
func TestStateWindow(t *testing.T) {
	const window, length = 5, 3
	heads := []ssa.Attr{attrInt("q_num_heads", 2), attrInt("kv_num_heads", 2), ssa.StringAttr("update_rule", "linear")}
	for _, c := range []struct {
		op       string
		attrs    []ssa.Attr
		operands func(length int) []*ndarray.Array // of the first positions
		past     *ndarray.Array
		at       int // operand past_state
	}{
		{"LinearAttention", heads, func(n int) []*ndarray.Array {
			return []*ndarray.Array{firstRows(wavy(1, 1, length, 8), n), firstRows(wavy(2, 1, length, 8), n), firstRows(wavy(3, 1, length, 6), n), nil}
		}, wavy(4, 1, 2, 4, 3), 3},
		{"CausalConvWithState", []ssa.Attr{attrInt("channels_last", 1)}, func(n int) []*ndarray.Array {
			return []*ndarray.Array{firstRows(wavy(1, 1, length, 4), n), wavy(2, 4, 1, 3), wavy(3, 4), nil}
		}, wavy(4, 1, 2, 4), 3},
	} {
		t.Run(c.op, func(t *testing.T) {
			in := c.operands(length)
			slots := ndarray.Must(ndarray.Float32, append([]int{window}, c.past.Shape...)...)
			copy(slots.Data[len(slots.Data)-len(c.past.Data):], c.past.Data)
			in[c.at] = slots
			got := mustMS(t, c.op, 2, append(slices.Clone(c.attrs), attrInt("state_window", window)), in...)[1]
			for j := range window {
				slot := got.Data[j*len(c.past.Data):][:len(c.past.Data)]
				want := make([]byte, len(slot))
				if n := length - window + j + 1; n > 0 {
					short := c.operands(n)
					short[c.at] = c.past
					want = mustMS(t, c.op, 2, c.attrs, short...)[1].Data
				}
				assert.Equal(t, want, slot, "slot %d", j)
			}
		})
	}
}

// firstRows is the first rows of a [1, rows, width] array.
func firstRows(a *ndarray.Array, n int) *ndarray.Array {
	out := ndarray.Must(a.DType, 1, n, a.Shape[2])
	copy(out.Data, a.Data)
	return out
}
