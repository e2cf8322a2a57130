package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
)

// Families of kernels.
//
// The kernels of a family differ only in the shape of their tile. They are local to
// the assembly file; Go sees one function, which jumps to kernel i of a table:
//
//	name(args *byte, i int)  ──▶  table[i]  ──▶  kernel(args *byte)
//
// The jump leaves the stack as it is, so a kernel finds args where the function has
// it, and returns to the caller of the function.

// family is a table of kernels.
type family struct {
	table   operand.Symbol
	kernels []string
}

// kernel begins the next kernel of a family and loads its argument.
func (g *gen) kernel(family, shape string) (args gp) {
	g.fn(family+shape, "(args *byte)", "")
	g.kernels[family] = append(g.kernels[family], family+shape+g.isa.suffix)
	return g.arg("args")
}

// family emits the function that selects among the kernels of a family.
func (g *gen) family(name, doc string) {
	g.fn(name, "(args *byte, i int)", doc)
	table := operand.NewStaticSymbol(name + g.isa.suffix + "Kernels")
	i, base := g.arg("i"), g.GP64()
	g.LEAQ(operand.NewDataAddr(table, 0), base)
	entry := indexed(base, i, 8)
	g.Instruction(&ir.Instruction{Opcode: "JMP", Operands: []operand.Op{entry}, Inputs: []operand.Op{entry}, IsTerminal: true})
	g.families = append(g.families, family{table, g.kernels[name]})
	delete(g.kernels, name)
}

// localize makes the kernels of the families local to the printed assembly, appends
// the tables, and removes the kernels from what is declared in Go.
func (g *gen) localize(asm []byte, file *ir.File) []byte {
	for _, f := range g.families {
		asm = append(asm, '\n')
		for i, k := range f.kernels {
			asm = bytes.Replace(asm, []byte("TEXT ·"+k+"(SB)"), []byte("TEXT ·"+k+"<>(SB)"), 1)
			asm = fmt.Appendf(asm, "DATA %s/8, $·%s<>(SB)\n", operand.NewDataAddr(f.table, 8*i).Asm(), k)
		}
		asm = fmt.Appendf(asm, "GLOBL %s(SB), RODATA, $%d\n", f.table, 8*len(f.kernels))
		file.Sections = slices.DeleteFunc(file.Sections, func(s ir.Section) bool {
			fn, ok := s.(*ir.Function)
			return ok && slices.Contains(f.kernels, fn.Name)
		})
	}
	return asm
}
