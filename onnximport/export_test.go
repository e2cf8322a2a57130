package onnximport

import "github.com/berth-onnx/berth/internal/onnxwire"

// SeedModels are small models that reach every part of the importer.
func SeedModels() []*onnxwire.Model {
	return []*onnxwire.Model{
		wmodel("o", wnode("Add", "x y", "o")),
		wmodel("o", choose("o", branch("a", wnode("Add", "y x", "a")), branch("b", wnode("Mul", "x x", "b")))),
		wmodel("last all", wnode("Loop", "- - x", "last all", graphAttr("body", loopBody(wnode("Add", "acc y", "next"), wnode("Identity", "next", "slice"))))),
		callModel("o", []*onnxwire.Function{function("F", "a", "r", wnode("Relu", "a", "r"))}, in("f", wnode("F", "x", "o"))),
		externalModel("location", "w.bin"),
	}
}
