package ssa_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ssa"
)

// TestNodeOperator follows changes of a node's operator and domain, also from many
// goroutines at once.
func TestNodeOperator(t *testing.T) {
	known := map[string]*ssa.Operator{"A": {Name: "A", Def: 1}, "B": {Name: "B", Def: 2}}
	asked := 0
	find := func(domain, name string) *ssa.Operator {
		asked++
		if domain != "" {
			return nil
		}
		return known[name]
	}
	n := &ssa.Node{Op: "A"}
	for range 3 {
		assert.Equal(t, 1, n.Operator(find).Def)
	}
	assert.Equal(t, 1, asked, "asked once")
	n.Op = "B"
	assert.Equal(t, 2, n.Operator(find).Def)
	n.Domain = "else.where"
	assert.Nil(t, n.Operator(find))
	n.Domain, n.Op = "", "A"
	assert.Equal(t, 1, n.Operator(find).Def)

	fresh := &ssa.Node{Op: "B"}
	pure := func(_, name string) *ssa.Operator { return known[name] }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.Equal(t, 2, fresh.Operator(pure).Def) })
	}
	wg.Wait()
}
