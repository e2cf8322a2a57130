package ops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ops"
)

// TestRegisterTwice: an operator is defined in one place.
func TestRegisterTwice(t *testing.T) {
	before := len(ops.All())
	assert.PanicsWithValue(t, `ops: operator "Add" of domain "" is registered twice`, func() { ops.Register(&ops.Op{Name: "Add"}) })
	assert.Len(t, ops.All(), before)
}

// TestAllIsInOrder: the order in which packages are linked does not show.
func TestAllIsInOrder(t *testing.T) {
	last := ops.Key{}
	for _, o := range ops.All() {
		k := ops.Key{Domain: o.Domain, Name: o.Name}
		assert.Truef(t, last.Domain < k.Domain || last.Domain == k.Domain && last.Name < k.Name, "%v before %v", last, k)
		last = k
	}
}
