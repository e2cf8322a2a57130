// Package berth optimizes and runs ONNX models in pure Go.
//
// A model is opened, optionally optimized and saved, compiled for one binding of
// its input shapes, and run:
//
//	m, err := berth.Open("model.onnx")
//	defer m.Close()
//	p, err := m.Compile(ctx, berth.WithShape("x", 1, 3, 224, 224))
//	x, err := berth.Tensor(pixels, 1, 3, 224, 224) // pixels is a []float32
//	out, err := p.RunValues(ctx, map[string]ndarray.Value{"x": x})
//	scores, err := berth.As[float32](out["scores"])
//
// [Model.RunValues] compiles on demand, once for each of a few sets of shapes and once for all others; servers compile
// once and share the [Program]; a [Session] is for one stream. [Program.RunInto] and [Session.RunInto] write into
// memory of the caller's.
//
// Compiling plans an offset for every tensor in one arena, checks the plan with two
// verifiers that share no code with the planner, and prepares a kernel per kind of
// node. A [Program] never changes and may be run by any number of
// goroutines at once; each run uses a [Session], which owns one arena.
//
// [Model.Close] may be called at any time, also while programs run: what begins
// later fails with [ErrClosed].
//
// # Errors
//
// Errors are told apart by errors.As:
//
//	*OptionError                       an option with an invalid argument; around its cause, if it has one
//	*InputError, *OutputError          inputs, and buffers of results, that do not fit
//	*CacheError, *StateError           what a session keeps does not fit
//	*TornError                         a failed run or reset has partly overwritten a state
//	*TypeError, *ShapeError            elements or data of another type or length
//	*ImportError, *ExportError         a file that can not be read as a model, a model that can not be written
//	*TargetError, *FileChangedError    a path that can not be written to, a file that changed while in use
//	*NodeError                         a node that failed; around its cause
//	*MemoryError                       the limit of [WithMaxMemory]; inside of a node it is a *NodeError, too
//	*PanicError                        a bug; inside of a node it is a *NodeError, too
//
// and by errors.Is: [ErrInput] for every error that the inputs of the call cause, [ErrClosed], [ErrSessionInUse], [ops.ErrUnsupported], and for what a context ended, ctx.Err() and
// [context.Cause].
//
// # Operators
//
// Operators that few models hold (ImageDecoder, StringNormalizer, RegexFullMatch, training, some of com.microsoft)
// are linked by importing github.com/berth-onnx/berth/ops/all.
//
// No cgo, no shared library: with CGO_ENABLED=0 everything works.
package berth
