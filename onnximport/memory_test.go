package onnximport

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// beyond is a context that is found beyond its budget when it is looked at for the nth time.
type beyond struct {
	context.Context
	looks, after int
}

var errBeyond = &ops.MemoryError{What: "the work so far"}

func (b *beyond) Err() error {
	if b.looks++; b.looks >= b.after {
		return errBeyond
	}
	return nil
}

// TestImportBeyondItsBudget: an import that is found beyond its budget ends with an error like all others of an import, which names
// the file.
func TestImportBeyondItsBudget(t *testing.T) {
	for after := range 8 {
		m := callModel("o", []*onnxwire.Function{function("f0", "a", "r", wnode("Neg", "a", "r"))}, in("f", wnode("f0", "x", "o")))
		_, err := FromModel(m, "model.onnx", Options{Context: &beyond{Context: t.Context(), after: after}})
		var e *ImportError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "model.onnx", e.File)
		require.ErrorIs(t, err, errBeyond)
	}
}

// TestLoweringWithoutMemory: a domain that is not lowered for want of memory is an error, not a warning: with more, it is lowered.
func TestLoweringWithoutMemory(t *testing.T) {
	defer func() { delete(lowerings, "test.memory") }()
	for _, c := range []struct {
		refuses error
		fails   bool
	}{{errBeyond, true}, {errors.New("no such block"), false}} {
		lowerings["test.memory"] = func(context.Context, *ssa.Graph, Options) error { return c.refuses }
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[4] %y = test.memory::Any(%x) out %y }`)
		require.NoError(t, err)
		imp := &importer{ctx: t.Context(), module: &ssa.Module{Graph: g}}
		if err = imp.lower(); c.fails {
			require.ErrorIs(t, err, errBeyond)
			continue
		}
		require.NoError(t, err)
		assert.Len(t, imp.module.Warnings, 1)
	}
}
