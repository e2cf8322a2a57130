package ops_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// seeds are valid calls of the operators that have no recorded cases: domain,
// operator, operand types, integer and string attributes.
var seeds = []struct {
	domain, op, in string
	attrs          []ssa.Attr
}{
	{"", "Attention", "float32[1,4,3,8]; float32[1,2,5,8]; float32[1,2,5,6]; bool[3,7]; float32[1,2,2,8]; float32[1,2,2,6]", []ssa.Attr{attrInt("is_causal", 1)}},
	{"", "Attention", "float32[2,3,8]; float32[2,5,8]; float32[2,5,8]; float32[5]; ; ; int64[2]", []ssa.Attr{attrInt("q_num_heads", 2), attrInt("kv_num_heads", 2), attrInt("left_window_size", 1)}},
	{"", "RotaryEmbedding", "float32[1,2,3,4]; float32[9,2]; float32[9,2]; int64[1,3]", nil},
	{"", "RotaryEmbedding", "float32[1,3,8]; float32[1,3,2]; float32[1,3,2]", []ssa.Attr{attrInt("num_heads", 2), attrInt("rotary_embedding_dim", 4)}},
	{"", "LinearAttention", "float32[1,3,8]; float32[1,3,4]; float32[1,3,6]; float32[1,2,2,3]; float32[1,3,2]; float32[1,3,1]", []ssa.Attr{attrInt("q_num_heads", 4), attrInt("kv_num_heads", 2)}},
	{"", "CausalConvWithState", "float32[2,3,4]; float32[3,1,2]; float32[3]; float32[2,3,1]", []ssa.Attr{ssa.StringAttr("activation", "silu")}},
	{"", "SwiGLU", "float32[2,3]; float32[2,3]", []ssa.Attr{ssa.FloatAttr("alpha", 1)}},
	{"ai.onnx.preview", "FlexAttention", "float32[1,4,3,8]; float32[1,2,5,8]; float32[1,2,5,6]", []ssa.Attr{attrInt("softmax_precision", 1)}},
	{"", "DeformConv", "float32[1,2,3,3]; float32[2,2,2,2]; float32[1,8,2,2]; float32[2]; float32[1,4,2,2]", []ssa.Attr{attrInt("group", 1), attrInt("offset_group", 1)}},
	{"", "MaxUnpool", "float32[1,1,2,2]; int64[1,1,2,2]; int64 1,1,5,5", []ssa.Attr{attrInts("kernel_shape", 2, 2), attrInts("strides", 2, 2)}},
	{"", "GroupNormalization", "float32[1,4,2]; float32[4]; float32[4]", []ssa.Attr{attrInt("num_groups", 2), attrInt("stash_type", 1)}},
	{"", "RMSNormalization", "float32[2,4]; float32[4]", []ssa.Attr{attrInt("axis", -1), attrInt("stash_type", 1)}},
	{"", "Dropout", "float32[2,4]; float32[]; bool[]", []ssa.Attr{attrInt("seed", 1)}},
	{"", "NegativeLogLikelihoodLoss", "float32[2,3,2]; int64[2,2]; float32[3]", []ssa.Attr{ssa.StringAttr("reduction", "mean"), attrInt("ignore_index", 1)}},
	{"", "SoftmaxCrossEntropyLoss", "float32[2,3,2]; int64[2,2]; float32[3]", []ssa.Attr{ssa.StringAttr("reduction", "none"), attrInt("ignore_index", 1)}},
	{"", "DFT", "float32[2,4,2]; int64 3; int64 1", []ssa.Attr{attrInt("onesided", 1), attrInt("inverse", 1)}},
	{"", "STFT", "float32[2,9,1]; int64 2; float32[4]; int64 4", []ssa.Attr{attrInt("onesided", 1)}},
	{"", "MelWeightMatrix", "int64 4; int64 8; int64 100; float32[]; float32[]", []ssa.Attr{attrInt("output_datatype", 1)}},
}

// base is a valid call to be spoiled.
type base struct {
	name string
	make func(t *testing.T) (*ssa.Node, []ndarray.Value)
}

func bases(t *testing.T) (out []base) {
	for _, file := range []string{"nn", "quant", "microsoft", "ml"} {
		for _, c := range readGolden(t, file) {
			out = append(out, base{c.Name, c.node})
		}
	}
	for _, s := range seeds {
		out = append(out, base{s.op, func(t *testing.T) (*ssa.Node, []ndarray.Value) {
			n := nodeOf(t, s.domain, s.op, operandList(s.in), 1, s.attrs...)
			return n, zerosFor(t, n)
		}})
	}
	return out
}

// TestSpoiledCalls changes one thing of valid calls: an operand's shape, type or
// presence, or an attribute. The operator may answer or refuse, but not panic.
func TestSpoiledCalls(t *testing.T) {
	for k, b := range bases(t) {
		rng := rand.New(rand.NewPCG(7, uint64(k)))
		for range 40 {
			n, in := b.make(t)
			what := spoil(rng, n, in)
			if what == "" {
				continue
			}
			err := guarded(n, in)
			var p *ops.PanicError
			if errors.As(err, &p) {
				assert.Fail(t, "panic", "%s, %s: %v\n%s", b.name, what, p.Value, p.Stack)
			}
		}
	}
}

// guarded infers and evaluates, catching panics of inference too.
func guarded(n *ssa.Node, in []ndarray.Value) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &ops.PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	for _, check := range []func(*ssa.Node) error{ops.Of(n).CheckArity, ops.Of(n).CheckAttrs} {
		if err := check(n); err != nil {
			return err
		}
	}
	_ = ops.Infer(n) // kernels must stand alone: types may be known only at run time
	return ops.Eval(&ops.Call{Node: n, In: in, Threads: 1})
}

// spoil makes one change and says which; "" if it found nothing to change.
func spoil(rng *rand.Rand, n *ssa.Node, in []ndarray.Value) string {
	if rng.IntN(3) == 0 && len(n.Attrs) > 0 {
		a := &n.Attrs[rng.IntN(len(n.Attrs))]
		spoilAttr(rng, a)
		return fmt.Sprintf("attribute %s", a.Name)
	}
	i := rng.IntN(len(in))
	a, ok := in[i].(*ndarray.Array)
	if !ok {
		return ""
	}
	switch rng.IntN(4) {
	case 0:
		in[i] = nil
		n.SetInput(i, nil)
		return fmt.Sprintf("operand %d absent", i)
	case 1:
		types := []ndarray.DType{ndarray.Float32, ndarray.Int8, ndarray.Uint8, ndarray.Int64, ndarray.Float16, ndarray.Bool, ndarray.Float8E4M3FN, ndarray.Int4, ndarray.String, ndarray.Float64}
		in[i] = ndarray.Must(types[rng.IntN(len(types))], a.Shape...)
	case 2:
		shape := slices.Clone(a.Shape)
		if len(shape) > 0 && rng.IntN(2) == 0 {
			shape[rng.IntN(len(shape))] = rng.IntN(4)
		} else if len(shape) > 0 && rng.IntN(2) == 0 {
			shape = shape[1:]
		} else {
			shape = append(shape, 1+rng.IntN(2))
		}
		in[i] = ndarray.Must(a.DType, shape...)
	default:
		b := a.Clone()
		for k := range b.Len() {
			b.SetInt(k, []int64{-7, -1, 0, 1, 3, 1000}[rng.IntN(6)])
		}
		in[i] = b
	}
	b := in[i].(*ndarray.Array)
	g := ssa.NewGraph("spoiled")
	n.SetInput(i, g.AddParam("x", ssa.StaticTensor(b.DType, b.Shape...)))
	return fmt.Sprintf("operand %d as %s", i, b)
}

func spoilAttr(rng *rand.Rand, a *ssa.Attr) {
	odd := []int64{-1, 0, 1, 2, 3, 7, 100, math.MinInt64, math.MaxInt64}
	pick := func() int64 { return odd[rng.IntN(len(odd))] }
	switch a.Kind {
	case ssa.AttrInt:
		a.I = pick()
	case ssa.AttrInts:
		a.Ints = slices.Clone(a.Ints)
		if len(a.Ints) > 0 && rng.IntN(2) == 0 {
			a.Ints[rng.IntN(len(a.Ints))] = pick()
		} else {
			a.Ints = append(a.Ints, pick())
		}
	case ssa.AttrString:
		a.S = "odd"
	case ssa.AttrStrings:
		a.Strings = a.Strings[:len(a.Strings)/2]
	case ssa.AttrFloat:
		a.F = float32(math.NaN())
	}
}
