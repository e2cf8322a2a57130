package ops

import (
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// MemoryError says that an operation would take more memory than it may.
type MemoryError = sysmem.Error

// DefaultMaxMemory is how many bytes an operation may use where no limit is set: three
// quarters of the machine's memory, or 64 GiB where the system does not say how
// much that is.
func DefaultMaxMemory() int64 { return ndarray.Budget(0).Bytes() }
