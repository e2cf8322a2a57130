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
		packPanels: packPanelsAVX2,
		segFill:    segmentFillAVX2, segMerge: segmentMergeAVX2,
		segFill2: segmentFill2AVX2, segMerge2: segmentMerge2AVX2,
		segFillN: segmentFillNAVX2, segMergeN: segmentMergeNAVX2,
		depth: depthRowsAVX2,
	},
	LevelAVX512: {
		level: LevelAVX512,
		lanes: 16,
		peak:  peakAVX512,
		flops: 12 * 16 * 2,

		mr: 14, nr: 32, tw: 16,
		packNarrow: packRowsNarrowAVX512, packWide: packRowsWideAVX512, packTrans: packTransposeAVX512,
		packPanels: packPanelsAVX512,
		segFill:    segmentFillAVX512, segMerge: segmentMergeAVX512,
		segFill2: segmentFill2AVX512, segMerge2: segmentMerge2AVX512,
		segFillN: segmentFillNAVX512, segMergeN: segmentMergeNAVX512,
		depth: depthRowsAVX512,
	},
}
