// Package berth optimizes and runs ONNX models in pure Go.
//
// A model is opened, optionally optimized and saved, compiled for one binding of
// its input shapes, and run:
//
//	m, err := berth.Open("model.onnx")
//	defer m.Close()
//	p, err := m.Compile(ctx, berth.WithShape("x", 1, 3, 224, 224))
//	out, err := p.Run(ctx, map[string]*tensor.Dense{"x": x})
//
// Compiling works out where every tensor lives in one arena, proves the plan
// sound with two judges that share no code with the planner, and prepares a
// kernel per node. A [Program] never changes and may be run by any number of
// goroutines at once; each run uses a [Session], which owns one arena.
//
// Operators that few models hold (ImageDecoder, training, some of com.microsoft)
// are linked by importing github.com/berth-onnx/berth/ops/all.
//
// No cgo, no shared library: with CGO_ENABLED=0 everything works.
package berth
