package onnxwire

import "fmt"

// SyntaxError says where an input stops being the ONNX protobuf it should be.
type SyntaxError struct {
	File   string // path of the file; empty when the input was memory
	Path   string // the message being read, such as "model.graph.node[3].attribute[0]"
	Offset int    // byte offset from the start of the input
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s%s, byte %d: %s (the file is damaged or is no ONNX file)", filePrefix(e.File), e.Path, e.Offset, e.Reason)
}

// ModelError says that an input is well-formed protobuf but cannot be a model.
type ModelError struct {
	File   string // path of the file; empty when the input was memory
	Reason string
}

func (e *ModelError) Error() string {
	return filePrefix(e.File) + e.Reason
}

// TooLargeError says that a message is over MaxSize, which no protobuf reader accepts.
type TooLargeError struct {
	Size int64 // bytes the message would need
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("onnxwire: the message needs %d bytes and protobuf ends at %d: move weights to external data "+
		"(Tensor.DataLocation = DataExternal)", e.Size, int64(MaxSize))
}

// NestingError says that a message being written nests deeper than MaxDepth, perhaps because it contains itself.
type NestingError struct{}

func (e *NestingError) Error() string {
	return fmt.Sprintf("onnxwire: the message nests deeper than %d levels or contains itself", MaxDepth)
}

func filePrefix(file string) string {
	if file == "" {
		return "onnxwire: "
	}
	return "onnxwire: " + file + ": "
}
