package berth_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
)

// TestOptionsThatTakeAway: each of them leaves the results as they are and the
// program no smaller, or the graph no further rewritten.
func TestOptionsThatTakeAway(t *testing.T) {
	m := builtin("encoder")
	_, report, err := m.Optimize(t.Context())
	require.NoError(t, err)
	require.Less(t, report.After.Nodes, report.Before.Nodes, "passes find something")
	changed := ""
	for _, p := range report.Passes {
		if p.Patches > 0 {
			changed = p.Pass
			break
		}
	}
	require.NotEmpty(t, changed)
	_, without, err := m.Optimize(t.Context(), berth.WithoutPass(changed))
	require.NoError(t, err)
	for _, p := range without.Passes {
		assert.NotEqual(t, changed, p.Pass)
	}

	for _, backends := range []string{"layout", "groups"} {
		_, _, err := m.Optimize(t.Context(), berth.WithoutPass(backends))
		require.NoError(t, err, "%s concerns programs alone", backends)
		_, err = m.Compile(t.Context(), berth.WithoutPass(backends))
		require.NoError(t, err, backends)
	}

	plain, err := m.Compile(t.Context())
	require.NoError(t, err)
	copies, err := m.Compile(t.Context(), berth.WithoutViews())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, copies.Plan().ArenaBytes, plain.Plan().ArenaBytes)
}

// TestEnvironment: a processor level that can not be had is an error, not a slower
// or faster run in silence.
func TestEnvironment(t *testing.T) {
	if os.Getenv("BERTH_CPU") == "none such" {
		_, err := builtin("mlp").Compile(t.Context())
		require.ErrorContains(t, err, "BERTH_CPU")
		require.ErrorContains(t, err, `"none such"`)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironment$")
	cmd.Env = append(os.Environ(), "BERTH_CPU=none such")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestMaxOpset: an activation that newer operator sets have as one operator is
// written as that operator only if it may be.
func TestMaxOpset(t *testing.T) {
	m := builtin("encoder") // of operator set 18, with Gelu written out
	nodes := func(opts ...berth.Option) int {
		_, r, err := m.Optimize(t.Context(), opts...)
		require.NoError(t, err)
		return r.After.Nodes
	}
	own := nodes()
	assert.Equal(t, own, nodes(berth.WithMaxOpset(19)), "Gelu came with 20")
	assert.Less(t, nodes(berth.WithMaxOpset(20)), own)
}
