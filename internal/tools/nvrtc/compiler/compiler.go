//go:build linux && (amd64 || arm64)

// Package compiler calls NVIDIA's run-time compiler, a shared object that needs neither a GPU nor a driver.
package compiler

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/ebitengine/purego"
)

// Compiler is a loaded NVRTC.
type Compiler struct {
	create  func(prog *uintptr, source, name string, headers int32, texts, names uintptr) int32
	compile func(prog uintptr, options int32, list []*byte) int32
	destroy func(prog *uintptr) int32
	ptxSize func(prog uintptr, size *uint64) int32
	ptx     func(prog uintptr, text *byte) int32
	logSize func(prog uintptr, size *uint64) int32
	log     func(prog uintptr, text *byte) int32
}

// Open loads the shared object.
func Open(library string) (*Compiler, error) {
	if library == "" {
		return nil, fmt.Errorf("name the shared object of NVRTC by -library or BERTH_NVRTC")
	}
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load NVRTC: %w", err)
	}
	c := &Compiler{}
	for name, fn := range map[string]any{
		"nvrtcCreateProgram": &c.create, "nvrtcCompileProgram": &c.compile, "nvrtcDestroyProgram": &c.destroy,
		"nvrtcGetPTXSize": &c.ptxSize, "nvrtcGetPTX": &c.ptx,
		"nvrtcGetProgramLogSize": &c.logSize, "nvrtcGetProgramLog": &c.log,
	} {
		purego.RegisterLibFunc(fn, handle, name)
	}
	return c, nil
}

// Compile compiles a file for a virtual architecture; what it includes lies beside it. What the compiler says about a faulty file is the
// error.
func (c *Compiler) Compile(file, source, arch string) (string, error) {
	name, prog := filepath.Base(file), uintptr(0)
	if code := c.create(&prog, source, name, 0, 0, 0); code != 0 {
		return "", fmt.Errorf("%s: nvrtcCreateProgram gives %d", name, code)
	}
	defer c.destroy(&prog)
	var list []*byte
	for _, option := range []string{"--gpu-architecture=" + arch, "--std=c++17", "--fmad=true", "--include-path=" + filepath.Dir(file)} {
		list = append(list, &append([]byte(option), 0)[0])
	}
	if code := c.compile(prog, int32(len(list)), list); code != 0 {
		return "", fmt.Errorf("%s: nvrtcCompileProgram gives %d:\n%s", name, code, read(prog, c.logSize, c.log))
	}
	text := callNumber.ReplaceAllString(read(prog, c.ptxSize, c.ptx), "$1 // callseq")
	return targets.ReplaceAllString(text, ""), nil
}

// targets are constants of the header nv/target, which no code reads.
var targets = regexp.MustCompile(`(?m)^\.global \.align \d \.u\d+ _ZN\d+_INTERNAL_\w+nv6target6detail\w+ = \d+;\n`)

// callNumber is a comment with a number that goes on counting from one program to the next.
var callNumber = regexp.MustCompile(`(?m)^(\t[{}]) // callseq [0-9, ]+$`)

// read fetches a text whose size the compiler tells, its closing zero included.
func read(prog uintptr, size func(uintptr, *uint64) int32, text func(uintptr, *byte) int32) string {
	var n uint64
	if size(prog, &n) != 0 || n == 0 {
		return ""
	}
	out := make([]byte, n)
	if text(prog, &out[0]) != 0 {
		return ""
	}
	return string(bytes.TrimRight(out, "\x00"))
}
