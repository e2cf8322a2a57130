package onnxwire

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDataLocations(t *testing.T) {
	at := func(location string) *Tensor {
		return &Tensor{DataLocation: DataExternal, ExternalData: []*StringEntry{{Key: "offset", Value: "4"}, {Key: "location", Value: location}}}
	}
	body := &Graph{Initializers: []*Tensor{at("in a body")}}
	m := &Model{
		Graph: &Graph{
			Initializers:       []*Tensor{at("a"), {RawData: []byte{1}}, at("b"), at("a"), {ExternalData: at("not external").ExternalData}},
			SparseInitializers: []*SparseTensor{{Values: at("sparse"), Indices: at("a")}},
			Nodes:              []*Node{{Attributes: []*Attribute{{G: body}, {T: at("attribute")}, {Tensors: []*Tensor{at("list")}}}}},
		},
		Functions: []*Function{{Nodes: []*Node{{Attributes: []*Attribute{{Graphs: []*Graph{{Initializers: []*Tensor{at("function")}}}}}}}}},
	}
	assert.Equal(t, []string{"in a body", "attribute", "list", "a", "b", "sparse", "function"}, m.DataLocations())
	assert.Empty(t, (&Model{}).DataLocations())
}
