package ops

import (
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// MemoryError says that an operation would take more memory than it may.
type MemoryError = sysmem.Error

// DefaultMaxMemory is how many bytes an operation may use where no limit is set: three
// quarters of the memory of the machine or of the process's control group (memory.max, memory.high),
// or 64 GiB where the system does not say how much that is; GOMEMLIMIT if that is less. It is found once.
func DefaultMaxMemory() int64 { return ndarray.Budget(0).Bytes() }
