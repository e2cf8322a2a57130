// Package signal holds Fourier transforms, mel weights and window functions of
// the default domain. It is linked by import:
// import _ "github.com/berth-onnx/berth/ops/signal".
package signal
