package main

import (
	"os"
	"path/filepath"

	"github.com/berth-onnx/berth"
)

// model serializes a model.
func model(m *berth.Model) ([]byte, error) {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.onnx")
	if err := m.Save(path, berth.SaveOptions{}); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
