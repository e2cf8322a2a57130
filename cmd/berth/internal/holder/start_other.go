//go:build !linux || (!amd64 && !arm64)

package holder

// Start does nothing: this system or processor has no such process.
func Start() {}
