package main

import _ "github.com/berth-onnx/berth/backend/gorgonia" // --backend gorgonia
