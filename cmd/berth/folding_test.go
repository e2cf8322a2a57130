package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// spoil makes the reference kernel of an operator wrong until the test ends: it adds 1 to the first element of its first result.
func spoil(t *testing.T, op string) {
	t.Helper()
	o := ops.Lookup("", op)
	right := o.Eval
	t.Cleanup(func() { o.Eval = right })
	o.Eval = func(c *ops.Call) error { return spoilt(c, right(c)) }
}

func spoilt(c *ops.Call, err error) error {
	if a, ok := c.Out[0].(*ndarray.Array); ok && err == nil && a.Len() > 0 {
		a.SetFloat(0, a.Float(0)+1)
	}
	return err
}

// Models whose constants folding computes: weights, a mask, a branch, what follows from a shape.
const (
	foldedWeights = `in %x: float32[2,4] const %u: float32[4,4] = splat 0.25 const %v: float32[4,4] = splat 0.5
		%w = Mul(%u, %v) %y = MatMul(%x, %w) out %y`
	foldedMask   = `in %x: float32[4,4] const %u: float32[4,4] = splat 2 %w = Trilu(%u) [upper=0] %y = Add(%x, %w) out %y`
	foldedBranch = `in %x: float32[N,4] in %c: int64[] const %k: int64[] = 7000 %e = Equal(%c, %k)
		%y = If(%e | %x) {
			then_branch: graph "t" { in %p: float32[N,4] const %s: float32[4] = [1, 2, 3, 4] %n = Neg(%s) %b = Add(%p, %n) out %b }
			else_branch: graph "e" { in %p: float32[N,4] %b = Abs(%p) out %b } } out %y`
	foldedShape = `in %x: float32[2,4] %s = Shape(%x) const %two: int64[] = 2 %d = Mul(%s, %two) %f = Cast(%d) [to=1]
		const %one: float32[2] = [1, 1] %g = Add(%f, %one) %r = ReduceSum(%x) [keepdims=0] %y = Add(%g, %r) out %y`
	foldedSearch = `in %x: float32[6] const %m: float32[6] = [0, 1, 0, 2, 3, 0] %i = NonZero(%m) const %s: int64[1] = [3]
		%j = Reshape(%i, %s) %y = Gather(%x, %j) out %y`
	foldedScaler = `in %x: float32[2,3] const %m: float32[1,3] = [1, 2, 3] %s = "ai.onnx.ml"::Scaler(%m) [offset=[1.0], scale=[2.0]] %y = Add(%x, %s) out %y`
)

// TestSpoiltFolding: a reference kernel that is wrong makes a wrong constant of the result and of the folded original alike.
func TestSpoiltFolding(t *testing.T) {
	for _, c := range []struct {
		name, graph, op string
		same            any // operators that only one kernel computes
		refused         bool
	}{
		{"weights", foldedWeights, "Mul", nil, true},
		{"a mask", foldedMask, "Trilu", nil, true},
		{"a branch that a later input enters", foldedBranch, "Neg", nil, true},
		{"behind a shape", foldedShape, "Cast", nil, true},
		{"only one kernel", foldedSearch, "NonZero", []any{"NonZero", "Reshape"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := saved(t, c.graph)
			out := filepath.Join(t.TempDir(), "o.onnx")
			args := []string{"optimize", path, "-o", out, "--no-compare", "--json"}
			folding := object(t, ok(t, args...))["folding"].(map[string]any)
			assert.Equal(t, true, folding["checked"])
			assert.Positive(t, folding["nodes"])
			assert.Equal(t, c.same, folding["same_kernels"], "the report says what was not computed in another way")
			spoil(t, c.op)
			args[3] = out + ".2"
			if !c.refused {
				ok(t, args...)
				return
			}
			o := cli(t, args...)
			assert.Equal(t, exitDiffers, o.code)
			assert.Contains(t, o.err, "with nothing folded, the model itself gives other outputs than folded")
			absent(t, args[3])
		})
	}
}

// TestFoldingTold: the lines that say how far constants were checked.
func TestFoldingTold(t *testing.T) {
	for _, c := range []struct{ name, graph, want string }{
		{"other kernels", foldedWeights, "folding:  nodes folded: 1; the same outputs with nothing folded and other kernels\n"},
		{"one kernel", foldedSearch, "folding:  nodes folded: 2; the same outputs with nothing folded; only one kernel computes NonZero, Reshape\n"},
		{"of another domain", foldedScaler, "folding:  nodes folded: 1; the same outputs with nothing folded; only one kernel computes ai.onnx.ml.Scaler\n"},
	} {
		path := saved(t, c.graph)
		assert.Contains(t, ok(t, "optimize", path, "-o", path+".opt", "--no-compare"), c.want, c.name)
	}
	path := saved(t, linear)
	assert.NotContains(t, ok(t, "optimize", path, "-o", path+".opt", "--no-compare"), "folding:")
}

// verified compares a model with what is to be its optimized form.
func verified(t *testing.T, m, opt *berth.Model) (res optimizeJSON) {
	t.Helper()
	a := &app{out: io.Discard, errOut: io.Discard, ctx: t.Context(), shapes: map[string][]int{}, dims: map[string]int64{}}
	var f optimizeFlags
	f.tolerance.Rtol, f.tolerance.Atol = 1e-3, 1e-4
	require.NoError(t, a.newVerification(m, opt, nil, f, &res).run(t.Context()))
	return res
}

// TestSpoiltResults: what rewriting, kernels of joined nodes or plans may get wrong is seen.
func TestSpoiltResults(t *testing.T) {
	model := func(weight, offset, activation string) *berth.Model {
		list := weight
		for i := range 63 {
			list += fmt.Sprintf(", %g", float64(i%7-3)/8)
		}
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[N,8] const %w: float32[8,8] = [` + list + `] const %b: float32[8] = splat ` + offset +
			` %p = MatMul(%x, %w) %q = Add(%p, %b) %y = ` + activation + `(%q) out %y }`)
		require.NoError(t, err)
		return berth.FromModule(&ssa.Module{Graph: g})
	}
	m := model("0.5", "0.125", "Relu")
	require.True(t, verified(t, m, model("0.5", "0.125", "Relu")).Verified)
	for _, c := range []struct{ name, weight, offset, activation string }{
		{"a weight", "0.55", "0.125", "Relu"},
		{"a weight by little", "0.50002", "0.125", "Relu"},
		{"an offset", "0.5", "0.25", "Relu"},
		{"another activation", "0.5", "0.125", "Abs"},
		{"no activation", "0.5", "0.125", "Identity"},
	} {
		assert.False(t, verified(t, m, model(c.weight, c.offset, c.activation)).Verified, c.name)
	}
	t.Run("an epilogue", func(t *testing.T) {
		for _, name := range []string{"MatMul", "Gemm", fused.Name} {
			o := ops.Lookup(fused.Domain, name)
			t.Cleanup(func() { o.Prepare = nil })
			o.Prepare = func(*ssa.Node) (ops.Kernel, error) {
				return ops.KernelFunc(func(c *ops.Call) error { return spoilt(c, ops.Eval(c)) }), nil
			}
		}
		assert.False(t, verified(t, m, model("0.5", "0.125", "Relu")).Verified)
	})
}

// TestSpoiltPlans: a plan in a file that puts everything at one place is not run.
func TestSpoiltPlans(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "o.onnx")
	ok(t, "optimize", "builtin:unet", "-o", path, "--no-compare")
	m, err := berth.Open(path)
	require.NoError(t, err)
	defer m.Close()
	kept, err := base64.RawStdEncoding.DecodeString(m.Metadata().Properties[berth.PlanKey])
	require.NoError(t, err)
	head := 9 // version and fingerprint
	for range 2 {
		_, n := binary.Uvarint(kept[head:])
		head += n // arena, buffers
	}
	clear(kept[head:])
	wrong := filepath.Join(dir, "wrong.onnx")
	require.NoError(t, m.Save(wrong, berth.SaveOptions{Metadata: map[string]string{berth.PlanKey: base64.RawStdEncoding.EncodeToString(kept)}}))
	w, err := berth.Open(wrong)
	require.NoError(t, err)
	defer w.Close()
	require.NotEqual(t, m.Metadata().Properties[berth.PlanKey], w.Metadata().Properties[berth.PlanKey])
	for of, want := range map[*berth.Model]bool{m: true, w: false} {
		p, err := of.Compile(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, p.Plan().Planner == "saved", p.Plan().Planner)
	}
	assert.True(t, verified(t, m, w).Verified)
}
