package cuda

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// Errors of compiling and of sessions. What a kernel reports while it runs is a [KernelError].
type (
	// NoDriverError says that the NVIDIA driver is not there, or cannot be loaded.
	NoDriverError = device.NoDriverError
	// OldDriverError says that the driver cannot run the kernels.
	OldDriverError = device.OldDriverError
	// NoDeviceError says that there is no GPU of a number.
	NoDeviceError = device.NoDeviceError
	// MemoryError says that the GPU has too little memory.
	MemoryError = device.MemoryError
	// KernelError says that a kernel failed.
	KernelError = device.KernelError
)
