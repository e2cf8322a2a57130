//go:build (amd64 || arm64) && !nocuda

package driver

import "github.com/ebitengine/purego"

// Library is the driver's name for the system's loader.
const Library = "libcuda.so.1"

func load(library string) (uintptr, error) {
	return purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func symbol(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }
