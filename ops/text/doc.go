// Package text holds operators on strings that need tables of languages or regular expressions. It is linked by import:
// import _ "github.com/berth-onnx/berth/ops/text".
package text
