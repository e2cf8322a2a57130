package onnxwire

import (
	"context"
	"slices"
)

// DataLocations lists the files in which tensors of the model, those of attributes and functions included, keep their
// elements, in the order of the first use: paths with slashes, relative to the model's folder, as the file has them.
func (m *Model) DataLocations() []string {
	var out []string
	e := &encoder{ctx: context.Background(), sizing: true, visit: func(m Message) {
		t, ok := m.(*Tensor)
		if !ok || t.DataLocation != DataExternal {
			return
		}
		for _, entry := range t.ExternalData {
			if entry.Key == "location" && !slices.Contains(out, entry.Value) {
				out = append(out, entry.Value)
			}
		}
	}}
	e.message(m)
	return out
}
