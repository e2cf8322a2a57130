package ptx

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTooMuch: texts that ask for more memory or work than a host has are refused, when they are compiled or launched.
func TestTooMuch(t *testing.T) {
	const head = ".version 8.1\n.target sm_80\n.address_size 64\n"
	kernel := func(body string) string { return head + ".visible .entry k()\n{\n" + body + "\nret;\n}\n" }
	repeated := func(n int, each func(i int) string) string {
		var s strings.Builder
		for i := range n {
			s.WriteString(each(i))
		}
		return s.String()
	}
	tests := []struct {
		name    string
		threads int
		text    string
		want    string
	}{
		{"registers", 64, kernel(".reg .b64 %x<20000>; mov.u64 %x1, 1;"), ""},
		{"registers of functions", 1024, head + repeated(9, func(i int) string {
			return fmt.Sprintf(".func f%d()\n{\n.reg .b64 %%x<65000>;\nret;\n}\n", i)
		}) + ".visible .entry k()\n{\n" + repeated(9, func(i int) string { return fmt.Sprintf("call f%d;\n", i) }) + "ret;\n}\n", "bytes of the host"},
		{"global variables", 64, head + repeated(3, func(i int) string { return fmt.Sprintf(".global .b8 g%d[100000000];\n", i) }) +
			".visible .entry k()\n{\n.reg .b64 %x;\n" + repeated(3, func(i int) string { return fmt.Sprintf("mov.u64 %%x, g%d;\n", i) }) + "ret;\n}\n", "bytes of global memory"},
		{"tables of branches", 64, kernel(".reg .b32 %r; mov.u32 %r, 0; T: .branchtargets " + strings.Repeat("L, ", 2000) + "L; " + strings.Repeat("brx.idx %r, T; ", 600) + " L: "), "targets"},
		{"functions of many kernels", 64, head + ".func f()\n{\n" + strings.Repeat("membar.gl;\n", 20000) + "ret;\n}\n" +
			repeated(60, func(i int) string { return fmt.Sprintf(".visible .entry k%d()\n{\ncall f;\nret;\n}\n", i) }), "statements"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Parse(test.text)
			require.NoError(t, err)
			p, err := Compile(m)
			if err == nil {
				_, err = p.Launch(context.Background(), NewMemory(), Launch{Kernel: "k", Grid: line(64), Block: line(test.threads), MaxSteps: 1 << 10, Threads: 64})
			}
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}
