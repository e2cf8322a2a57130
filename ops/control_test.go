package ops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestIsControl(t *testing.T) {
	for _, c := range []struct {
		name          string
		node          *ssa.Node
		control, loop bool
	}{
		{"If", &ssa.Node{Op: "If"}, true, false},
		{"Loop", &ssa.Node{Op: "Loop"}, true, true},
		{"Scan", &ssa.Node{Op: "Scan"}, true, true},
		{"bodies that are no control flow", &ssa.Node{Op: "SequenceMap"}, false, false},
		{"another domain", &ssa.Node{Op: "Loop", Domain: "com.example"}, false, false},
		{"of a version that is not known", &ssa.Node{Op: "If", Opaque: true}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.control, ops.IsControl(c.node), "control flow")
			assert.Equal(t, c.loop, ops.IsLoop(c.node), "a loop")
		})
	}
}
