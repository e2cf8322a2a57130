//go:build !((linux || windows) && (amd64 || arm64)) || nocuda

package driver

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// Library is the driver's name; there is none.
const Library = ""

// Find says that there is no binding in this program.
func Find(library string, _ int) error { return &device.NoDriverError{Library: library} }

// Open says that there is no binding in this program.
func Open(library string, _ int) (device.Device, error) {
	return nil, &device.NoDriverError{Library: library}
}
