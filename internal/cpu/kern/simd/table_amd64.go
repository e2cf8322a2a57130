package simd

import (
	"golang.org/x/sys/cpu"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// tables holds the kernels by level.
var tables = [machine.NumLevels]*Table{
	machine.LevelGeneric: genericTable,
	machine.LevelAVX2: {
		Level: machine.LevelAVX2,
		lanes: 8,
		peak:  peakAVX2,
		flops: 12 * 8 * 2,

		Mr: 6, Nr: 16, Tw: 8,
		PackNarrow: packRowsNarrowAVX2, PackWide: packRowsWideAVX2, PackTrans: packTransposeAVX2,
		PackPanels: packPanelsAVX2, Transpose: transposeAVX2,
		SegFill: segmentFillAVX2, SegMerge: segmentMergeAVX2,
		SegFill2: segmentFill2AVX2, SegMerge2: segmentMerge2AVX2,
		SegFillN: segmentFillNAVX2, SegMergeN: segmentMergeNAVX2,

		SubSub: vSubSubAVX2, SubMul: vSubMulAVX2, MulAdd: vMulAddAVX2, MulAddRows: vMulAddRowsAVX2,
		Ints: IntTable{
			MulSub: intMulSubAVX2, ToFloat: intToFloatAVX2, FromFloat: floatToIntAVX2, WidenU: widenU8AVX2, WidenS: widenS8AVX2,
			DequantU: dequantU8AVX2, DequantS: dequantS8AVX2, Quant: quantAVX2, Requant: requantAVX2, PairRowU: pairRowU8AVX2, PairRowS: pairRowS8AVX2,
		},
		Lrn75:     vLrn75AVX2,
		BlockTaps: blockTapsAVX2, BlockMax: blockMaxAVX2,
		WinoIn: [2]winoIn{winoIn2AVX2, winoIn4AVX2}, WinoOut: [2]winoOut{winoOut2AVX2, winoOut4AVX2},
		RowOps: rowOps{
			Ints:       [NumIntOps]func(dst, a, b *int32, n, stepA, stepB int){intAddAVX2, intSubAVX2, intMulAVX2},
			CompareF32: [NumRelations]func(dst *bool, a, b *float32, n, stepA, stepB int){compareEqualF32AVX2, compareLessF32AVX2, compareAtMostF32AVX2},
			CompareI32: [NumRelations]func(dst *bool, a, b *int32, n, stepA, stepB int){compareEqualI32AVX2, compareLessI32AVX2, compareAtMostI32AVX2},
			CompareI64: [NumRelations]func(dst *bool, a, b *int64, n, stepA, stepB int){compareEqualI64AVX2, compareLessI64AVX2, compareAtMostI64AVX2},
			Choose:     chooseAVX2,
		},
		NBits:       [3]func(dst *float32, src *byte, scale, zero *float32, n int){nbits2AVX2, nbits4AVX2, nbits8AVX2},
		HalfToFloat: halfToFloatAVX2, FloatToHalf: floatToHalfAVX2, BfloatToFloat: bfloatToFloatAVX2, FloatToBfloat: floatToBfloatAVX2,
		Sum: rSumAVX2, SumAbs: rSumAbsAVX2, SumSq: rSumSqAVX2, Dot: rDotAVX2, DotRows: rDotRowsAVX2, SumSqDiff: rSumSqDiffAVX2,
		Max: rMaxAVX2, Min: rMinAVX2, ExpSumOnly: rExpSumOnlyAVX2,
	},
	machine.LevelAVX512: {
		Level: machine.LevelAVX512,
		lanes: 16,
		peak:  peakAVX512,
		flops: 12 * 16 * 2,

		Mr: 14, Nr: 32, Tw: 16,
		PackNarrow: packRowsNarrowAVX512, PackWide: packRowsWideAVX512, PackTrans: packTransposeAVX512,
		PackPanels: packPanelsAVX512, Transpose: transposeAVX512,
		SegFill: segmentFillAVX512, SegMerge: segmentMergeAVX512,
		SegFill2: segmentFill2AVX512, SegMerge2: segmentMerge2AVX512,
		SegFillN: segmentFillNAVX512, SegMergeN: segmentMergeNAVX512,

		SubSub: vSubSubAVX512, SubMul: vSubMulAVX512, MulAdd: vMulAddAVX512, MulAddRows: vMulAddRowsAVX512,
		Ints: IntTable{
			MulSub: intMulSubAVX512, ToFloat: intToFloatAVX512, FromFloat: floatToIntAVX512, WidenU: widenU8AVX512, WidenS: widenS8AVX512,
			DequantU: dequantU8AVX512, DequantS: dequantS8AVX512, Quant: quantAVX512, Requant: requantAVX512,
			RequantRowsU: requantRowsU8AVX512, RequantRowsS: requantRowsS8AVX512, AddFoursU: addFoursU8AVX512, AddFoursS: addFoursS8AVX512,
		},
		Lrn75:     vLrn75AVX512,
		BlockTaps: blockTapsAVX512, BlockMax: blockMaxAVX512,
		WinoIn: [2]winoIn{winoIn2AVX512, winoIn4AVX512}, WinoOut: [2]winoOut{winoOut2AVX512, winoOut4AVX512},
		RowOps: rowOps{
			Ints:       [NumIntOps]func(dst, a, b *int32, n, stepA, stepB int){intAddAVX512, intSubAVX512, intMulAVX512},
			CompareF32: [NumRelations]func(dst *bool, a, b *float32, n, stepA, stepB int){compareEqualF32AVX512, compareLessF32AVX512, compareAtMostF32AVX512},
			CompareI32: [NumRelations]func(dst *bool, a, b *int32, n, stepA, stepB int){compareEqualI32AVX512, compareLessI32AVX512, compareAtMostI32AVX512},
			CompareI64: [NumRelations]func(dst *bool, a, b *int64, n, stepA, stepB int){compareEqualI64AVX512, compareLessI64AVX512, compareAtMostI64AVX512},
			Choose:     chooseAVX512,
		},
		NBits:       [3]func(dst *float32, src *byte, scale, zero *float32, n int){nbits2AVX512, nbits4AVX512, nbits8AVX512},
		HalfToFloat: halfToFloatAVX512, FloatToHalf: floatToHalfAVX512, BfloatToFloat: bfloatToFloatAVX512, FloatToBfloat: floatToBfloatAVX512,
		Sum: rSumAVX512, SumAbs: rSumAbsAVX512, SumSq: rSumSqAVX512, Dot: rDotAVX512, DotRows: rDotRowsAVX512, SumSqDiff: rSumSqDiffAVX512,
		Max: rMaxAVX512, Min: rMinAVX512, ExpSumOnly: rExpSumOnlyAVX512,
	},
}

// Elementwise kernels by function, for AVX2 and for AVX-512.
var (
	unaryKernels = [NumUnary][2]func(dst, src *float32, n int, p0, p1 float32){
		Neg:         {vNegAVX2, vNegAVX512},
		Abs:         {vAbsAVX2, vAbsAVX512},
		Sqrt:        {vSqrtAVX2, vSqrtAVX512},
		Recip:       {vRecipAVX2, vRecipAVX512},
		Square:      {vSquareAVX2, vSquareAVX512},
		Floor:       {vFloorAVX2, vFloorAVX512},
		Ceil:        {vCeilAVX2, vCeilAVX512},
		Round:       {vRoundAVX2, vRoundAVX512},
		Relu:        {vReluAVX2, vReluAVX512},
		Clip:        {vClipAVX2, vClipAVX512},
		LeakyRelu:   {vLeakyReluAVX2, vLeakyReluAVX512},
		HardSigmoid: {vHardSigmoidAVX2, vHardSigmoidAVX512},
		HardSwish:   {vHardSwishAVX2, vHardSwishAVX512},
		Exp:         {vExpAVX2, vExpAVX512},
		Log:         {vLogAVX2, vLogAVX512},
		Tanh:        {vTanhAVX2, vTanhAVX512},
		Sigmoid:     {vSigmoidAVX2, vSigmoidAVX512},
		Erf:         {vErfAVX2, vErfAVX512},
		Gelu:        {vGeluAVX2, vGeluAVX512},
		GeluTanh:    {vGeluTanhAVX2, vGeluTanhAVX512},
		Silu:        {vSiluAVX2, vSiluAVX512},
		Softplus:    {vSoftplusAVX2, vSoftplusAVX512},
		Softsign:    {vSoftsignAVX2, vSoftsignAVX512},
		Elu:         {vEluAVX2, vEluAVX512},
		Mish:        {vMishAVX2, vMishAVX512},
	}
	rowRowKernels = [NumBinary][2]func(dst, a, b *float32, n int){
		Add:   {vvAddAVX2, vvAddAVX512},
		Sub:   {vvSubAVX2, vvSubAVX512},
		Mul:   {vvMulAVX2, vvMulAVX512},
		Div:   {vvDivAVX2, vvDivAVX512},
		Max:   {vvMaxAVX2, vvMaxAVX512},
		Min:   {vvMinAVX2, vvMinAVX512},
		PRelu: {vvPReluAVX2, vvPReluAVX512},
	}
	rowScalarKernels = [NumBinary][2]func(dst, a *float32, s float32, n int){
		Add:   {vsAddAVX2, vsAddAVX512},
		Sub:   {vsSubAVX2, vsSubAVX512},
		Mul:   {vsMulAVX2, vsMulAVX512},
		Div:   {vsDivAVX2, vsDivAVX512},
		Max:   {vsMaxAVX2, vsMaxAVX512},
		Min:   {vsMinAVX2, vsMinAVX512},
		PRelu: {vsPReluAVX2, vsPReluAVX512},
	}
	scalarRowKernels = [NumBinary][2]func(dst *float32, s float32, b *float32, n int){
		Add:   {svAddAVX2, svAddAVX512},
		Sub:   {svSubAVX2, svSubAVX512},
		Mul:   {svMulAVX2, svMulAVX512},
		Div:   {svDivAVX2, svDivAVX512},
		Max:   {svMaxAVX2, svMaxAVX512},
		Min:   {svMinAVX2, svMinAVX512},
		PRelu: {svPReluAVX2, svPReluAVX512},
	}
)

// init completes the tables. The integer product of AVX-512 needs the VNNI extension;
// without it the AVX2 kernels are used.
func init() {
	for l, t := range []*Table{tables[machine.LevelAVX2], tables[machine.LevelAVX512]} {
		for op := range t.unary {
			t.unary[op] = unaryKernels[op][l]
		}
		for op := range t.binVV {
			t.binVV[op], t.binVS[op], t.binSV[op] = rowRowKernels[op][l], rowScalarKernels[op][l], scalarRowKernels[op][l]
		}
	}
	t := tables[machine.LevelAVX512]
	if cpu.X86.HasAVX512VNNI {
		t.Ints.Quads, t.Ints.QuadRow, t.Ints.ByteTaps, t.Ints.ByteWords, t.Ints.BytePlane = true, quadRowAVX512, byteTapsAVX512, byteWordsAVX512, bytePlaneAVX512
	} else {
		t.Ints.base = tables[machine.LevelAVX2]
	}
}
