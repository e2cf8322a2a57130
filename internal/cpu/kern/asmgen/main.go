// Command asmgen writes the assembly of the packages below internal/cpu/kern.
//
//	go run . -out DIR     write every x_amd64.s with its x_amd64.go into DIR/PACKAGE, and the tables of kernels
//	go run . -out DIR -only gemm,pack
//
// It is a module of its own so that users of berth do not inherit the
// assembler library it is built on. Its output is committed; a test in package
// kern runs it again and compares.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// files lists the generated files, the package of each and what goes into it.
var files = []struct {
	pkg  string
	name string
	emit func(g *gen)
}{
	{"machine", "pause", emitPause},
	{"simd", "peak", emitPeak},
	{"simd", "gemm", emitGemm},
	{"simd", "pack", emitPack},
	{"simd", "elem", emitElem},
	{"simd", "binary", emitBinary},
	{"simd", "reduce", emitReduce},
	{"simd", "rows", emitRows},
	{"simd", "columns", emitColumns},
	{"simd", "dotrows", emitDotRows},
	{"simd", "widedots", emitWideDots},
	{"simd", "lrn", emitLRN},
	{"simd", "rowops", emitRowOps},
	{"simd", "half", emitHalf},
	{"simd", "int8", emitInt8},
	{"simd", "nbits", emitNBits},
	{"simd", "blocked", emitBlocked},
	{"simd", "taps", emitTaps},
	{"simd", "depthrows", emitDepthRows},
	{"simd", "grouprows", emitGroupRows},
	{"simd", "fourths", emitFourths},
	{"simd", "winograd", emitWinograd},
	{"simd", "chain", emitChain},
}

func main() {
	flags := flag.NewFlagSet("asmgen", flag.ExitOnError) // avo fills the default set
	out := flags.String("out", "..", "folder of the packages")
	only := flags.String("only", "", "comma-separated file names, all by default")
	_ = flags.Parse(os.Args[1:]) // exits on error
	for _, f := range files {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), f.name) {
			continue
		}
		if err := write(*out, f.pkg, f.name, f.emit); err != nil {
			fmt.Fprintf(os.Stderr, "asmgen: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
	if *only != "" {
		return
	}
	if err := writeTables(*out); err != nil {
		fmt.Fprintln(os.Stderr, "asmgen:", err)
		os.Exit(1)
	}
}

// write generates one assembly file of a package and the Go file that declares it.
func write(dir, pkg, name string, emit func(g *gen)) error {
	g := &gen{Context: build.NewContext(), tables: map[string]operand.Mem{}, kernels: map[string][]string{}}
	emit(g)
	file, err := g.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "asmgen", Pkg: pkg}
	asm, err := printer.NewGoAsm(cfg).Print(file)
	if err != nil {
		return err
	}
	asm = join(g.localize(asm, file))
	stubs, err := printer.NewStubs(cfg).Print(file)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, pkg, name)
	if err := os.WriteFile(path+"_amd64.s", asm, 0o644); err != nil {
		return err
	}
	return os.WriteFile(path+"_amd64.go", stubs, 0o644)
}

// join writes up to eight instructions into a line. The linker keeps the line of every instruction where it differs from that of
// the one before: two bytes of a program for each, as many as a third of the instruction. Lines that go vet looks at stay as they are.
func join(asm []byte) []byte {
	const most = 8
	var b bytes.Buffer
	n := 0
	for line := range bytes.Lines(asm) {
		if line[0] != '\t' || bytes.Contains(line, []byte("(FP)")) || bytes.Contains(line, []byte("RET")) || bytes.Contains(line, []byte("//")) {
			n = 0
			b.Write(line)
			continue
		}
		if n > 0 && n < most {
			b.Truncate(b.Len() - 1)
			b.WriteString("; ")
			line = line[1:]
		} else {
			n = 0
		}
		fields := bytes.Fields(line)
		if n == 0 {
			b.WriteByte('\t')
		}
		b.Write(bytes.Join(fields, []byte(" ")))
		b.WriteByte('\n')
		n++
	}
	return b.Bytes()
}
