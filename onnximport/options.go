package onnximport

import "context"

// InitializerInputs says what becomes of graph inputs that also have an
// initializer of the same name.
type InitializerInputs uint8

const (
	// InitializersAuto follows the format: before IR version 4 every initializer
	// had to be listed as an input, so they are constants; from IR version 4 on
	// the listing means that a caller may override the value.
	InitializersAuto InitializerInputs = iota
	// InitializersConstant makes them all constants.
	InitializersConstant
	// InitializersDefault makes them all parameters with a default.
	InitializersDefault
)

// Options steer an import. The zero value is right for most uses.
type Options struct {
	Initializers InitializerInputs
	// Lenient goes on where a node can not be lifted to the newest operator set or
	// its types can not be inferred: the node stays opaque, or its results get the
	// unknown type, and Module.Warnings says so. For inspecting broken models.
	Lenient bool
	// DataRoot is a folder in which external data may lie, after links are followed,
	// besides the folder of the model file (and, where that is a symbolic link, the
	// folder of the file it leads to). Files with several hard links are read there only.
	DataRoot string
	// Data, if set, gives the content of a file of external data, instead of the folder of
	// the model file. location is a clean path without "..", with slashes. The bytes must
	// not change while the module is in use.
	Data   func(location string) ([]byte, error)
	Limits Limits
	// Context ends the import early if it ends; nil means never.
	Context context.Context
	// ChannelBlock is the block of channels for which ONNX Runtime laid out the
	// filters of operators of the domain com.microsoft.nchwc: 16 on machines with
	// AVX-512, 8 on others. 0 finds it out where the file shows it.
	ChannelBlock int
	// NoMapping has files read into memory instead of mapped, for files that may be
	// written to while the model is in use.
	NoMapping bool
}

// Limits bound what one model may cost. A zero field means the default. For a model that is trusted they can be raised
// (berth.WithLimits, --limit of the command).
type Limits struct {
	Nodes     int   // nodes with functions written out, bodies included; default 500,000
	Depth     int   // nesting of bodies; default 10 (shape inference visits a body more than once per level)
	CallDepth int   // nesting of function calls; default 64
	NameBytes int   // length of one name; default 65,536
	Expanded  int64 // bytes of one sparse constant written out densely; default 1 GiB
}

func (l Limits) withDefaults() Limits {
	or := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	or(&l.Nodes, 500_000)
	or(&l.Depth, 10)
	or(&l.CallDepth, 64)
	or(&l.NameBytes, 64<<10)
	if l.Expanded <= 0 {
		l.Expanded = 1 << 30
	}
	return l
}

// raise is the remedy where a limit is too low: flag is what the command calls the field.
func raise(field, flag string) string {
	return "if the model is trusted, raise Limits." + field + " (berth.WithLimits, or Options of onnximport; --limit " + flag + "=N of the command)"
}

func (o *Options) context() context.Context {
	if o.Context == nil {
		return context.Background()
	}
	return o.Context
}
