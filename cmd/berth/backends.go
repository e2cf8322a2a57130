package main

import (
	_ "github.com/berth-onnx/berth/backend/cuda"     // --backend cuda, cuda-sim
	_ "github.com/berth-onnx/berth/backend/gorgonia" // --backend gorgonia
)
