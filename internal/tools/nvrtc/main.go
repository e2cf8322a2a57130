//go:build linux && (amd64 || arm64)

// Command nvrtc compiles CUDA C++ to PTX with NVIDIA's run-time compiler, which needs neither a GPU nor a driver:
//
//	nvrtc -library libnvrtc.so.12 -arch compute_70 kernels/*.cu
//
// Each file.cu becomes file.ptx beside it. The library is the wheel nvidia-cuda-nvrtc-cu12==12.1.105 of PyPI, an old one
// because drivers refuse PTX that is newer than they are: this one writes PTX 8.1.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-onnx/berth/internal/tools/nvrtc/compiler"
)

func main() {
	library := flag.String("library", os.Getenv("BERTH_NVRTC"), "the shared object of NVRTC (default: $BERTH_NVRTC)")
	arch := flag.String("arch", "compute_70", "the virtual architecture to compile for")
	flag.Parse()
	if err := run(*library, *arch, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "nvrtc:", err)
		os.Exit(1)
	}
}

func run(library, arch string, files []string) error {
	nvrtc, err := compiler.Open(library)
	if err != nil {
		return err
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text, err := nvrtc.Compile(filepath.Base(name), string(source), arch)
		if err != nil {
			return err
		}
		if err := os.WriteFile(strings.TrimSuffix(name, ".cu")+".ptx", []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
