// Package rare holds operators of the domain com.microsoft that few models use, MaxRoiPool, and links those that the default domain has dropped.
// They are linked by import: import _ "github.com/berth-onnx/berth/ops/rare".
package rare
