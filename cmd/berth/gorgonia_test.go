package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestGorgoniaBackend runs, measures and verifies with nodes as gorgonia.Ops; profiles say which kernel computed a node.
func TestGorgoniaBackend(t *testing.T) {
	model := saved(t, `in %x: float32[4,8] in %w: float32[8,8] %y = MatMul(%x, %w) %t = Tanh(%y) out %t`)
	profile := ok(t, "bench", model, "--backend", "gorgonia", "--profile")
	assert.Contains(t, profile, "tensor.Tanh")
	assert.Contains(t, profile, "berth")
	ok(t, "run", model, "--backend", "gorgonia")
	assert.Equal(t, exitUsage, cli(t, "run", model, "--backend", "cuda").code)
}
