package chain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

// TestRefusedChainsGoOverFewInstructions: where the last of many instructions reads an operand that columns too short for chains need
// lines for, looking for a chain at every instruction does not go over all that are left each time.
func TestRefusedChainsGoOverFewInstructions(t *testing.T) {
	if simd.Active().ChainElems(1, false) == 0 {
		t.Skip("no chains at this level")
	}
	const instrs = 32 * mostInstrs
	p := &tile.Program{Operands: []ndarray.DType{ndarray.Float32, ndarray.Float32}}
	last := tile.Ref(0)
	for i := range instrs {
		with := tile.Ref(0)
		if i == instrs-1 {
			with = 1
		}
		last = p.Add(tile.Instr{Op: "Add", DType: ndarray.Float32, Args: []tile.Ref{last, with}})
	}
	p.Store(last)
	read := make([]int, p.NumValues())
	for i := range p.Instrs {
		for _, a := range p.Instrs[i].Args {
			read[a] = i
		}
	}
	read[last] = -1
	asked, sources := 0, make([]int, p.NumValues())
	sources[1] = 1
	for i := 0; i < instrs; {
		c, n := Make(&Block{Program: p, Rows: 1000, Cols: 5, Last: read, Sources: sources, Spread: func(s int) vec.Spread {
			asked++
			return []vec.Spread{vec.Full, vec.Row}[s]
		}, Result: func(int) int { return 0 }, IsInPlace: func(int) bool { return false }}, i)
		if n > 0 { // before the operand is in sight
			require.NotNil(t, c)
			require.LessOrEqual(t, i, instrs-mostInstrs)
		}
		i += max(n, 1)
	}
	require.LessOrEqual(t, asked, mostInstrs*instrs)
}
