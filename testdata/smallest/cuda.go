//go:build withcuda

package main

import _ "github.com/berth-onnx/berth/backend/cuda" // what it adds is measured
