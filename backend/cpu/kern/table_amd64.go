package kern

import "golang.org/x/sys/cpu"

// machineLevel is the highest level of this machine. Every processor with AVX2
// also has F16C, which the cpu package does not report.
var machineLevel = func() Level {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX2 && x.HasFMA && x.HasBMI2:
		return LevelAVX512
	case x.HasAVX2 && x.HasFMA && x.HasBMI2:
		return LevelAVX2
	}
	return LevelGeneric
}()

// tables holds the kernels by level.
var tables = [numLevels]*table{
	LevelGeneric: genericTable,
	LevelAVX2: {
		level: LevelAVX2,
		lanes: 8,
		peak:  peakAVX2,
		flops: 12 * 8 * 2,

		mr: 6, nr: 16, tw: 8,
		packNarrow: packRowsNarrowAVX2, packWide: packRowsWideAVX2, packTrans: packTransposeAVX2,
		packPanels: packPanelsAVX2, transpose: transposeAVX2,
		segFill: segmentFillAVX2, segMerge: segmentMergeAVX2,
		segFill2: segmentFill2AVX2, segMerge2: segmentMerge2AVX2,
		segFillN: segmentFillNAVX2, segMergeN: segmentMergeNAVX2,

		unary: [numUnary]func(dst, src *float32, n int, p0, p1 float32){
			Neg:         vNegAVX2,
			Abs:         vAbsAVX2,
			Sqrt:        vSqrtAVX2,
			Recip:       vRecipAVX2,
			Square:      vSquareAVX2,
			Floor:       vFloorAVX2,
			Ceil:        vCeilAVX2,
			Round:       vRoundAVX2,
			Relu:        vReluAVX2,
			Clip:        vClipAVX2,
			LeakyRelu:   vLeakyReluAVX2,
			HardSigmoid: vHardSigmoidAVX2,
			HardSwish:   vHardSwishAVX2,
			Exp:         vExpAVX2,
			Log:         vLogAVX2,
			Tanh:        vTanhAVX2,
			Sigmoid:     vSigmoidAVX2,
			Erf:         vErfAVX2,
			Gelu:        vGeluAVX2,
			GeluTanh:    vGeluTanhAVX2,
			Silu:        vSiluAVX2,
			Softplus:    vSoftplusAVX2,
			Softsign:    vSoftsignAVX2,
			Elu:         vEluAVX2,
			Mish:        vMishAVX2,
		},
		binVV: [numBinary]func(dst, a, b *float32, n int){
			Add:   vvAddAVX2,
			Sub:   vvSubAVX2,
			Mul:   vvMulAVX2,
			Div:   vvDivAVX2,
			Max:   vvMaxAVX2,
			Min:   vvMinAVX2,
			PRelu: vvPReluAVX2,
		},
		binVS: [numBinary]func(dst, a *float32, s float32, n int){
			Add:   vsAddAVX2,
			Sub:   vsSubAVX2,
			Mul:   vsMulAVX2,
			Div:   vsDivAVX2,
			Max:   vsMaxAVX2,
			Min:   vsMinAVX2,
			PRelu: vsPReluAVX2,
		},
		binSV: [numBinary]func(dst *float32, s float32, b *float32, n int){
			Add:   svAddAVX2,
			Sub:   svSubAVX2,
			Mul:   svMulAVX2,
			Div:   svDivAVX2,
			Max:   svMaxAVX2,
			Min:   svMinAVX2,
			PRelu: svPReluAVX2,
		},
		subSub: vSubSubAVX2, subMul: vSubMulAVX2, mulAdd: vMulAddAVX2, mulAddRows: vMulAddRowsAVX2,
		ints: intTable{
			mulSub: intMulSubAVX2, toFloat: intToFloatAVX2, fromFloat: floatToIntAVX2, widenU: widenU8AVX2, widenS: widenS8AVX2,
			dequantU: dequantU8AVX2, dequantS: dequantS8AVX2, quant: quantAVX2, requant: requantAVX2,
		},
		lrn75:     vLrn75AVX2,
		blockTaps: blockTapsAVX2, blockMax: blockMaxAVX2, blockSum: blockSumAVX2, blockMulAdd: blockMulAddAVX2,
		halfToFloat: halfToFloatAVX2, floatToHalf: floatToHalfAVX2, bfloatToFloat: bfloatToFloatAVX2, floatToBfloat: floatToBfloatAVX2,
		normRow: vNormRowAVX2,
		sum:     rSumAVX2, sumAbs: rSumAbsAVX2, sumSq: rSumSqAVX2, dot: rDotAVX2, dotRows: rDotRowsAVX2, sumSqDiff: rSumSqDiffAVX2,
		max: rMaxAVX2, min: rMinAVX2, expSum: rExpSumAVX2, expSumOnly: rExpSumOnlyAVX2,
	},
	LevelAVX512: {
		level: LevelAVX512,
		lanes: 16,
		peak:  peakAVX512,
		flops: 12 * 16 * 2,

		mr: 14, nr: 32, tw: 16,
		packNarrow: packRowsNarrowAVX512, packWide: packRowsWideAVX512, packTrans: packTransposeAVX512,
		packPanels: packPanelsAVX512, transpose: transposeAVX512,
		segFill: segmentFillAVX512, segMerge: segmentMergeAVX512,
		segFill2: segmentFill2AVX512, segMerge2: segmentMerge2AVX512,
		segFillN: segmentFillNAVX512, segMergeN: segmentMergeNAVX512,

		unary: [numUnary]func(dst, src *float32, n int, p0, p1 float32){
			Neg:         vNegAVX512,
			Abs:         vAbsAVX512,
			Sqrt:        vSqrtAVX512,
			Recip:       vRecipAVX512,
			Square:      vSquareAVX512,
			Floor:       vFloorAVX512,
			Ceil:        vCeilAVX512,
			Round:       vRoundAVX512,
			Relu:        vReluAVX512,
			Clip:        vClipAVX512,
			LeakyRelu:   vLeakyReluAVX512,
			HardSigmoid: vHardSigmoidAVX512,
			HardSwish:   vHardSwishAVX512,
			Exp:         vExpAVX512,
			Log:         vLogAVX512,
			Tanh:        vTanhAVX512,
			Sigmoid:     vSigmoidAVX512,
			Erf:         vErfAVX512,
			Gelu:        vGeluAVX512,
			GeluTanh:    vGeluTanhAVX512,
			Silu:        vSiluAVX512,
			Softplus:    vSoftplusAVX512,
			Softsign:    vSoftsignAVX512,
			Elu:         vEluAVX512,
			Mish:        vMishAVX512,
		},
		binVV: [numBinary]func(dst, a, b *float32, n int){
			Add:   vvAddAVX512,
			Sub:   vvSubAVX512,
			Mul:   vvMulAVX512,
			Div:   vvDivAVX512,
			Max:   vvMaxAVX512,
			Min:   vvMinAVX512,
			PRelu: vvPReluAVX512,
		},
		binVS: [numBinary]func(dst, a *float32, s float32, n int){
			Add:   vsAddAVX512,
			Sub:   vsSubAVX512,
			Mul:   vsMulAVX512,
			Div:   vsDivAVX512,
			Max:   vsMaxAVX512,
			Min:   vsMinAVX512,
			PRelu: vsPReluAVX512,
		},
		binSV: [numBinary]func(dst *float32, s float32, b *float32, n int){
			Add:   svAddAVX512,
			Sub:   svSubAVX512,
			Mul:   svMulAVX512,
			Div:   svDivAVX512,
			Max:   svMaxAVX512,
			Min:   svMinAVX512,
			PRelu: svPReluAVX512,
		},
		subSub: vSubSubAVX512, subMul: vSubMulAVX512, mulAdd: vMulAddAVX512, mulAddRows: vMulAddRowsAVX512,
		ints: intTable{
			mulSub: intMulSubAVX512, toFloat: intToFloatAVX512, fromFloat: floatToIntAVX512, widenU: widenU8AVX512, widenS: widenS8AVX512,
			dequantU: dequantU8AVX512, dequantS: dequantS8AVX512, quant: quantAVX512, requant: requantAVX512,
		},
		lrn75:     vLrn75AVX512,
		blockTaps: blockTapsAVX512, blockMax: blockMaxAVX512, blockSum: blockSumAVX512, blockMulAdd: blockMulAddAVX512,
		halfToFloat: halfToFloatAVX512, floatToHalf: floatToHalfAVX512, bfloatToFloat: bfloatToFloatAVX512, floatToBfloat: floatToBfloatAVX512,
		normRow: vNormRowAVX512,
		sum:     rSumAVX512, sumAbs: rSumAbsAVX512, sumSq: rSumSqAVX512, dot: rDotAVX512, dotRows: rDotRowsAVX512, sumSqDiff: rSumSqDiffAVX512,
		max: rMaxAVX512, min: rMinAVX512, expSum: rExpSumAVX512, expSumOnly: rExpSumOnlyAVX512,
	},
}

// The integer product of AVX-512 needs the VNNI extension; without it the AVX2
// kernels serve.
func init() {
	tables[LevelAVX2].ints.pairRowU, tables[LevelAVX2].ints.pairRowS = pairRowU8AVX2, pairRowS8AVX2
	t := tables[LevelAVX512]
	if cpu.X86.HasAVX512VNNI {
		t.ints.quads = true
		t.ints.quadRow = quadRowAVX512
	} else {
		t.ints.base = tables[LevelAVX2]
	}
}
