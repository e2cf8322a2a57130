package ops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ops/image"
	"github.com/berth-onnx/berth/ops/rare"
	"github.com/berth-onnx/berth/ops/signal"
	"github.com/berth-onnx/berth/ops/text"
	"github.com/berth-onnx/berth/ops/training"
)

// TestWalledOperators compares what the core knows of operators that ops/standard
// does not link with the tables of their packages.
func TestWalledOperators(t *testing.T) {
	keys := map[string][]ops.Key{}
	for dir, family := range map[string][]*ops.Op{"ops/image": image.Ops, "ops/text": text.Ops, "ops/rare": rare.Ops, "ops/signal": signal.Ops, "ops/training": training.Ops} {
		for _, o := range family {
			keys[dir] = append(keys[dir], ops.Key{Domain: o.Domain, Name: o.Name})
			assert.Equal(t, "github.com/berth-onnx/berth/"+dir, ops.PackageFor(o.Domain, o.Name))
		}
		assert.ElementsMatch(t, keys[dir], ops.Walled[dir], dir)
	}
	assert.Len(t, ops.Walled, len(keys))
	assert.Empty(t, ops.PackageFor("", "Add"))
}
