package emit

import (
	"strings"

	"github.com/berth-onnx/berth/internal/tile"
)

// Epilogues: a kernel compiled ahead says, where it has computed an element of its result, which register holds it and which the number
// of the element. A program over that result is written there, so that no other kernel goes over the result in memory:
//
//	// epilogue %f21 %r40      ->   { … ld.global.f32 %ef1, [residual of %r40]; add.rn.f32 %ef2, %f21, %ef1; … mov.f32 %f21, %ef3; }
//	st.global.f32 [%rd7], %f21;     st.global.f32 [%rd7], %f21;

// mark begins a comment that an epilogue takes the place of; registers of the value and of the element's number follow.
const mark = "\t// epilogue "

// Epilogue puts a program into the only kernel of a module. Operand 0 of the program is the result of the kernel, float32 or a 16-bit
// float that the kernel rounds when it stores; the program's result, of the same type, replaces it. Others become further parameters of the
// kernel, the addresses of tensors in global memory. What cannot be written is an [UnsupportedError].
func Epilogue(text string, p *tile.Program, l *tile.Loops) (string, error) {
	f := p.Operands[0]
	if p.Inner != 0 || len(p.Results) != 1 || kinds[f].typ != "f32" || p.DType(p.Results[0].Value) != f {
		return "", unsupported("this program behind a product")
	}
	head, body, found := strings.Cut(strings.TrimPrefix(text, Header), "\n)\n") // behind the list of parameters
	if !found || !strings.Contains(body, mark) {
		return "", unsupported("a program behind a kernel that has no place for it")
	}
	called := map[string]bool{}
	var s strings.Builder
	s.WriteString(head)
	for i := range p.Operands[1:] {
		s.WriteString(",\n\t.param .u64 " + operandName(i+1))
	}
	s.WriteString("\n)\n")
	for line := range strings.Lines(body) {
		registers, isMark := strings.CutPrefix(line, mark)
		value, element, ok := strings.Cut(strings.TrimSpace(registers), " ")
		if !isMark || !ok {
			s.WriteString(line)
			continue
		}
		w := newWriter(p, l)
		w.prefix, w.called = "e", called
		w.values = []string{w.rounded(f, value)}
		if err := w.operands(element); err != nil {
			return "", err
		}
		if err := w.instructions(); err != nil {
			return "", err
		}
		w.emit("mov.f32", value, w.values[p.Results[0].Value])
		s.WriteString("\t{\n")
		w.declare(&s)
		s.WriteString(w.body.String() + "\t}\n")
	}
	var module strings.Builder
	module.WriteString(Header)
	writeFunctions(&module, called)
	return module.String() + s.String(), nil
}
