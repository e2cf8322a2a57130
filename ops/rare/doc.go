// Package rare holds operators that few models use: of the domains com.microsoft, ai.onnx.ml and ai.onnx.preview and of the default one. It links those that the
// default domain has dropped, too. They are linked by import: import _ "github.com/berth-onnx/berth/ops/rare".
package rare
