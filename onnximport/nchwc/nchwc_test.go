package nchwc_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	_ "github.com/berth-onnx/berth/onnximport/nchwc"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

const blockedFiles = "testdata/"

// TestBlockedLayout: what ONNX Runtime wrote computes what it was made from, and
// holds no operator of the blocked domain any more.
func TestBlockedLayout(t *testing.T) {
	for _, c := range []struct {
		name  string
		block int
	}{{"padded", 0}, {"padded", 16}, {"resized", 0}, {"last", 0}, {"silent", 16}, {"pools", 0}, {"pools", 8}, {"pools", 16}} {
		t.Run(c.name, func(t *testing.T) {
			want, err := onnximport.Load(blockedFiles+c.name+".onnx", onnximport.Options{})
			require.NoError(t, err)
			got, err := onnximport.Load(blockedFiles+c.name+".ort.onnx", onnximport.Options{ChannelBlock: c.block})
			require.NoError(t, err)
			assert.Empty(t, got.Warnings)
			assert.Zero(t, blockedNodes(got.Graph))
			require.NoError(t, ssa.Check(got.Graph))
			sameResults(t, want.Graph, got.Graph)
		})
	}
}

// TestBlockOfEight: the same file as a machine without AVX-512 writes it.
func TestBlockOfEight(t *testing.T) {
	want, err := onnximport.Load(blockedFiles+"silent.onnx", onnximport.Options{})
	require.NoError(t, err)
	m := blockedModel(t, "silent")
	for _, w := range m.Graph.Initializers {
		if len(w.Dims) == 4 {
			w.RawData = eights(w)
		}
	}
	got := imported(t, m, onnximport.Options{ChannelBlock: 8})
	assert.Zero(t, blockedNodes(got.Graph))
	sameResults(t, want.Graph, got.Graph)
}

// TestBlockUnknown: where the file does not show the block, or shows that the given
// one is wrong, nothing is guessed: the nodes stay, and a warning says what to do.
func TestBlockUnknown(t *testing.T) {
	for _, c := range []struct {
		name, file, want string
		block            int
	}{
		{"not shown", "silent", "--channel-block", 0},
		{"no such block", "silent", "no blocks of 4", 4},
		{"channels were padded to 16", "padded", "fit none", 8},
		{"channels were padded to 16", "resized", "fit none", 8},
		{"channels last", "last", "fit none", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := onnximport.Load(blockedFiles+c.file+".ort.onnx", onnximport.Options{ChannelBlock: c.block})
			require.NoError(t, err)
			require.Len(t, m.Warnings, 1)
			assert.Contains(t, m.Warnings[0], c.want)
			assert.Contains(t, m.Warnings[0], "com.microsoft.nchwc")
			assert.NotZero(t, blockedNodes(m.Graph))
			_, err = ops.Interpret(t.Context(), m.Graph, []ndarray.Value{input(t, m.Graph)}, nil)
			require.ErrorIs(t, err, ops.ErrUnsupported)
		})
	}
}

// TestBlockShownByZeros: filters that were padded with zeros show the block, unless
// they could have been padded for the other as well.
func TestBlockShownByZeros(t *testing.T) {
	for _, c := range []struct {
		name  string
		lanes []int // of the last 16 channels of the last filters that are zero
		shown bool
	}{
		{"the last of sixteen", []int{15}, true},
		{"the last of both eights", []int{7, 15}, false},
		{"none", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := blockedModel(t, "silent")
			w := m.Graph.Initializers[slices.IndexFunc(m.Graph.Initializers, func(w *onnxwire.Tensor) bool { return len(w.Dims) == 4 && w.Dims[1] == 32 })]
			for i := len(w.RawData) / 2; i < len(w.RawData); i += 4 {
				if slices.Contains(c.lanes, i/4%16) {
					clear(w.RawData[i : i+4])
				}
			}
			got := imported(t, m, onnximport.Options{})
			assert.Equal(t, c.shown, blockedNodes(got.Graph) == 0, got.Warnings)
		})
	}
}

// TestBlockedDamage: what is no blocked operator as ONNX Runtime writes it stays.
func TestBlockedDamage(t *testing.T) {
	for _, c := range []struct {
		name, want string
		damage     func(g *onnxwire.Graph)
	}{
		{"unknown operator", "is not known", func(g *onnxwire.Graph) { g.Nodes[0].OpType = "Warp" }},
		{"filters computed", "no constant", func(g *onnxwire.Graph) { g.Nodes[0].Inputs[1] = "x" }},
		{"channels beyond", "fit none", func(g *onnxwire.Graph) { g.Nodes[2].Attributes[1].I, g.Nodes[2].Attributes[0].I = 90, 90 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := blockedModel(t, "silent")
			c.damage(m.Graph)
			got := imported(t, m, onnximport.Options{ChannelBlock: 16})
			require.NotEmpty(t, got.Warnings)
			assert.Contains(t, got.Warnings[0], c.want)
			assert.NotZero(t, blockedNodes(got.Graph))
		})
	}
}

// TestBlockedActivations: activations that convolutions end with, in place of the Relu of a file.
func TestBlockedActivations(t *testing.T) {
	for _, act := range []string{"Relu", "Tanh", "Sigmoid", "HardSwish"} {
		t.Run(act, func(t *testing.T) {
			plain, blocked := modelOf(t, "silent.onnx"), blockedModel(t, "silent")
			replaced := 0
			for _, n := range plain.Graph.Nodes {
				if n.OpType == "Relu" {
					n.OpType = act
					replaced++
				}
			}
			for _, n := range blocked.Graph.Nodes {
				for _, a := range n.Attributes {
					if a.Name == "activation" {
						a.S = []byte(act)
						replaced++
					}
				}
			}
			require.Equal(t, 2, replaced)
			got := imported(t, blocked, onnximport.Options{ChannelBlock: 16})
			assert.Empty(t, got.Warnings)
			sameResults(t, imported(t, plain, onnximport.Options{}).Graph, got.Graph)
		})
	}
}

func blockedModel(t *testing.T, name string) *onnxwire.Model { return modelOf(t, name+".ort.onnx") }

func modelOf(t *testing.T, file string) *onnxwire.Model {
	data, err := os.ReadFile(blockedFiles + file)
	require.NoError(t, err)
	m, err := onnxwire.Parse(slices.Clone(data))
	require.NoError(t, err)
	return m
}

// imported writes a model and imports what was written.
func imported(t *testing.T, m *onnxwire.Model, opts onnximport.Options) *ssa.Module {
	data, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	mod, err := onnximport.FromBytes(data, "", opts)
	require.NoError(t, err)
	return mod
}

func blockedNodes(g *ssa.Graph) (n int) {
	for _, m := range g.Nodes {
		if strings.HasPrefix(m.Domain, "com.microsoft.nchwc") {
			n++
		}
	}
	return n
}

// eights turns filters in blocks of 16 into filters in blocks of 8: every block of
// the new layout is a quarter of an old one, every second of both inner indexes.
func eights(w *onnxwire.Tensor) []byte {
	o, i, area := int(w.Dims[0]), int(w.Dims[1]), int(w.Dims[2]*w.Dims[3])
	out := make([]byte, 0, len(w.RawData))
	one := func(at int) { out = append(out, w.RawData[4*at:4*at+4]...) }
	for ob := 0; ob < o; ob += 8 {
		if i < 16 { // plain operand: [O/B][I][area][B]
			for rest := range i * area {
				for ok := range 8 {
					one((ob/16*i*area+rest)*16 + ob%16 + ok)
				}
			}
			continue
		}
		for ib := 0; ib < i; ib += 8 {
			for p := range area {
				for ik := range 8 {
					for ok := range 8 {
						one((((ob/16*(i/16)+ib/16)*area+p)*16+ib%16+ik)*16 + ob%16 + ok)
					}
				}
			}
		}
	}
	return out
}

func input(t *testing.T, g *ssa.Graph) *ndarray.Array {
	shape, ok := g.Params[0].Type.Static()
	require.True(t, ok)
	a := ndarray.Must(ndarray.Float32, shape...)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range a.Len() {
		a.SetFloat(i, r.NormFloat64())
	}
	return a
}

func sameResults(t *testing.T, want, got *ssa.Graph) {
	x := input(t, want)
	w, err := ops.Interpret(t.Context(), want, []ndarray.Value{x}, nil)
	require.NoError(t, err)
	g, err := ops.Interpret(t.Context(), got, []ndarray.Value{x}, nil)
	require.NoError(t, err)
	a, b := w[0].(*ndarray.Array), g[0].(*ndarray.Array)
	require.Equal(t, a.Shape, b.Shape)
	most := 0.0
	for i := range a.Len() {
		most = max(most, math.Abs(a.Float(i)))
		require.InDelta(t, a.Float(i), b.Float(i), 1e-5, "element %d", i)
	}
	require.Greater(t, most, 0.01, "results that say something")
}

// endsAt is a context that ends when it is looked at for a number of times, and counts looks from this package.
type endsAt struct {
	context.Context
	looks, last, within int
}

func (e *endsAt) Err() error {
	e.looks++
	frames := make([]uintptr, 8)
	all := runtime.CallersFrames(frames[:runtime.Callers(2, frames)])
	for more := true; more; {
		var f runtime.Frame
		if f, more = all.Next(); strings.Contains(f.Function, "/nchwc.") {
			e.within++
			break
		}
	}
	if e.last > 0 && e.looks >= e.last {
		return context.Canceled
	}
	return nil
}

// TestEnds: an import that is ended while it lowers the domain has no module, whenever that is, and lowering looks at every node.
func TestEnds(t *testing.T) {
	load := func(last int) (*endsAt, error) {
		ctx := &endsAt{Context: context.Background(), last: last}
		m, err := onnximport.Load(blockedFiles+"padded.ort.onnx", onnximport.Options{Context: ctx})
		if err == nil {
			assert.Zero(t, blockedNodes(m.Graph), "ended at look %d", last)
			m.Close()
		}
		return ctx, err
	}
	whole, err := load(0)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, whole.within, 5, "of %d", whole.looks)
	for last := 1; last <= whole.looks; last++ {
		_, err := load(last)
		assert.ErrorIs(t, err, context.Canceled, "at look %d of %d", last, whole.looks)
	}
}
