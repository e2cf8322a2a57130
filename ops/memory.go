package ops

import "github.com/berth-onnx/berth/internal/sysmem"

// MemoryError says that running a model would take more memory than it may.
type MemoryError = sysmem.Error

// DefaultMaxMemory is how many bytes a run may use where no limit is set: three
// quarters of the machine's memory, or 64 GiB where the system does not say how
// much that is.
func DefaultMaxMemory() int64 { return sysmem.Default() }

// Room asks for bytes more memory under a limit on what is alive in the Go heap
// (0: the default limit). A nil error grants it, else it is a [*MemoryError].
func Room(what string, bytes, limit int64) error { return sysmem.Room(what, bytes, limit) }
