//go:build (amd64 || arm64) && !nocuda

package driver

import "golang.org/x/sys/windows"

// Library is the driver's name for the system's loader.
const Library = "nvcuda.dll"

func load(library string) (uintptr, error) {
	handle, err := windows.LoadLibraryEx(library, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32) // not from the program's folder
	return uintptr(handle), err
}

func symbol(handle uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
