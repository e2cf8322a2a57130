//go:build !unix

package onnxwire

import "os"

func openRead(path string) (*os.File, error) { return os.Open(path) }
