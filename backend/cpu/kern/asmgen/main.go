// Command asmgen writes the assembly of package kern.
//
//	go run . -out DIR     write every x_amd64.s with its x_amd64.go into DIR
//	go run . -out DIR -only gemm,pack
//
// It is a module of its own so that users of berth do not inherit the
// assembler library it is built on. Its output is committed; a test in package
// kern runs it again and compares.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// files lists the generated files and what goes into each.
var files = []struct {
	name string
	emit func(g *gen)
}{
	{"peak", emitPeak},
	{"gemm", emitGemm},
	{"pack", emitPack},
	{"elem", emitElem},
	{"binary", emitBinary},
	{"reduce", emitReduce},
	{"dotrows", emitDotRows},
	{"lrn", emitLRN},
	{"half", emitHalf},
	{"int8", emitInt8},
	{"blocked", emitBlocked},
	{"taps", emitTaps},
	{"winograd", emitWinograd},
}

func main() {
	flags := flag.NewFlagSet("asmgen", flag.ExitOnError) // avo fills the default set
	out := flags.String("out", "..", "folder of package kern")
	only := flags.String("only", "", "comma-separated file names, all by default")
	_ = flags.Parse(os.Args[1:]) // exits on error
	for _, f := range files {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), f.name) {
			continue
		}
		if err := write(*out, f.name, f.emit); err != nil {
			fmt.Fprintf(os.Stderr, "asmgen: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

// write generates one assembly file and the Go file that declares it.
func write(dir, name string, emit func(g *gen)) error {
	g := &gen{Context: build.NewContext()}
	emit(g)
	file, err := g.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "asmgen", Pkg: "kern"}
	for suffix, p := range map[string]printer.Printer{
		"_amd64.s":  printer.NewGoAsm(cfg),
		"_amd64.go": printer.NewStubs(cfg),
	} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+suffix), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
