//go:build linux && (amd64 || arm64)

// Command nvrtc compiles CUDA C++ to PTX with NVIDIA's run-time compiler, which needs neither a GPU nor a driver:
//
//	nvrtc -library libnvrtc.so.12 -arch compute_70 kernels/*.cu
//
// Each file.cu becomes file.ptx beside it, and with -gzip file.ptx.gz as well. The library is the wheel nvidia-cuda-nvrtc-cu12==12.1.105 of PyPI, an old one
// because drivers refuse PTX that is newer than they are: this one writes PTX 8.1.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/berth-onnx/berth/internal/tools/nvrtc/compiler"
)

func main() {
	library := flag.String("library", os.Getenv("BERTH_NVRTC"), "the shared object of NVRTC (default: $BERTH_NVRTC)")
	arch := flag.String("arch", "compute_70", "the virtual architecture to compile for")
	packs := flag.Bool("gzip", false, "write the PTX compressed as well, to be embedded")
	flag.Parse()
	if err := run(*library, *arch, *packs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "nvrtc:", err)
		os.Exit(1)
	}
}

func run(library, arch string, packs bool, files []string) error {
	nvrtc, err := compiler.Open(library)
	if err != nil {
		return err
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text, err := nvrtc.Compile(name, string(source), arch)
		if err != nil {
			return err
		}
		name = strings.TrimSuffix(name, ".cu") + ".ptx"
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
		if packs {
			if err := pack(name+".gz", text); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack writes a text compressed.
func pack(name, text string) error {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}
