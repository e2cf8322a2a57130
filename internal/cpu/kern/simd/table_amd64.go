package simd

import (
	"golang.org/x/sys/cpu"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// tables holds the kernels by level.
var tables = [machine.NumLevels]*Table{machine.LevelGeneric: genericTable, machine.LevelAVX2: tableAVX2, machine.LevelAVX512: tableAVX512}

// init completes the tables. The integer product of AVX-512 needs the VNNI extension;
// without it the AVX2 kernels are used.
func init() {
	t := tableAVX512
	if cpu.X86.HasAVX512VNNI {
		t.Ints.Quads, t.Ints.QuadRow, t.Ints.BytePlane = true, quadRowAVX512, bytePlaneAVX512
		t.NBitsQuantize, t.NBitsDigits = nbitsQuantizeAVX512, nbitsDigitsAVX512
	} else {
		t.Ints.base = tableAVX2
	}
}
