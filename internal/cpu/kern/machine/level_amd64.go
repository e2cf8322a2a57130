package machine

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
