package kern

// table is the set of kernels of one level. Plans keep the table they were
// made with; plain functions read the active one.
type table struct {
	level Level
	lanes int              // float32 lanes of a vector, 1 for the generic level
	peak  func(rounds int) // rounds × peakFlops floating point operations
	flops int
}

// genericTable serves every machine.
var genericTable = &table{
	level: LevelGeneric,
	lanes: 1,
	peak:  peakGeneric,
	flops: 12 * 2,
}
